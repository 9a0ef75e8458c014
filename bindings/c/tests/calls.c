/* Every call of the library, each with what it promises. Argument: a folder for stores. */
#define _POSIX_C_SOURCE 200809L
#include <koine.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int checks;

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        checks++;                                                                                                      \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s; error: %s\n", __FILE__, __LINE__, #what, koine_error_message(error));  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The last call failed with this kind and a message that holds this text. */
#define FAILED(of, text)                                                                                               \
    do {                                                                                                               \
        CHECK(error != NULL && koine_error_kind(error) == (of));                                                       \
        CHECK(strstr(koine_error_message(error), text) != NULL);                                                       \
        koine_error_free(error);                                                                                       \
        error = NULL;                                                                                                  \
    } while (0)

static koine_error *error;
static char path[4096];

static const char *in(const char *folder, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void objects(koine_store *store)
{
    char buffer[64];
    koine_object_status status;
    koine_hint hint = {KOINE_ACCESS_SEQUENTIAL, KOINE_LIFETIME_SHORT, 1000};
    koine_object *object = koine_object_create(store, 0, &hint, &error);
    CHECK(object && !error);
    uint64_t number = koine_object_number(object);
    CHECK(number > 0);
    CHECK(koine_object_write(object, 5, 3, "abc", KOINE_NO_SYNC, &error) == 3);
    CHECK(koine_object_write(object, 0, 1, "x", KOINE_SYNC, &error) == 1);
    CHECK(koine_object_write(object, 1, 1, "y", KOINE_WRITTEN, &error) == 1);
    memset(buffer, '#', sizeof buffer);
    CHECK(koine_object_read(object, 0, sizeof buffer, buffer, &error) == 8);
    CHECK(memcmp(buffer, "xy\0\0\0abc#", 9) == 0);
    CHECK(koine_object_read(object, 8, 10, buffer, &error) == 0);
    CHECK(koine_object_will_need(object, 0, 1 << 20, &error));
    CHECK(koine_object_resize(object, 6, KOINE_SYNC, &error));
    CHECK(koine_object_sync(object, &error));
    CHECK(koine_object_get_status(object, &status, &error));
    CHECK(status.number == number && status.size == 6 && status.version > 0);
    CHECK(strcmp(status.store, path) == 0);
    koine_object *second = koine_object_open(store, number, NULL, &error);
    CHECK(second != NULL && second != object);
    CHECK(koine_object_close(object, KOINE_SYNC, &error));
    CHECK(koine_object_delete(second, KOINE_SYNC, &error));
    CHECK(koine_object_open(store, number, NULL, &error) == NULL);
    FAILED(KOINE_NOT_FOUND, "not there");
}

static void many(koine_store *store)
{
    uint64_t first = 0, numbers[8];
    koine_store_status status;
    CHECK(koine_store_create_many(store, 5, 100, KOINE_SYNC, &first, &error));
    CHECK(koine_store_list(store, first, numbers, 8, &error) == 5);
    for (int at = 0; at < 5; at++)
        CHECK(numbers[at] == first + at);
    CHECK(koine_store_get_status(store, &status, &error));
    CHECK(status.objects == 5 && status.objects_open == 0 && status.object_limit == 1000);
    CHECK(status.objects_possible == 995 && status.block_size == 4096 && status.used <= status.size);
    CHECK(strcmp(status.path, path) == 0);
    CHECK(koine_store_delete_many(store, numbers, 5, KOINE_SYNC, &error));
    CHECK(koine_store_list(store, 0, numbers, 8, &error) == 0);
    CHECK(!koine_store_create_many(store, 1001, 0, KOINE_SYNC, &first, &error));
    FAILED(KOINE_FULL, "1000 objects");
    CHECK(koine_store_sync(store, &error));
}

static void transactions(koine_store *store)
{
    static char block[4096];
    char buffer[16] = "", later[16] = "";
    int64_t done = -7;
    koine_object *object = koine_object_create(store, 0, NULL, &error);
    koine_object *other = koine_object_create(store, 0, NULL, &error);
    koine_transaction *transaction = koine_transaction_start(object, &error);
    CHECK(transaction != NULL);
    for (int at = 255; at >= 0; at--) {
        memset(block, at, sizeof block);
        CHECK(koine_transaction_write(transaction, object, at * 4096, 4096, block, &error) == 4096);
    }
    CHECK(koine_transaction_write(transaction, other, 0, 5, "other", &error) == 5);
    CHECK(koine_transaction_read_later(transaction, object, 4095, 2, later, &done, &error));
    CHECK(koine_transaction_read_later(transaction, object, 0, 1, buffer, NULL, &error));
    CHECK(koine_transaction_read(transaction, other, 0, sizeof buffer, buffer, &error) == 5);
    CHECK(memcmp(buffer, "other", 5) == 0);
    CHECK(koine_object_read(other, 0, sizeof buffer, buffer, &error) == 0);
    CHECK(koine_object_read(object, 0, sizeof buffer, buffer, &error) == 0);
    CHECK(koine_transaction_execute(transaction, KOINE_SYNC, &error) == 256 * 4096 + 5 + 3);
    CHECK(done == 2 && later[0] == 0 && later[1] == 1);
    CHECK(koine_object_read(object, 4096 * 200, 2, buffer, &error) == 2 && (unsigned char)buffer[0] == 200);
    CHECK(koine_object_read(other, 0, sizeof buffer, buffer, &error) == 5);
    CHECK(koine_transaction_execute(transaction, KOINE_SYNC, &error) == -1);
    FAILED(KOINE_INVALID, "not open");

    transaction = koine_transaction_start(object, &error);
    CHECK(koine_transaction_write(transaction, object, 0, 4, "gone", &error) == 4);
    CHECK(koine_transaction_abandon(transaction, &error));
    CHECK(koine_object_read(object, 0, 1, buffer, &error) == 1 && buffer[0] == 0);
    CHECK(!koine_store_close(store, &error));
    FAILED(KOINE_BUSY, "2 objects open");
    CHECK(koine_object_delete(object, KOINE_NO_SYNC, &error));
    CHECK(koine_object_delete(other, KOINE_NO_SYNC, &error));
}

/* Bytes without a copy, verified, as they were. */
static void mapped(koine_store *store)
{
    static char data[3 << 20];
    koine_object *object = koine_object_create(store, 0, NULL, &error);
    for (size_t at = 0; at < sizeof data; at++) data[at] = (char)(at / 5);
    CHECK(koine_object_write(object, 0, sizeof data, data, KOINE_SYNC, &error) == (int64_t)sizeof data);
    koine_mapped *all = koine_object_map(object, 0, UINT64_MAX, &error);
    koine_mapped *part = koine_object_map(object, 1000, 2000000, &error);
    CHECK(all && part && !error);
    CHECK(koine_mapped_length(all) == sizeof data && koine_mapped_length(part) == 2000000);
    CHECK(koine_object_write(object, 0, 5, "other", KOINE_SYNC, &error) == 5);
    CHECK(koine_object_delete(object, KOINE_SYNC, &error));
    CHECK(memcmp(koine_mapped_bytes(all), data, sizeof data) == 0);
    CHECK(memcmp(koine_mapped_bytes(part), data + 1000, 2000000) == 0);
    CHECK(!koine_store_close(store, &error));
    FAILED(KOINE_BUSY, "open");
    CHECK(koine_mapped_free(all, &error) && koine_mapped_free(part, &error));
    CHECK(!koine_mapped_free(part, &error));
    FAILED(KOINE_INVALID, "not open");
    CHECK(koine_mapped_bytes(part) == NULL && koine_mapped_length(part) == 0 && !koine_mapped_is_copy(part));
    CHECK(koine_object_map(object, 0, 1, &error) == NULL);
    FAILED(KOINE_INVALID, "not open");
}

/* Whatever is wrong is an error. */
static void misuse(koine_store *store, const char *folder)
{
    char buffer[8] = "";
    koine_object_status object_status;
    koine_store_status store_status;
    koine_object *object = koine_object_create(store, 0, NULL, &error);
    koine_transaction *transaction = koine_transaction_start(object, &error);
    koine_object *made_up = (koine_object *)(uintptr_t)0x1234;

    CHECK(koine_store_open(NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "NULL");
    CHECK(koine_store_open("", &error) == NULL);
    FAILED(KOINE_INVALID, "empty");
    CHECK(koine_store_create(NULL, NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "NULL");
    koine_store_options options = {.block_size = 512};
    CHECK(koine_store_create("unused", &options, &error) == NULL);
    FAILED(KOINE_INVALID, "4096");
    CHECK(koine_store_open(path, &error) == NULL);
    FAILED(KOINE_OWNED, "");
    CHECK(koine_store_create(path, NULL, &error) == NULL);
    FAILED(KOINE_OWNED, "");
    char other[4096];
    snprintf(other, sizeof other, "%s/missing", folder);
    CHECK(koine_store_open(other, &error) == NULL);
    FAILED(KOINE_NOT_FOUND, "missing");
    CHECK(koine_store_open(folder, &error) == NULL);
    FAILED(KOINE_UNKNOWN, "folder");
    CHECK(!koine_store_close(NULL, &error));
    FAILED(KOINE_INVALID, "the store is NULL");
    CHECK(!koine_store_close((koine_store *)object, &error));
    FAILED(KOINE_INVALID, "the store is not open");
    CHECK(!koine_store_sync(NULL, &error));
    FAILED(KOINE_INVALID, "NULL");
    CHECK(!koine_store_get_status(store, NULL, &error));
    FAILED(KOINE_INVALID, "status is NULL");
    CHECK(!koine_store_get_status(NULL, &store_status, &error));
    FAILED(KOINE_INVALID, "NULL");
    CHECK(!koine_store_create_many(store, 1, 0, KOINE_SYNC, NULL, &error));
    FAILED(KOINE_INVALID, "NULL");
    CHECK(!koine_store_delete_many(store, NULL, 1, KOINE_SYNC, &error));
    FAILED(KOINE_INVALID, "NULL");
    CHECK(!koine_store_delete_many(store, NULL, UINT64_MAX, KOINE_SYNC, &error));
    FAILED(KOINE_INVALID, "the most");
    CHECK(koine_store_list(store, 0, NULL, 1, &error) == -1);
    FAILED(KOINE_INVALID, "NULL");
    CHECK(koine_object_create(NULL, 0, NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "NULL");
    CHECK(koine_object_create(store, UINT64_MAX, NULL, &error) == NULL);
    FAILED(KOINE_FULL, "free");
    koine_hint hint = {(koine_access)9, KOINE_LIFETIME_UNKNOWN, 0};
    CHECK(koine_object_open(store, koine_object_number(object), &hint, &error) == NULL);
    FAILED(KOINE_INVALID, "9 is no koine_access");
    CHECK(koine_object_open(store, 0, NULL, &error) == NULL);
    FAILED(KOINE_NOT_FOUND, "object 0");
    CHECK(koine_object_write(made_up, 0, 1, "x", KOINE_SYNC, &error) == -1);
    FAILED(KOINE_INVALID, "the object is not open");
    CHECK(koine_object_write(object, 0, 1, NULL, KOINE_SYNC, &error) == -1);
    FAILED(KOINE_INVALID, "the buffer is NULL");
    CHECK(koine_object_write(object, 0, 0, NULL, KOINE_SYNC, &error) == 0);
    CHECK(koine_object_write(object, 0, UINT64_MAX, "x", KOINE_SYNC, &error) == -1);
    FAILED(KOINE_INVALID, "more than memory");
    CHECK(koine_object_write(object, UINT64_MAX, 1, "x", KOINE_SYNC, &error) == -1);
    FAILED(KOINE_INVALID, "longest");
    CHECK(koine_object_write(object, 0, 1, "x", 17, &error) == -1);
    FAILED(KOINE_INVALID, "17 is no koine_sync");
    CHECK(koine_object_read(object, 0, 1, NULL, &error) == -1);
    FAILED(KOINE_INVALID, "the buffer is NULL");
    CHECK(!koine_object_resize(object, UINT64_MAX, KOINE_SYNC, &error));
    FAILED(KOINE_INVALID, "longest");
    CHECK(!koine_object_get_status(object, NULL, &error));
    FAILED(KOINE_INVALID, "NULL");
    CHECK(!koine_object_get_status(NULL, &object_status, &error));
    FAILED(KOINE_INVALID, "NULL");
    CHECK(koine_object_number(NULL) == 0 && koine_object_number(made_up) == 0);
    CHECK(!koine_object_sync(NULL, &error));
    FAILED(KOINE_INVALID, "NULL");
    CHECK(!koine_object_will_need(NULL, 0, 1, &error));
    FAILED(KOINE_INVALID, "NULL");
    CHECK(koine_transaction_start(NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "NULL");
    CHECK(koine_transaction_write(NULL, object, 0, 1, "x", &error) == -1);
    FAILED(KOINE_INVALID, "the transaction is NULL");
    CHECK(koine_transaction_read(transaction, NULL, 0, 1, buffer, &error) == -1);
    FAILED(KOINE_INVALID, "the object is NULL");
    CHECK(!koine_transaction_read_later(transaction, object, 0, 1, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "the buffer is NULL");
    CHECK(koine_transaction_execute(transaction, -1, &error) == -1);
    FAILED(KOINE_INVALID, "-1 is no koine_sync");
    CHECK(koine_transaction_abandon(transaction, &error));
    CHECK(!koine_transaction_abandon(transaction, &error));
    FAILED(KOINE_INVALID, "not open");
    CHECK(!koine_object_close(object, 17, &error));
    FAILED(KOINE_INVALID, "17");
    CHECK(koine_object_close(object, KOINE_NO_SYNC, &error));
    CHECK(!koine_object_close(object, KOINE_NO_SYNC, &error));
    FAILED(KOINE_INVALID, "not open");
    CHECK(!koine_object_delete(object, KOINE_NO_SYNC, &error));
    FAILED(KOINE_INVALID, "not open");
    CHECK(koine_object_read(object, 0, 1, buffer, &error) == -1);
    FAILED(KOINE_INVALID, "not open");
    CHECK(koine_error_kind(NULL) == KOINE_OK && *koine_error_message(NULL) == 0);
    koine_error_free(NULL);
    /* Nobody wants to know. */
    CHECK(koine_object_read(object, 0, 1, buffer, NULL) == -1);
}

static koine_object *shared;

static void *write_own_blocks(void *argument)
{
    char block[1000];
    uint64_t thread = (uint64_t)(uintptr_t)argument;
    koine_error *mine = NULL;
    memset(block, (int)thread + 1, sizeof block);
    for (uint64_t round = 0; round < 50; round++)
        if (koine_object_write(shared, (round * 4 + thread) * 1000, 1000, block, KOINE_NO_SYNC, &mine) != 1000)
            return mine;
    /* Each thread has errors of its own. */
    koine_object_close((koine_object *)(uintptr_t)(thread + 1), KOINE_SYNC, &mine);
    int kind = koine_error_kind(mine);
    koine_error_free(mine);
    return kind == KOINE_INVALID ? NULL : argument;
}

static void threads(koine_store *store)
{
    pthread_t thread[4];
    static char bytes[200000];
    shared = koine_object_create(store, 0, NULL, &error);
    for (uintptr_t at = 0; at < 4; at++)
        pthread_create(&thread[at], NULL, write_own_blocks, (void *)at);
    for (int at = 0; at < 4; at++) {
        void *result;
        pthread_join(thread[at], &result);
        CHECK(result == NULL);
    }
    CHECK(koine_object_read(shared, 0, sizeof bytes, bytes, &error) == sizeof bytes);
    for (size_t at = 0; at < sizeof bytes; at++)
        CHECK(bytes[at] == (char)(at / 1000 % 4 + 1));
    CHECK(koine_object_delete(shared, KOINE_SYNC, &error));
}

/* A store that grows, goes out as a stream and comes in as another. */
static void streams(koine_store *store, const char *folder)
{
    koine_store_status status;
    CHECK(koine_store_grow(store, 96 << 20, &error));
    CHECK(koine_store_get_status(store, &status, &error) && status.size_max == 96 << 20);
    CHECK(!koine_store_grow(store, 4096, &error));
    FAILED(KOINE_INVALID, "does not become smaller");
    CHECK(!koine_store_grow(NULL, 4096, &error));
    FAILED(KOINE_INVALID, "NULL");

    koine_object *object = koine_object_create(store, 0, NULL, &error);
    uint64_t number = koine_object_number(object);
    CHECK(koine_object_write(object, 0, 6, "stream", KOINE_NO_SYNC, &error) == 6);
    CHECK(koine_store_export(store, -1, &error) == -1);
    FAILED(KOINE_INVALID, "no file descriptor");
    FILE *stream = tmpfile();
    CHECK(stream != NULL);
    int64_t length = koine_store_export(store, fileno(stream), &error);
    CHECK(length > 0 && lseek(fileno(stream), 0, SEEK_CUR) == length);
    CHECK(koine_object_delete(object, KOINE_SYNC, &error));

    char copy[4096];
    snprintf(copy, sizeof copy, "%s/copy", folder);
    koine_store_options options = {.block_size = 65536, .size_max = 64 << 20};
    CHECK(koine_store_receive(copy, &options, fileno(stream), &error) == NULL);
    CHECK(error != NULL);
    koine_error_free(error);
    error = NULL;
    CHECK(access(copy, F_OK) != 0);
    CHECK(lseek(fileno(stream), 0, SEEK_SET) == 0);
    koine_store *received = koine_store_receive(copy, &options, fileno(stream), &error);
    CHECK(received != NULL && koine_store_get_status(received, &status, &error));
    CHECK(status.block_size == 65536 && status.object_limit == 1000);
    object = koine_object_open(received, number, NULL, &error);
    char buffer[6];
    CHECK(koine_object_read(object, 0, 6, buffer, &error) == 6 && memcmp(buffer, "stream", 6) == 0);
    CHECK(koine_object_close(object, KOINE_NO_SYNC, &error) && koine_store_close(received, &error));
    fclose(stream);
}

int main(int argc, char const *argv[])
{
    CHECK(argc == 2);
    koine_store_options options = {.block_size = 4096, .object_limit = 1000, .size_max = 64 << 20, .memory = 32 << 20};
    koine_store *other = koine_store_create(in(argv[1], "other"), NULL, &error);
    CHECK(other != NULL);
    koine_store *store = koine_store_create(in(argv[1], "store"), &options, &error);
    CHECK(store != NULL);
    objects(store);
    many(store);
    transactions(store);
    mapped(store);
    misuse(store, argv[1]);
    threads(store);
    streams(store, argv[1]);
    koine_object *kept = koine_object_create(store, 0, NULL, &error);
    uint64_t number = koine_object_number(kept);
    CHECK(koine_object_write(kept, 0, 4, "kept", KOINE_NO_SYNC, &error) == 4);
    CHECK(koine_object_close(kept, KOINE_NO_SYNC, &error));
    CHECK(koine_store_close(store, &error));
    CHECK(!koine_store_close(store, &error));
    FAILED(KOINE_INVALID, "not open");
    CHECK(koine_store_create(path, &options, &error) == NULL);
    FAILED(KOINE_UNKNOWN, "Koine store");
    store = koine_store_open(path, &error);
    CHECK(store != NULL);
    char buffer[4];
    kept = koine_object_open(store, number, NULL, &error);
    CHECK(koine_object_read(kept, 0, 4, buffer, &error) == 4 && memcmp(buffer, "kept", 4) == 0);
    CHECK(koine_object_close(kept, KOINE_NO_SYNC, &error));
    CHECK(koine_store_close(store, &error));
    CHECK(koine_store_close(other, &error));
    options.force = 1;
    options.block_size = 65536;
    store = koine_store_create(path, &options, &error);
    koine_store_status status;
    CHECK(store != NULL && koine_store_get_status(store, &status, &error) && status.block_size == 65536);
    CHECK(koine_store_close(store, &error));
    CHECK(strlen(koine_version()) >= 5);
    printf("%d checks\n", checks);
    return 0;
}
