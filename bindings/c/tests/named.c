/* Every call on buckets and named objects, each with what it promises. Argument: a folder for a store. Compiles as C99 and
 * as C++. */
#define _POSIX_C_SOURCE 200809L
#include <koine.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int checks;
static koine_error *error;
static koine_result *told;

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        checks++;                                                                                                      \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s; error: %s %s\n", __FILE__, __LINE__, #what, koine_error_name(error),   \
                    koine_error_message(error));                                                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The last call failed with this kind, of this name. */
#define FAILED(of, name)                                                                                               \
    do {                                                                                                               \
        CHECK(error != NULL && koine_error_kind(error) == (of));                                                       \
        CHECK(strcmp(koine_error_name(error), name) == 0 && koine_error_message(error)[0] != 0);                       \
        koine_error_free(error);                                                                                       \
        error = NULL;                                                                                                  \
    } while (0)

static koine_name in(const char *key)
{
    return koine_in("bucket", key);
}

static const char *text(const koine_result *result, int field)
{
    return koine_result_text(result, 0, field);
}

static uint64_t number(const koine_result *result, int field)
{
    return koine_result_number(result, 0, field);
}

static void done(koine_result **result)
{
    koine_result_free(*result);
    *result = NULL;
}

static bool put(koine_session *session, const char *key, const char *body)
{
    return koine_put(session, in(key), body, strlen(body), NULL, NULL, &error);
}

/* Whether an object holds this. */
static bool holds(koine_session *session, const char *key, const char *body)
{
    koine_result *all = koine_get_all(session, in(key), &error);
    bool same = all != NULL && koine_result_length(all, 0, KOINE_BODY) == strlen(body) &&
                memcmp(text(all, KOINE_BODY), body, strlen(body)) == 0 && number(all, KOINE_SIZE) == strlen(body);
    koine_result_free(all);
    return same;
}

static void buckets(koine_session *session)
{
    koine_bucket_change change;
    koine_list_options page;
    CHECK(koine_bucket_create(session, "bucket", &told, &error));
    CHECK(strcmp(text(told, KOINE_NAME), "bucket") == 0 && number(told, KOINE_CREATED) > 0);
    CHECK(!koine_result_has(told, 0, KOINE_QUOTA_BYTES) && koine_result_rows(told) == 1);
    done(&told);
    CHECK(!koine_bucket_create(session, "bucket", NULL, &error));
    FAILED(KOINE_BUCKET_ALREADY_OWNED_BY_YOU, "BucketAlreadyOwnedByYou");
    CHECK(!koine_bucket_create(session, "No", NULL, &error));
    FAILED(KOINE_INVALID_BUCKET_NAME, "InvalidBucketName");
    CHECK(koine_bucket_create(session, "other", NULL, &error));
    koine_init(&page);
    page.limit = 1;
    told = koine_bucket_list(session, &page, &error);
    CHECK(koine_result_rows(told) == 1 && strcmp(text(told, KOINE_NAME), "bucket") == 0 && koine_result_has_next(told));
    page.after = koine_result_next(told);
    koine_result *second = koine_bucket_list(session, &page, &error);
    CHECK(koine_result_rows(second) == 1 && strcmp(text(second, KOINE_NAME), "other") == 0);
    done(&second);
    done(&told);
    koine_init(&change);
    change.flags = KOINE_CHANGE_QUOTA_OBJECTS;
    change.quota_objects = 1;
    change.quota_bytes = 5;
    CHECK(!koine_bucket_set(session, "other", &change, NULL, &error));
    CHECK(strstr(koine_error_message(error), "quota_bytes") && strstr(koine_error_message(error), "KOINE_CHANGE_QUOTA_BYTES"));
    FAILED(KOINE_INVALID, "InvalidArgument");
    change.quota_bytes = 0;
    change.flags |= KOINE_CHANGE_DISABLED;
    CHECK(!koine_bucket_set(session, "other", &change, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    change.flags = KOINE_CHANGE_QUOTA_OBJECTS;
    CHECK(koine_bucket_set(session, "other", &change, &told, &error) && number(told, KOINE_QUOTA_OBJECTS) == 1);
    done(&told);
    CHECK(koine_put(session, koine_in("other", "one"), "1", 1, NULL, NULL, &error));
    CHECK(!koine_put(session, koine_in("other", "two"), "2", 1, NULL, NULL, &error));
    FAILED(KOINE_QUOTA_EXCEEDED, "QuotaExceeded");
    change.quota_objects = UINT64_MAX;
    CHECK(koine_bucket_set(session, "other", &change, NULL, &error));
    told = koine_bucket_info(session, "other", &error);
    CHECK(told && !koine_result_has(told, 0, KOINE_QUOTA_OBJECTS));
    done(&told);
    told = koine_bucket_usage(session, "other", &error);
    CHECK(told && number(told, KOINE_OBJECTS) == 1 && number(told, KOINE_BYTES) == 1);
    done(&told);
    CHECK(!koine_bucket_delete(session, "other", 0, &error));
    FAILED(KOINE_BUCKET_NOT_EMPTY, "BucketNotEmpty");
    CHECK(koine_bucket_purge(session, "other", &error) && koine_bucket_delete(session, "other", 0, &error));
    CHECK(koine_bucket_info(session, "other", &error) == NULL);
    FAILED(KOINE_NO_SUCH_BUCKET, "NoSuchBucket");
    change.flags = 64;
    CHECK(!koine_bucket_set(session, "bucket", &change, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
}

static void objects(koine_session *session)
{
    koine_options options;
    char buffer[16], etag[64];
    koine_entry metadata[2] = {{"colour", "gr\xc3\xbcn"}, {"empty", ""}}, tags[1] = {{"team", "storage"}};
    koine_name zero = {"bucket", "a\0b", 3};
    koine_init(&options);
    options.flags = KOINE_IF_ABSENT | KOINE_MD5;
    options.content_type = "text/plain";
    options.metadata = metadata;
    options.metadata_count = 2;
    options.tags = tags;
    options.tag_count = 1;
    CHECK(koine_put(session, in("key"), "hello", 5, &options, &told, &error));
    CHECK(strcmp(text(told, KOINE_ETAG), "5d41402abc4b2a76b9719d911017c592") == 0);
    snprintf(etag, sizeof etag, "%s", text(told, KOINE_ETAG));
    CHECK(number(told, KOINE_SIZE) == 5 && strcmp(text(told, KOINE_CONTENT_TYPE), "text/plain") == 0);
    CHECK(koine_result_entries(told, 0, KOINE_METADATA) == 2 && koine_result_entries(told, 0, KOINE_TAGS) == 1);
    CHECK(strcmp(koine_result_entry_name(told, 0, KOINE_METADATA, 0), "colour") == 0);
    CHECK(strcmp(koine_result_entry_value(told, 0, KOINE_METADATA, 0), "gr\xc3\xbcn") == 0);
    CHECK(strcmp(koine_result_entry_value(told, 0, KOINE_TAGS, 0), "storage") == 0);
    CHECK(koine_result_entries(told, 0, KOINE_CHECKSUMS) == 1);
    uint64_t version = number(told, KOINE_VERSION);
    done(&told);
    CHECK(koine_put(session, in("drawn"), "hello", 5, NULL, &told, &error) && strchr(text(told, KOINE_ETAG), '-'));
    done(&told);
    CHECK(koine_delete(session, in("drawn"), NULL, &error) == 1);
    CHECK(!koine_put(session, in("key"), "x", 1, &options, NULL, &error));
    FAILED(KOINE_PRECONDITION_FAILED, "PreconditionFailed");
    options.flags = KOINE_IF_ABSENT | KOINE_IF_PRESENT;
    CHECK(!koine_put(session, in("key"), "x", 1, &options, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    options.flags = KOINE_IF_PRESENT;
    CHECK(!koine_put(session, in("absent"), "x", 1, &options, NULL, &error));
    FAILED(KOINE_NO_SUCH_KEY, "NoSuchKey");
    CHECK(!koine_append(session, in("key"), "x", 1, &options, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");

    memset(buffer, '#', sizeof buffer);
    CHECK(koine_get(session, in("key"), 1, sizeof buffer, buffer, &error) == 4 && memcmp(buffer, "ello#", 5) == 0);
    CHECK(koine_get(session, in("key"), 5, 1, buffer, &error) == 0);
    CHECK(koine_get(session, in("key"), UINT64_MAX, 1, buffer, &error) == 0);
    CHECK(koine_get(session, in("absent"), 0, 1, buffer, &error) == -1);
    FAILED(KOINE_NO_SUCH_KEY, "NoSuchKey");
    CHECK(holds(session, "key", "hello"));
    told = koine_head(session, in("key"), &error);
    CHECK(number(told, KOINE_VERSION) == version && strcmp(text(told, KOINE_NAME), "key") == 0);
    CHECK(strlen(text(told, KOINE_ID)) == 16 && number(told, KOINE_MODIFIED) > 0);
    done(&told);
    CHECK(koine_exists(session, in("key"), &error) == 1 && koine_exists(session, in("absent"), &error) == 0);
    CHECK(koine_exists(session, koine_in("nowhere", "key"), &error) == -1);
    FAILED(KOINE_NO_SUCH_BUCKET, "NoSuchBucket");

    CHECK(koine_put(session, zero, NULL, 0, NULL, &told, &error));
    CHECK(koine_result_length(told, 0, KOINE_NAME) == 3 && memcmp(text(told, KOINE_NAME), "a\0b", 4) == 0);
    done(&told);
    told = koine_list(session, "bucket", NULL, &error);
    CHECK(koine_result_rows(told) == 2 && koine_result_length(told, 0, KOINE_NAME) == 3);
    done(&told);
    CHECK(koine_delete(session, zero, NULL, &error) == 1 && koine_delete(session, zero, NULL, &error) == 0);

    koine_init(&options);
    options.flags = KOINE_IF_VERSION;
    options.if_version = version + 1000;
    CHECK(koine_delete(session, in("key"), &options, &error) == -1);
    FAILED(KOINE_PRECONDITION_FAILED, "PreconditionFailed");
    koine_init(&options);
    options.if_match = etag;
    CHECK(koine_put(session, in("key"), "", 0, &options, NULL, &error) && holds(session, "key", ""));
    CHECK(!koine_put(session, in("key"), "", 0, &options, NULL, &error));
    FAILED(KOINE_PRECONDITION_FAILED, "PreconditionFailed");
    CHECK(koine_delete(session, in("key"), NULL, &error) == 1);
    CHECK(!koine_put(session, in(""), "", 0, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(!koine_put(session, in("\xff"), "", 0, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
}

static int count(void *context, const koine_result *row)
{
    uint64_t *left = (uint64_t *)context;
    CHECK(koine_result_rows(row) == 1 && koine_result_length(row, 0, KOINE_NAME) > 0);
    return --*left == 0;
}

static void listings(koine_session *session)
{
    koine_list_options page;
    const char *keys[] = {"a/1", "a/2", "b", "c/1"};
    koine_name names[5];
    uint64_t left = 100;
    for (int at = 0; at < 4; at++)
        CHECK(put(session, keys[at], "x"));
    koine_init(&page);
    page.delimiter = "/";
    page.limit = 2;
    told = koine_list(session, "bucket", &page, &error);
    CHECK(koine_result_rows(told) == 2 && koine_result_number(told, 0, KOINE_IS_PREFIX) == 1);
    CHECK(strcmp(text(told, KOINE_NAME), "a/") == 0 && !koine_result_has(told, 1, KOINE_IS_PREFIX));
    page.after = koine_result_next(told);
    page.after_length = koine_result_next_length(told);
    koine_result *next = koine_list(session, "bucket", &page, &error);
    CHECK(koine_result_rows(next) == 1 && strcmp(text(next, KOINE_NAME), "c/") == 0 && !koine_result_has_next(next));
    done(&next);
    done(&told);
    CHECK(koine_for_each(session, "bucket", NULL, count, &left, &error) && left == 96);
    left = 2;
    CHECK(koine_for_each(session, "bucket", "a/", count, &left, &error) && left == 0);
    left = 100;
    CHECK(koine_bucket_for_each(session, "buck", count, &left, &error) && left == 99);
    CHECK(koine_copy_prefix(session, in("a/"), in("d/"), &error) == 2);
    CHECK(koine_move_prefix(session, in("d/"), in("e/"), &error) && holds(session, "e/2", "x"));
    CHECK(!koine_move_prefix(session, in("e/"), in("a/"), &error));
    FAILED(KOINE_ALREADY_EXISTS, "AlreadyExists");
    for (int at = 0; at < 4; at++)
        names[at] = in(keys[at]);
    names[4] = in("absent");
    told = koine_delete_many(session, names, 5, &error);
    CHECK(koine_result_rows(told) == 5 && koine_result_number(told, 3, KOINE_EXISTED) == 1);
    CHECK(koine_result_has(told, 4, KOINE_EXISTED) && koine_result_number(told, 4, KOINE_EXISTED) == 0);
    CHECK(!koine_result_has(told, 4, KOINE_ERROR_NAME));
    done(&told);
    CHECK(koine_bucket_purge(session, "bucket", &error));
}

static void edits(koine_session *session)
{
    koine_options options;
    koine_change change;
    koine_entry set[1] = {{"a", "2"}}, gone[1] = {{"b", NULL}}, all[2] = {{"a", "1"}, {"b", "1"}};
    koine_segment segments[2] = {{{"bucket", "one", KOINE_TERMINATED}, 1, 2, NULL},
                                 {{"bucket", "two", KOINE_TERMINATED}, 0, UINT64_MAX, NULL}};
    koine_init(&options);
    options.metadata = all;
    options.metadata_count = 2;
    CHECK(koine_put(session, in("one"), "12345", 5, &options, NULL, &error) && put(session, "two", "abc"));
    CHECK(koine_write_at(session, in("one"), 7, "!", 1, NULL, &told, &error) && number(told, KOINE_SIZE) == 8);
    done(&told);
    CHECK(koine_truncate(session, in("one"), 5, NULL, NULL, &error));
    CHECK(koine_append(session, in("one"), "6", 1, NULL, NULL, &error) && holds(session, "one", "123456"));
    koine_init(&options);
    options.flags = KOINE_NO_CREATE;
    CHECK(!koine_append(session, in("absent"), "6", 1, &options, NULL, &error));
    FAILED(KOINE_NO_SUCH_KEY, "NoSuchKey");
    CHECK(koine_write_at(session, in("far"), UINT64_C(5) << 30, "x", 1, NULL, &told, &error));
    CHECK(number(told, KOINE_SIZE) == (UINT64_C(5) << 30) + 1);
    done(&told);
    CHECK(koine_delete(session, in("far"), NULL, &error) == 1);
    CHECK(koine_write_copy(session, &segments[0], in("two"), 1, NULL, NULL, &error) && holds(session, "two", "a23"));
    CHECK(!koine_write_copy(session, &segments[1], in("two"), 1, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_compose(session, segments, 2, in("three"), NULL, &told, &error) && holds(session, "three", "23a23"));
    CHECK(koine_result_entries(told, 0, KOINE_METADATA) == 0);
    done(&told);
    options.flags = KOINE_SOURCE_ATTRIBUTES | KOINE_IF_PRESENT;
    CHECK(koine_compose(session, segments, 2, in("three"), &options, &told, &error));
    CHECK(koine_result_entries(told, 0, KOINE_METADATA) == 2);
    done(&told);
    segments[0].length = 100;
    CHECK(!koine_compose(session, segments, 2, in("three"), NULL, NULL, &error));
    FAILED(KOINE_INVALID_RANGE, "InvalidRange");
    CHECK(koine_copy(session, in("one"), in("copy"), NULL, &told, &error) && holds(session, "copy", "123456"));
    CHECK(koine_result_entries(told, 0, KOINE_METADATA) == 2);
    done(&told);
    options.flags = KOINE_REPLACE_ATTRIBUTES;
    CHECK(koine_copy(session, in("one"), in("copy"), &options, &told, &error));
    CHECK(koine_result_entries(told, 0, KOINE_METADATA) == 0);
    done(&told);
    options.flags = 0;
    options.source_if_match = "nothing";
    CHECK(!koine_move(session, in("copy"), in("moved"), &options, NULL, &error));
    FAILED(KOINE_PRECONDITION_FAILED, "PreconditionFailed");
    CHECK(koine_move(session, in("copy"), in("two"), NULL, NULL, &error) && holds(session, "two", "123456"));
    CHECK(koine_exists(session, in("copy"), &error) == 0);
    CHECK(koine_exchange(session, in("two"), in("three"), &told, &error) && holds(session, "two", "23a23"));
    CHECK(koine_result_rows(told) == 2 && koine_result_number(told, 1, KOINE_SIZE) == 6);
    done(&told);
    koine_init(&change);
    change.flags = KOINE_CHANGE_MODE | KOINE_CHANGE_OWNER | KOINE_CHANGE_MODIFIED | KOINE_CHANGE_ALL_TAGS;
    change.set_metadata = set;
    change.set_metadata_count = 1;
    change.remove_metadata = gone;
    change.remove_metadata_count = 1;
    change.set_tags = set;
    change.set_tag_count = 1;
    change.mode = 0600;
    change.uid = 7;
    change.gid = 8;
    change.modified = 1000000000;
    for (int flag = 0; flag < 3; flag++) {
        const int flags[] = {KOINE_CHANGE_MODE, KOINE_CHANGE_OWNER, KOINE_CHANGE_MODIFIED};
        change.flags &= ~(uint64_t)flags[flag];
        CHECK(!koine_set(session, in("one"), &change, NULL, NULL, &error));
        CHECK(strstr(koine_error_message(error), "without the flag KOINE_CHANGE_"));
        FAILED(KOINE_INVALID, "InvalidArgument");
        change.flags |= (uint64_t)flags[flag];
    }
    koine_init(&options);
    options.if_version = 1;
    CHECK(!koine_set(session, in("one"), &change, &options, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_set(session, in("one"), &change, NULL, &told, &error));
    CHECK(koine_result_entries(told, 0, KOINE_METADATA) == 1 && koine_result_entries(told, 0, KOINE_TAGS) == 1);
    CHECK(strcmp(koine_result_entry_value(told, 0, KOINE_METADATA, 0), "2") == 0 && number(told, KOINE_MODE) == 0600);
    CHECK(number(told, KOINE_UID) == 7 && number(told, KOINE_GID) == 8 && number(told, KOINE_MODIFIED) == 1000000000);
    done(&told);
    CHECK(koine_bucket_purge(session, "bucket", &error));
}

static void descriptors(koine_session *session, const char *folder)
{
    char path[4096], buffer[8] = "";
    snprintf(path, sizeof path, "%s/file", folder);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, "some bytes", 10) == 10 && lseek(file, 5, SEEK_SET) == 5);
    CHECK(koine_put_fd(session, in("fd"), file, NULL, NULL, &error) && holds(session, "fd", "bytes"));
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    CHECK(koine_write_fd(session, in("fd"), 5, file, NULL, NULL, &error) && holds(session, "fd", "bytessome bytes"));
    CHECK(lseek(file, 0, SEEK_SET) == 0 && ftruncate(file, 0) == 0);
    CHECK(koine_get_fd(session, in("fd"), 13, UINT64_MAX, file, &error) == 2);
    CHECK(koine_get_fd(session, in("fd"), 0, 1, file, &error) == 1);
    CHECK(koine_get_fd(session, in("fd"), 100, 1, file, &error) == 0);
    CHECK(lseek(file, 0, SEEK_SET) == 0 && read(file, buffer, 8) == 3 && memcmp(buffer, "esb", 3) == 0);
    close(file);
    CHECK(!koine_put_fd(session, in("fd"), file, NULL, NULL, &error));
    FAILED(KOINE_SYSTEM, "System");
    CHECK(!koine_put_fd(session, in("fd"), -1, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(holds(session, "fd", "bytessome bytes"));
}

static void streams(koine_session *session)
{
    char buffer[16];
    koine_writer *writer = koine_writer_open(session, in("stream"), NULL, &error);
    CHECK(koine_writer_write(writer, "one ", 4, &error) == 4 && koine_writer_write(writer, "two", 3, &error) == 3);
    CHECK(koine_exists(session, in("stream"), &error) == 0);
    CHECK(koine_writer_finish(writer, &told, &error) && number(told, KOINE_SIZE) == 7);
    done(&told);
    CHECK(!koine_writer_finish(writer, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    koine_reader *reader = koine_reader_open(session, in("stream"), &error);
    writer = koine_writer_open_at(session, in("stream"), UINT64_MAX, NULL, &error);
    CHECK(koine_writer_write(writer, " three", 6, &error) == 6 && koine_writer_finish(writer, NULL, &error));
    writer = koine_writer_open_at(session, in("stream"), 0, NULL, &error);
    CHECK(koine_writer_write(writer, "ONE", 3, &error) == 3 && koine_writer_finish(writer, NULL, &error));
    CHECK(holds(session, "stream", "ONE two three"));
    CHECK(koine_reader_read(reader, 0, sizeof buffer, buffer, &error) == 7 && memcmp(buffer, "one two", 7) == 0);
    told = koine_reader_info(reader, &error);
    CHECK(number(told, KOINE_SIZE) == 7);
    done(&told);
    CHECK(koine_reader_close(reader, &error) && !koine_reader_close(reader, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    writer = koine_writer_open(session, in("gone"), NULL, &error);
    CHECK(koine_writer_write(writer, "x", 1, &error) == 1 && koine_writer_drop(writer, &error));
    CHECK(koine_exists(session, in("gone"), &error) == 0);

    koine_file *file = koine_file_open(session, in("file"), "xb", NULL, &error);
    CHECK(koine_file_write(file, "0123456789", 10, &error) == 10 && koine_file_close(file, &told, &error));
    CHECK(number(told, KOINE_SIZE) == 10);
    done(&told);
    CHECK(koine_file_open(session, in("file"), "x", NULL, &error) == NULL);
    FAILED(KOINE_PRECONDITION_FAILED, "PreconditionFailed");
    CHECK(koine_file_open(session, in("file"), "br", NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_file_open(session, in("file"), "z", NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "InvalidArgument");
    file = koine_file_open(session, in("file"), "rb", NULL, &error);
    CHECK(koine_file_size(file, &error) == 10 && koine_file_seek(file, -3, KOINE_FROM_END, &error) == 7);
    CHECK(koine_file_read(file, sizeof buffer, buffer, &error) == 3 && memcmp(buffer, "789", 3) == 0);
    CHECK(koine_file_seek(file, 0, KOINE_FROM_HERE, &error) == 10);
    CHECK(koine_file_seek(file, -1, KOINE_FROM_START, &error) == -1);
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_file_write(file, "x", 1, &error) == -1);
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_file_close(file, &told, &error) && told == NULL);
    file = koine_file_open(session, in("file"), "rb+", NULL, &error);
    CHECK(koine_file_seek(file, 2, KOINE_FROM_START, &error) == 2 && koine_file_write(file, "ab", 2, &error) == 2);
    CHECK(koine_file_truncate(file, 5, &error) && koine_file_flush(file, &error));
    CHECK(holds(session, "file", "01ab4"));
    CHECK(koine_file_write(file, "##", 2, &error) == 2 && koine_file_drop(file, &error));
    file = koine_file_open(session, in("file"), "a", NULL, &error);
    CHECK(koine_file_write(file, "end", 3, &error) == 3 && koine_file_close(file, NULL, &error));
    CHECK(holds(session, "file", "01ab4end"));
    file = koine_file_open(session, in("file"), "w", NULL, &error);
    CHECK(koine_file_close(file, NULL, &error) && holds(session, "file", ""));
    CHECK(koine_bucket_purge(session, "bucket", &error));
}

static void uploads(koine_session *session)
{
    static char large[5 << 20];
    char id[64], etags[2][64];
    koine_part parts[2];
    koine_list_options page;
    koine_segment from = {{"bucket", "part", KOINE_TERMINATED}, 2, 3, NULL};
    memset(large, 'x', sizeof large);
    CHECK(put(session, "part", "123456"));
    koine_result *upload = koine_upload_create(session, in("joined"), NULL, &error);
    snprintf(id, sizeof id, "%s", text(upload, KOINE_UPLOAD));
    done(&upload);
    CHECK(koine_upload_part(session, in("joined"), id, 1, large, sizeof large, &told, &error));
    CHECK(number(told, KOINE_PART_NUMBER) == 1 && number(told, KOINE_SIZE) == sizeof large);
    snprintf(etags[0], sizeof etags[0], "%s", text(told, KOINE_ETAG));
    done(&told);
    CHECK(koine_upload_part_copy(session, &from, in("joined"), id, 7, &told, &error));
    snprintf(etags[1], sizeof etags[1], "%s", text(told, KOINE_ETAG));
    done(&told);
    CHECK(!koine_upload_part(session, in("joined"), id, 10001, "x", 1, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    told = koine_upload_parts(session, in("joined"), id, 0, 1, &error);
    CHECK(koine_result_rows(told) == 1 && strcmp(koine_result_next(told), "1") == 0);
    done(&told);
    told = koine_upload_parts(session, in("joined"), id, 1, 0, &error);
    CHECK(koine_result_rows(told) == 1 && number(told, KOINE_PART_NUMBER) == 7 && !koine_result_has_next(told));
    done(&told);
    koine_init(&page);
    page.limit = 1;
    told = koine_upload_list(session, "bucket", &page, &error);
    CHECK(koine_result_rows(told) == 1 && strcmp(text(told, KOINE_UPLOAD), id) == 0);
    CHECK(strcmp(text(told, KOINE_NAME), "joined") == 0);
    done(&told);
    parts[0].number = 1;
    parts[0].etag = etags[1];
    parts[1].number = 7;
    parts[1].etag = etags[1];
    CHECK(!koine_upload_complete(session, in("joined"), id, parts, 2, NULL, NULL, &error));
    FAILED(KOINE_INVALID_PART, "InvalidPart");
    parts[0].etag = etags[0];
    CHECK(koine_upload_complete(session, in("joined"), id, parts, 2, NULL, &told, &error));
    CHECK(number(told, KOINE_SIZE) == sizeof large + 3 && number(told, KOINE_PART_COUNT) == 2);
    done(&told);
    CHECK(!koine_upload_abort(session, in("joined"), id, &error));
    FAILED(KOINE_NO_SUCH_UPLOAD, "NoSuchUpload");
    upload = koine_upload_create(session, in("joined"), NULL, &error);
    int pipes[2];
    CHECK(pipe(pipes) == 0 && write(pipes[1], "piped", 5) == 5 && close(pipes[1]) == 0);
    CHECK(koine_upload_part_fd(session, in("joined"), text(upload, KOINE_UPLOAD), 3, pipes[0], NULL, &error));
    close(pipes[0]);
    CHECK(koine_upload_complete(session, in("joined"), text(upload, KOINE_UPLOAD), NULL, 0, NULL, NULL, &error));
    CHECK(holds(session, "joined", "piped"));
    done(&upload);
    upload = koine_upload_create(session, in("joined"), NULL, &error);
    CHECK(koine_upload_abort(session, in("joined"), text(upload, KOINE_UPLOAD), &error));
    done(&upload);
    CHECK(koine_bucket_purge(session, "bucket", &error));
}

static void snapshots(koine_session *session)
{
    CHECK(put(session, "key", "old"));
    CHECK(koine_snapshot_create(session, "bucket", "before", &told, &error));
    CHECK(strcmp(text(told, KOINE_NAME), "before") == 0);
    done(&told);
    CHECK(!koine_snapshot_create(session, "bucket", "before", NULL, &error));
    FAILED(KOINE_ALREADY_EXISTS, "AlreadyExists");
    CHECK(put(session, "key", "new") && put(session, "more", "x"));
    told = koine_get_all(session, koine_in("bucket@before", "key"), &error);
    CHECK(strcmp(text(told, KOINE_BODY), "old") == 0);
    done(&told);
    CHECK(!koine_put(session, koine_in("bucket@before", "key"), "", 0, NULL, NULL, &error));
    FAILED(KOINE_READ_ONLY, "ReadOnly");
    told = koine_snapshot_list(session, "bucket", &error);
    CHECK(koine_result_rows(told) == 1);
    done(&told);
    CHECK(koine_bucket_branch(session, "bucket@before", "branch", NULL, &error));
    CHECK(koine_append(session, koine_in("branch", "key"), "er", 2, NULL, NULL, &error));
    CHECK(koine_bucket_restore(session, "bucket", "before", &error));
    CHECK(holds(session, "key", "old") && koine_exists(session, in("more"), &error) == 0);
    told = koine_get_all(session, koine_in("branch", "key"), &error);
    CHECK(strcmp(text(told, KOINE_BODY), "older") == 0);
    done(&told);
    CHECK(koine_snapshot_delete(session, "bucket", "before", &error));
    CHECK(!koine_snapshot_delete(session, "bucket", "before", &error));
    FAILED(KOINE_NO_SUCH_SNAPSHOT, "NoSuchSnapshot");
    CHECK(koine_snapshot_create(session, "branch", "kept", NULL, &error) && koine_bucket_purge(session, "branch", &error));
    CHECK(koine_bucket_delete(session, "branch", 1, &error) && koine_bucket_purge(session, "bucket", &error));
}

static const char POLICY[] = "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":\"*\","
                             "\"Action\":\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::bucket/*\"}]}";
static const char USERS_POLICY[] = "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\","
                                   "\"Action\":\"s3:ListBucket\",\"Resource\":\"*\"}]}";

static void identities(koine_session *session)
{
    koine_identity_change change;
    koine_key_options options;
    koine_entry policies[1] = {{"lists", NULL}};
    koine_grant grants[2] = {{KOINE_TO_USER, "ada", KOINE_RIGHT_READ}, {KOINE_TO_GROUP, "guests", KOINE_RIGHT_READ_LIST}};
    koine_grant everybody[1] = {{KOINE_TO_EVERY_USER, NULL, KOINE_RIGHT_READ}};
    CHECK(koine_group_create(session, "team", "who works", &told, &error));
    CHECK(strcmp(text(told, KOINE_DESCRIPTION), "who works") == 0);
    done(&told);
    CHECK(!koine_group_create(session, "team", NULL, NULL, &error));
    FAILED(KOINE_ALREADY_EXISTS, "AlreadyExists");
    CHECK(koine_group_create(session, "guests", NULL, NULL, &error));
    CHECK(koine_user_create(session, "team", "ada", "a long password", &told, &error));
    CHECK(strcmp(text(told, KOINE_GROUP), "team") == 0 && number(told, KOINE_HAS_PASSWORD) == 1);
    done(&told);
    CHECK(koine_member_add(session, "guests", "ada", 0, &error));
    told = koine_user_info(session, "ada", &error);
    CHECK(koine_result_entries(told, 0, KOINE_GROUPS) == 1);
    CHECK(strcmp(koine_result_entry_name(told, 0, KOINE_GROUPS, 0), "guests") == 0);
    done(&told);
    CHECK(koine_member_remove(session, "guests", "ada", &error));
    CHECK(!koine_user_create(session, "nobody", "eve", NULL, NULL, &error));
    FAILED(KOINE_NO_SUCH_GROUP, "NoSuchGroup");

    CHECK(koine_log_in(session, "ada", "wrong", 0, NULL, &error) == NULL);
    FAILED(KOINE_LOG_IN_FAILED, "LogInFailed");
    koine_session *ada = koine_log_in(session, "ada", "a long password", 60, &told, &error);
    CHECK(ada != NULL && strcmp(text(told, KOINE_NAME), "ada") == 0 && number(told, KOINE_EXPIRES_AT) > 0);
    CHECK(put(session, "key", "secret"));
    CHECK(koine_head(ada, in("key"), &error) == NULL);
    FAILED(KOINE_ACCESS_DENIED, "AccessDenied");
    CHECK(!koine_set_access(session, in("key"), everybody, 1, &error));
    FAILED(KOINE_INVALID_REQUEST, "InvalidRequest");
    CHECK(koine_set_access(session, in("key"), grants, 2, &error));
    CHECK(holds(ada, "key", "secret"));
    koine_result *list = koine_get_access(session, in("key"), &error);
    CHECK(koine_result_rows(list) == 2 && koine_result_number(list, 0, KOINE_GRANTEE) == KOINE_TO_USER);
    CHECK(koine_result_number(list, 1, KOINE_RIGHTS) == KOINE_RIGHT_READ_LIST);
    done(&list);
    CHECK(koine_list(ada, "bucket", NULL, &error) == NULL);
    FAILED(KOINE_ACCESS_DENIED, "AccessDenied");
    CHECK(koine_bucket_set_access(session, "bucket", grants, 1, &error));
    list = koine_bucket_get_access(session, "bucket", &error);
    CHECK(koine_result_rows(list) == 1);
    done(&list);
    list = koine_list(ada, "bucket", NULL, &error);
    CHECK(koine_result_rows(list) == 1);
    done(&list);
    CHECK(koine_bucket_set_access(session, "bucket", NULL, 0, &error));
    CHECK(koine_bucket_create(ada, "adas", NULL, &error));
    list = koine_bucket_get_owner(session, "adas", &error);
    CHECK(strcmp(text(list, KOINE_OWNER), "ada") == 0 && strcmp(text(list, KOINE_GROUP), "team") == 0);
    done(&list);
    CHECK(!koine_user_delete(session, "ada", &error));
    FAILED(KOINE_NOT_EMPTY, "NotEmpty");
    CHECK(koine_user_create(session, "guests", "bob", NULL, NULL, &error));
    CHECK(koine_bucket_set_owner(session, "adas", "bob", NULL, &error));
    koine_session *again = koine_as(session, text(told, KOINE_TOKEN), &error);
    CHECK(again != NULL && holds(again, "key", "secret"));
    CHECK(koine_log_out(ada, text(told, KOINE_TOKEN), &error));
    CHECK(koine_head(again, in("key"), &error) == NULL);
    CHECK(error != NULL);
    koine_error_free(error);
    error = NULL;
    CHECK(koine_close(ada, &error) && koine_close(again, &error));
    done(&told);

    koine_session *everyone = koine_as(session, NULL, &error);
    CHECK(!koine_bucket_set_policy(session, "bucket", POLICY, &error));
    FAILED(KOINE_INVALID_REQUEST, "InvalidRequest");
    CHECK(koine_set_public_access(session, 1, &error) && koine_bucket_set_policy(session, "bucket", POLICY, &error));
    told = koine_bucket_get_policy(session, "bucket", &error);
    CHECK(strcmp(text(told, KOINE_POLICY), POLICY) == 0);
    done(&told);
    CHECK(holds(everyone, "key", "secret"));
    CHECK(koine_set_public_access(session, 0, &error) && koine_head(everyone, in("key"), &error) == NULL);
    FAILED(KOINE_ACCESS_DENIED, "AccessDenied");
    CHECK(koine_bucket_set_policy(session, "bucket", NULL, &error) && koine_close(everyone, &error));
    CHECK(!koine_policy_set(session, "lists", "{", &error));
    FAILED(KOINE_MALFORMED_POLICY, "MalformedPolicy");
    CHECK(koine_policy_set(session, "lists", USERS_POLICY, &error));
    told = koine_policy_get(session, "lists", &error);
    CHECK(strcmp(text(told, KOINE_POLICY), USERS_POLICY) == 0);
    done(&told);

    koine_init(&change);
    change.flags = KOINE_CHANGE_POLICIES | KOINE_CHANGE_QUOTA_BYTES | KOINE_CHANGE_DISABLED;
    change.policies = policies;
    change.policy_count = 1;
    change.quota_bytes = 1000;
    change.disabled = 1;
    change.description = "Bob";
    CHECK(koine_user_set(session, "bob", &change, &told, &error));
    CHECK(number(told, KOINE_DISABLED) == 1 && number(told, KOINE_QUOTA_BYTES) == 1000);
    CHECK(koine_result_entries(told, 0, KOINE_POLICIES) == 1 && strcmp(text(told, KOINE_DESCRIPTION), "Bob") == 0);
    done(&told);
    CHECK(!koine_group_set(session, "guests", &change, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    change.flags = 0;
    change.name = "visitors";
    CHECK(!koine_group_set(session, "guests", &change, NULL, &error));
    CHECK(strstr(koine_error_message(error), "KOINE_CHANGE_POLICIES"));
    FAILED(KOINE_INVALID, "InvalidArgument");
    koine_init(&change);
    change.name = "visitors";
    change.description = "Bob";
    CHECK(koine_group_set(session, "guests", &change, &told, &error));
    CHECK(strcmp(text(told, KOINE_NAME), "visitors") == 0);
    done(&told);
    told = koine_group_info(session, "visitors", &error);
    CHECK(strcmp(text(told, KOINE_DESCRIPTION), "Bob") == 0);
    done(&told);
    CHECK(koine_user_set_password(session, "bob", "another long one", &error));
    CHECK(!koine_user_change_password(session, "bob", "not that one", "the next long one", &error));
    FAILED(KOINE_LOG_IN_FAILED, "LogInFailed");
    CHECK(koine_user_change_password(session, "bob", "another long one", "the next long one", &error));
    told = koine_token_list(session, "bob", &error);
    CHECK(told != NULL && koine_result_rows(told) == 0);
    done(&told);
    CHECK(!koine_token_delete(session, "bob", "0123456789abcdef", &error));
    FAILED(KOINE_NO_SUCH_ACCESS_KEY, "NoSuchAccessKey");
    koine_init(&options);
    options.seconds = 3600;
    options.description = "for S3";
    koine_result *key = koine_key_create(session, "bob", &options, &error);
    CHECK(key != NULL && koine_result_length(key, 0, KOINE_SECRET) > 0);
    told = koine_key_list(session, "bob", &error);
    CHECK(koine_result_rows(told) == 1 && strcmp(text(told, KOINE_NAME), text(key, KOINE_NAME)) == 0);
    done(&told);
    CHECK(koine_key_delete(session, "bob", text(key, KOINE_NAME), &error));
    done(&key);
    told = koine_user_list(session, NULL, NULL, &error);
    CHECK(koine_result_rows(told) >= 2);
    done(&told);
    told = koine_user_list(session, "team", NULL, &error);
    CHECK(koine_result_rows(told) == 1 && strcmp(text(told, KOINE_NAME), "ada") == 0);
    done(&told);
    told = koine_group_list(session, NULL, &error);
    CHECK(koine_result_rows(told) >= 2);
    done(&told);
    CHECK(koine_user_delete(session, "ada", &error));
    CHECK(koine_group_delete(session, "visitors", &told, &error));
    CHECK(number(told, KOINE_USERS) == 1 && number(told, KOINE_BUCKETS) == 1);
    done(&told);
    CHECK(koine_user_info(session, "bob", &error) == NULL);
    FAILED(KOINE_NO_SUCH_USER, "NoSuchUser");
    CHECK(koine_bucket_purge(session, "bucket", &error));
}

/* Adds one to a number in an object, and in a key. */
static int add_one(koine_txn *transaction, void *context)
{
    char buffer[24] = "", key[24] = "";
    koine_error *failed = NULL;
    koine_result *value;
    (void)context;
    if (koine_txn_get(transaction, in("counter"), 0, sizeof buffer - 1, buffer, &failed) < 0)
        goto fail;
    value = koine_txn_key_get(transaction, 40, "counter", 7, &failed);
    if (value == NULL)
        goto fail;
    snprintf(key, sizeof key, "%s", koine_result_rows(value) == 1 ? text(value, KOINE_BODY) : "0");
    koine_result_free(value);
    if (atoi(key) != atoi(buffer)) {
        fprintf(stderr, "the key has %s, the object %s\n", key, buffer);
        return 7;
    }
    snprintf(buffer, sizeof buffer, "%d", atoi(buffer) + 1);
    if (koine_txn_put(transaction, in("counter"), buffer, strlen(buffer), NULL, &failed) &&
        koine_txn_key_put(transaction, 40, "counter", 7, buffer, strlen(buffer), &failed))
        return 0;
fail:
    fprintf(stderr, "%s\n", koine_error_message(failed));
    koine_error_free(failed);
    return 1;
}

static void *add_ten(void *session)
{
    for (int at = 0; at < 10; at++)
        if (!koine_transact((koine_session *)session, add_one, NULL, NULL, NULL))
            return session;
    return NULL;
}

static int every_call(koine_txn *txn, void *context)
{
    koine_segment whole = {{"bucket", "a", KOINE_TERMINATED}, 0, UINT64_MAX, NULL};
    koine_segment range = {{"bucket", "old", KOINE_TERMINATED}, 1, 1, NULL};
    koine_change change;
    koine_entry set[1] = {{"a", "1"}};
    koine_init(&change);
    change.set_metadata = set;
    change.set_metadata_count = 1;
    *(koine_txn **)context = txn;
    CHECK(koine_txn_put(txn, in("a"), "12", 2, NULL, &error) && koine_txn_put(txn, in("b"), "", 0, NULL, &error));
    told = koine_txn_head(txn, in("a"), &error);
    CHECK(koine_result_rows(told) == 1 && number(told, KOINE_SIZE) == 2);
    done(&told);
    told = koine_txn_head(txn, in("absent"), &error);
    CHECK(told != NULL && koine_result_rows(told) == 0);
    done(&told);
    CHECK(koine_txn_truncate(txn, in("old"), 3, NULL, &error) && koine_txn_set(txn, in("old"), &change, NULL, &error));
    CHECK(koine_txn_write_copy(txn, &range, in("target"), 0, NULL, &error));
    CHECK(koine_txn_copy(txn, in("old"), in("copy"), NULL, &error));
    CHECK(koine_txn_write(txn, in("copy2"), 1, "w", 1, NULL, &error));
    CHECK(koine_txn_write(txn, in("tail"), UINT64_MAX, "t", 1, NULL, &error));
    CHECK(koine_txn_move(txn, in("b"), in("c"), NULL, &error));
    CHECK(koine_txn_exchange(txn, in("a"), in("c"), &error));
    CHECK(koine_txn_delete(txn, in("gone"), NULL, &error) == 1 && koine_txn_delete(txn, in("gone"), NULL, &error) == 0);
    CHECK(koine_txn_key_put(txn, 40, "k", 1, "v", 1, &error) && koine_txn_key_delete(txn, 40, "k", 1, &error));
    CHECK(koine_txn_key_get(txn, 16, "k", 1, &error) == NULL);
    FAILED(KOINE_INVALID, "InvalidArgument");
    whole.name.key = "other";
    CHECK(koine_txn_compose(txn, &whole, 1, in("composed"), NULL, &error));
    told = koine_txn_list(txn, "bucket", NULL, &error);
    CHECK(koine_result_rows(told) == 9);
    done(&told);
    CHECK(koine_exists((koine_session *)((void **)context)[1], in("a"), &error) == 0);
    return 0;
}

static int give_up(koine_txn *txn, void *context)
{
    (void)context;
    CHECK(koine_txn_put(txn, in("never"), "", 0, NULL, &error));
    return koine_txn_delete(txn, in(""), NULL, NULL) == -1 ? 42 : 0;
}

static void transactions(koine_session *session)
{
    pthread_t threads[4];
    void *result, *context[2] = {NULL, session};
    CHECK(put(session, "old", "12345") && put(session, "gone", "x") && put(session, "other", "o"));
    CHECK(koine_transact(session, every_call, context, &told, &error) && number(told, KOINE_VERSION) > 0);
    done(&told);
    CHECK(holds(session, "c", "12") && holds(session, "a", "") && holds(session, "copy", "123"));
    CHECK(holds(session, "target", "2") && holds(session, "tail", "t") && holds(session, "composed", "o"));
    /* A transaction ends with its callback. */
    CHECK(!koine_txn_put((koine_txn *)context[0], in("late"), "", 0, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(!koine_transact(session, give_up, NULL, NULL, &error));
    CHECK(strstr(koine_error_message(error), "42") && strstr(koine_error_message(error), "InvalidArgument"));
    FAILED(KOINE_ABORTED, "Aborted");
    CHECK(koine_exists(session, in("never"), &error) == 0);
    CHECK(put(session, "counter", "0"));
    for (int at = 0; at < 4; at++)
        CHECK(pthread_create(&threads[at], NULL, add_ten, session) == 0);
    for (int at = 0; at < 4; at++)
        CHECK(pthread_join(threads[at], &result) == 0 && result == NULL);
    CHECK(holds(session, "counter", "40"));
    CHECK(koine_bucket_purge(session, "bucket", &error));
}

/* Threads on one session, one writer, one reader. */
/* Whether a version holds this, read each way. */
static bool version_holds(koine_session *session, const char *key, const char *version, const char *body)
{
    char buffer[32];
    koine_reader *reader = koine_version_open(session, in(key), version, &error);
    int64_t whole = reader ? koine_reader_read(reader, 0, sizeof buffer, buffer, &error) : -1;
    bool same = whole == (int64_t)strlen(body) && memcmp(buffer, body, strlen(body)) == 0;
    CHECK(koine_reader_close(reader, &error));
    CHECK(koine_version_get(session, in(key), version, 1, sizeof buffer, buffer, &error) == (int64_t)strlen(body) - 1);
    return same && memcmp(buffer, body + 1, strlen(body) - 1) == 0;
}

static void versions(koine_session *session)
{
    koine_list_options page;
    koine_options options;
    char first[32], second[32], marker[32];
    char buffer[8];
    CHECK(koine_bucket_set_versioning(session, "bucket", KOINE_VERSIONS_ENABLED, &error));
    CHECK(!koine_bucket_set_versioning(session, "bucket", KOINE_VERSIONS_NEVER, &error));
    FAILED(KOINE_INVALID_REQUEST, "InvalidRequest");
    CHECK(!koine_bucket_set_versioning(session, "bucket", 3, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    told = koine_bucket_info(session, "bucket", &error);
    CHECK(strcmp(text(told, KOINE_VERSIONING), "enabled") == 0);
    done(&told);
    CHECK(koine_put(session, in("v/a"), "first", 5, NULL, &told, &error));
    snprintf(first, sizeof first, "%s", text(told, KOINE_VERSION_ID));
    done(&told);
    CHECK(put(session, "v/a", "second") && put(session, "v/b/c", "other"));
    CHECK(koine_delete(session, in("v/a"), NULL, &error) == 1);
    koine_init(&page);
    page.prefix = "v/";
    page.delimiter = "/";
    page.limit = 2;
    told = koine_version_list(session, "bucket", &page, &error);
    CHECK(koine_result_rows(told) == 2 && koine_result_has_next(told));
    CHECK(number(told, KOINE_IS_MARKER) == 1 && number(told, KOINE_IS_NEWEST) == 1);
    CHECK(koine_result_number(told, 1, KOINE_SIZE) == 6 && koine_result_number(told, 1, KOINE_IS_NEWEST) == 0);
    snprintf(marker, sizeof marker, "%s", text(told, KOINE_VERSION_ID));
    snprintf(second, sizeof second, "%s", koine_result_text(told, 1, KOINE_VERSION_ID));
    page.after = koine_result_next(told);
    page.upload_after = koine_result_next_upload(told);
    koine_result *rest = koine_version_list(session, "bucket", &page, &error);
    CHECK(koine_result_rows(rest) == 2 && strcmp(text(rest, KOINE_VERSION_ID), first) == 0);
    CHECK(koine_result_number(rest, 1, KOINE_IS_PREFIX) == 1 && !koine_result_has_next(rest));
    done(&rest);
    done(&told);
    CHECK(version_holds(session, "v/a", first, "first") && version_holds(session, "v/a", second, "second"));
    told = koine_version_head(session, in("v/a"), second, &error);
    CHECK(number(told, KOINE_SIZE) == 6 && strcmp(text(told, KOINE_VERSION_ID), second) == 0);
    done(&told);
    CHECK(koine_version_get(session, in("v/a"), marker, 0, 8, buffer, &error) == -1);
    FAILED(KOINE_INVALID_REQUEST, "InvalidRequest");
    CHECK(koine_version_head(session, in("v/a"), "no id", &error) == NULL);
    FAILED(KOINE_INVALID, "InvalidArgument");
    koine_init(&options);
    options.source_version = first;
    CHECK(koine_copy(session, in("v/a"), in("restored"), &options, NULL, &error) && holds(session, "restored", "first"));
    CHECK(!koine_put(session, in("x"), "", 0, &options, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_version_delete(session, in("v/a"), marker, &error) && holds(session, "v/a", "second"));
    CHECK(koine_version_delete(session, in("v/a"), second, &error) && holds(session, "v/a", "first"));
    CHECK(!koine_version_delete(session, in("v/a"), second, &error));
    FAILED(KOINE_NO_SUCH_VERSION, "NoSuchVersion");
    CHECK(koine_bucket_set_versioning(session, "bucket", KOINE_VERSIONS_SUSPENDED, &error));
}

static void searches(koine_session *session)
{
    koine_entry color = {"color", "blue"}, team = {"team", "lab"};
    koine_options options;
    koine_search_query query;
    koine_bucket_change change;
    koine_init(&options);
    options.metadata = &color;
    options.metadata_count = 1;
    options.tags = &team;
    options.tag_count = 1;
    CHECK(koine_put(session, in("s/1"), "", 0, &options, NULL, &error));
    color.value = "red";
    CHECK(koine_put(session, in("s/2"), "body", 4, &options, NULL, &error));
    for (int indexed = 0; indexed < 2; indexed++) {
        koine_init(&query);
        query.of = KOINE_OF_METADATA;
        query.name = "color";
        query.prefix = "s/";
        query.limit = 1;
        told = koine_search(session, "bucket", &query, &error);
        CHECK(koine_result_rows(told) == 1 && strcmp(text(told, KOINE_FOUND), "blue") == 0);
        CHECK(strcmp(text(told, KOINE_NAME), "s/1") == 0 && koine_result_has_next(told));
        query.name_after = koine_result_next(told);
        query.value_after = koine_result_next_upload(told);
        koine_result *rest = koine_search(session, "bucket", &query, &error);
        CHECK(koine_result_rows(rest) == 1 && strcmp(text(rest, KOINE_FOUND), "red") == 0 && number(rest, KOINE_SIZE) == 4);
        done(&rest);
        done(&told);
        query.name_after = query.value_after = NULL;
        query.limit = 0;
        query.equal = "red";
        told = koine_search(session, "bucket", &query, &error);
        CHECK(koine_result_rows(told) == 1 && strcmp(text(told, KOINE_NAME), "s/2") == 0);
        done(&told);
        query.begins_with = "r";
        CHECK(koine_search(session, "bucket", &query, &error) == NULL);
        FAILED(KOINE_INVALID, "InvalidArgument");
        query.equal = query.begins_with = NULL;
        query.first = "a";
        query.last = "c";
        told = koine_search(session, "bucket", &query, &error);
        CHECK(koine_result_rows(told) == 1 && strcmp(text(told, KOINE_NAME), "s/1") == 0);
        done(&told);
        query.first = query.last = NULL;
        query.of = KOINE_OF_TAG;
        query.name = "team";
        told = koine_search(session, "bucket", &query, &error);
        CHECK(koine_result_rows(told) == 2);
        done(&told);
        query.of = 3;
        CHECK(koine_search(session, "bucket", &query, &error) == NULL);
        FAILED(KOINE_INVALID, "InvalidArgument");
        if (indexed)
            break;
        CHECK(koine_index_add(session, "bucket", KOINE_OF_METADATA, "color", &told, &error));
        CHECK(number(told, KOINE_IS_WHOLE) == 1 && number(told, KOINE_INDEXED) == KOINE_OF_METADATA);
        done(&told);
        CHECK(!koine_index_add(session, "bucket", KOINE_OF_METADATA, "color", NULL, &error));
        FAILED(KOINE_ALREADY_EXISTS, "AlreadyExists");
        CHECK(!koine_index_add(session, "bucket", -1, "color", NULL, &error));
        FAILED(KOINE_INVALID, "InvalidArgument");
    }
    told = koine_index_list(session, "bucket", &error);
    CHECK(koine_result_rows(told) == 1 && strcmp(text(told, KOINE_NAME), "color") == 0);
    done(&told);
    CHECK(koine_index_drop(session, "bucket", KOINE_OF_METADATA, "color", &error));
    CHECK(!koine_index_drop(session, "bucket", KOINE_OF_METADATA, "color", &error));
    FAILED(KOINE_NO_SUCH_INDEX, "NoSuchIndex");
    koine_init(&change);
    change.set_metadata = &color;
    change.set_metadata_count = 1;
    change.set_tags = &team;
    change.set_tag_count = 1;
    change.flags = KOINE_CHANGE_ACCESS_TIMES;
    CHECK(koine_bucket_set(session, "bucket", &change, &told, &error));
    CHECK(koine_result_entries(told, 0, KOINE_METADATA) == 1 && koine_result_entries(told, 0, KOINE_TAGS) == 1);
    CHECK(strcmp(koine_result_entry_value(told, 0, KOINE_METADATA, 0), "red") == 0 && number(told, KOINE_ACCESS_TIMES) == 0);
    done(&told);
    koine_init(&change);
    change.remove_tags = &team;
    change.remove_tag_count = 1;
    change.flags = KOINE_CHANGE_BUCKET_METADATA | KOINE_CHANGE_ACCESS_TIMES;
    change.access_times = 1;
    CHECK(koine_bucket_set(session, "bucket", &change, &told, &error));
    CHECK(koine_result_entries(told, 0, KOINE_METADATA) == 0 && koine_result_entries(told, 0, KOINE_TAGS) == 0);
    CHECK(number(told, KOINE_ACCESS_TIMES) == 1);
    done(&told);
    change.access_times = 2;
    CHECK(!koine_bucket_set(session, "bucket", &change, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
}

static void pins(koine_session *session)
{
    CHECK(put(session, "pinned", "before"));
    koine_session *pinned = koine_pin(session, &told, &error);
    CHECK(pinned != NULL && number(told, KOINE_VERSION) > 0);
    done(&told);
    CHECK(put(session, "pinned", "after") && put(session, "new", "x"));
    CHECK(holds(pinned, "pinned", "before") && koine_exists(pinned, in("new"), &error) == 0);
    CHECK(!put(pinned, "other", "x"));
    FAILED(KOINE_READ_ONLY, "ReadOnly");
    CHECK(!koine_bucket_create(pinned, "third", NULL, &error));
    FAILED(KOINE_READ_ONLY, "ReadOnly");
    CHECK(koine_close(pinned, &error) && holds(session, "pinned", "after"));
    CHECK(koine_pin(pinned, NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "InvalidArgument");
}

/* What the buckets of users and groups hold, why somebody may do something, and all buckets of a group at once. */
static void whole_groups(koine_session *session)
{
    CHECK(koine_group_create(session, "counted", NULL, NULL, &error));
    CHECK(koine_user_create(session, "counted", "zoe", NULL, NULL, &error));
    CHECK(koine_bucket_create(session, "zoes", NULL, &error) && koine_bucket_create(session, "hers", NULL, &error));
    CHECK(koine_bucket_set_owner(session, "zoes", "zoe", NULL, &error));
    CHECK(koine_bucket_set_owner(session, "hers", "zoe", NULL, &error));
    CHECK(koine_put(session, koine_in("zoes", "k"), "12345", 5, NULL, NULL, &error));
    told = koine_user_usage(session, "zoe", &error);
    CHECK(number(told, KOINE_OBJECTS) == 1 && number(told, KOINE_BYTES) == 5);
    done(&told);
    told = koine_group_usage(session, "counted", &error);
    CHECK(number(told, KOINE_OBJECTS) == 1 && number(told, KOINE_BYTES) == 5);
    done(&told);
    CHECK(koine_user_usage(session, "nobody", &error) == NULL);
    FAILED(KOINE_NO_SUCH_USER, "NoSuchUser");
    koine_list_options of_group;
    koine_init(&of_group);
    of_group.group = "counted";
    told = koine_bucket_list(session, &of_group, &error);
    CHECK(koine_result_rows(told) == 2 && strcmp(text(told, KOINE_NAME), "hers") == 0);
    done(&told);
    of_group.group = "none";
    CHECK(koine_bucket_list(session, &of_group, &error) == NULL);
    FAILED(KOINE_NO_SUCH_GROUP, "NoSuchGroup");
    told = koine_explain(session, KOINE_ASKER_USER, "zoe", "s3:GetObject", "zoes", "k", &error);
    CHECK(number(told, KOINE_ALLOWED) == 1 && strcmp(text(told, KOINE_RULE), "owner of the bucket") == 0);
    done(&told);
    told = koine_explain(session, KOINE_ASKER_EVERYONE, NULL, "s3:ListBucket", "zoes", NULL, &error);
    CHECK(number(told, KOINE_ALLOWED) == 0 && strcmp(text(told, KOINE_RULE), "nothing allows it") == 0);
    done(&told);
    CHECK(koine_explain(session, KOINE_ASKER_ACCESS_KEY, "none", "s3:ListBucket", "zoes", NULL, &error) == NULL);
    FAILED(KOINE_NO_SUCH_ACCESS_KEY, "NoSuchAccessKey");
    CHECK(koine_explain(session, KOINE_ASKER_USER, NULL, "s3:ListBucket", "zoes", NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_explain(session, KOINE_ASKER_EVERYONE, NULL, "s3:Nothing", "zoes", NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_bucket_delete_all(session, "counted", &told, &error) && number(told, KOINE_BUCKETS) == 2);
    done(&told);
    CHECK(!koine_bucket_delete_all(session, "none", NULL, &error));
    FAILED(KOINE_NO_SUCH_GROUP, "NoSuchGroup");
    CHECK(koine_group_delete(session, "counted", NULL, &error));
}

static koine_writer *shared;

static void *work(void *context)
{
    koine_session *session = (koine_session *)context;
    koine_error *failed = NULL;
    char key[32];
    for (int at = 0; at < 20; at++) {
        snprintf(key, sizeof key, "%p-%d", (void *)&failed, at);
        koine_result *row = NULL;
        if (!koine_put(session, in(key), key, strlen(key), NULL, &row, &failed) ||
            koine_result_number(row, 0, KOINE_SIZE) != strlen(key) || koine_writer_write(shared, "line\n", 5, &failed) != 5)
            return session;
        koine_result_free(row);
        row = koine_get_all(session, in(key), &failed);
        if (row == NULL || strcmp(koine_result_text(row, 0, KOINE_BODY), key) != 0)
            return session;
        koine_result_free(row);
    }
    return NULL;
}

static void threads(koine_session *session)
{
    pthread_t all[4];
    void *result;
    shared = koine_writer_open(session, in("lines"), NULL, &error);
    for (int at = 0; at < 4; at++)
        CHECK(pthread_create(&all[at], NULL, work, session) == 0);
    for (int at = 0; at < 4; at++)
        CHECK(pthread_join(all[at], &result) == 0 && result == NULL);
    CHECK(koine_writer_finish(shared, &told, &error) && number(told, KOINE_SIZE) == 4 * 20 * 5);
    done(&told);
    told = koine_list(session, "bucket", NULL, &error);
    CHECK(koine_result_rows(told) == 81);
    done(&told);
    CHECK(koine_bucket_purge(session, "bucket", &error));
}

/* Whatever is wrong is an error. */
static void misuse(koine_session *session)
{
    koine_options options;
    struct {
        koine_options known;
        uint64_t more;
    } newer;
    CHECK(koine_open(NULL, NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_open("nothing:", NULL, &error) == NULL);
    FAILED(KOINE_INVALID, "Invalid");
    CHECK(!koine_put(NULL, in("key"), "", 0, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(!koine_put(session, koine_in(NULL, "key"), "", 0, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(!koine_put(session, in(NULL), "", 0, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(!koine_put(session, in("key"), NULL, 1, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    memset(&options, 0, sizeof options);
    CHECK(!koine_put(session, in("key"), "", 0, &options, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    /* Options of an older header are shorter, those of a newer one longer. */
    options.struct_size = 16;
    CHECK(koine_put(session, in("key"), "", 0, &options, NULL, &error));
    memset(&newer, 0, sizeof newer);
    newer.known.struct_size = sizeof newer;
    CHECK(koine_put(session, in("key"), "", 0, &newer.known, NULL, &error));
    newer.more = 1;
    CHECK(!koine_put(session, in("key"), "", 0, &newer.known, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(!koine_for_each(session, "bucket", NULL, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(!koine_transact(session, NULL, NULL, NULL, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_result_rows(NULL) == 0 && strcmp(koine_result_text(NULL, 0, KOINE_NAME), "") == 0);
    CHECK(koine_result_number((const koine_result *)session, 0, KOINE_SIZE) == 0);
    koine_result_free(NULL);
    koine_result_free((koine_result *)session);
    CHECK(koine_delete(session, in("key"), NULL, NULL) == 1);
    CHECK(koine_delete(session, in(""), NULL, NULL) == -1);
}

int main(int count, char **arguments)
{
    char path[4096];
    koine_open_options options;
    if (count != 2)
        return 2;
    snprintf(path, sizeof path, "%s/store.koine", arguments[1]);
    CHECK(koine_open(path, NULL, &error) == NULL);
    FAILED(KOINE_NOT_FOUND, "NotFound");
    koine_init(&options);
    options.create = 1;
    options.size_max = 256 << 20;
    koine_session *session = koine_open(path, &options, &error);
    CHECK(session != NULL);
    CHECK(koine_open(path, NULL, &error) == NULL);
    FAILED(KOINE_OWNED, "Owned");
    told = koine_session_info(session, &error);
    CHECK(strcmp(text(told, KOINE_NAME), path) == 0 && number(told, KOINE_OWNER) == 1);
    done(&told);
    buckets(session);
    objects(session);
    listings(session);
    edits(session);
    descriptors(session, arguments[1]);
    streams(session);
    uploads(session);
    snapshots(session);
    identities(session);
    transactions(session);
    threads(session);
    misuse(session);
    versions(session);
    searches(session);
    pins(session);
    whole_groups(session);
    CHECK(put(session, "kept", "bytes"));
    koine_reader *reader = koine_reader_open(session, in("kept"), &error);
    koine_file *file = koine_file_open(session, in("kept"), "rb", NULL, &error);
    koine_file *written = koine_file_open(session, in("new"), "w", NULL, &error);
    koine_writer *writer = koine_writer_open(session, in("new"), NULL, &error);
    char buffer[8];
    CHECK(reader != NULL && file != NULL && written != NULL && writer != NULL);
    CHECK(koine_close(session, &error) && !koine_close(session, &error));
    FAILED(KOINE_INVALID, "InvalidArgument");
    CHECK(koine_reader_read(reader, 0, 5, buffer, &error) == -1);
    FAILED(KOINE_CLOSED, "Closed");
    CHECK(koine_file_read(file, 5, buffer, &error) == -1);
    FAILED(KOINE_CLOSED, "Closed");
    CHECK(koine_file_write(written, "x", 1, &error) == -1);
    FAILED(KOINE_CLOSED, "Closed");
    CHECK(koine_writer_write(writer, "x", 1, &error) == -1);
    FAILED(KOINE_CLOSED, "Closed");
    CHECK(!koine_writer_finish(writer, NULL, &error));
    FAILED(KOINE_CLOSED, "Closed");
    CHECK(!koine_file_close(written, NULL, &error));
    FAILED(KOINE_CLOSED, "Closed");
    CHECK(koine_reader_close(reader, &error) && koine_file_drop(file, &error));
    session = koine_open(path, NULL, &error);
    CHECK(session != NULL && holds(session, "kept", "bytes") && koine_close(session, &error));
    printf("%d checks\n", checks);
    return 0;
}
