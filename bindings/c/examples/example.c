/*
 * Makes a store, writes 1 MiB of random bytes to an object, reads them back, deletes the object.
 *
 *   cc example.c $(pkg-config --cflags --libs koine) -o example && ./example test.koine
 */
#include <koine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (1024 * 1024)

static char write_buffer[SIZE];
static char read_buffer[SIZE];

/* Tells of an error, frees it, and gives the program's exit code. */
static int failed(koine_error *error)
{
    fprintf(stderr, "example: %s\n", koine_error_message(error));
    koine_error_free(error);
    return 1;
}

int main(int argc, char const *argv[])
{
    const char *path = argc > 1 ? argv[1] : "test.koine";
    koine_error *error = NULL;
    koine_object_status status;

    for (size_t at = 0; at < SIZE; at++)
        write_buffer[at] = (char)rand();

    koine_store *store = koine_store_create(path, NULL, &error);
    if (error)
        return failed(error);

    koine_object *object = koine_object_create(store, SIZE, NULL, &error);
    if (error)
        return failed(error);
    if (!koine_object_get_status(object, &status, &error))
        return failed(error);

    if (!koine_object_close(object, KOINE_NO_SYNC, &error))
        return failed(error);
    object = koine_object_open(store, status.number, NULL, &error);
    if (error)
        return failed(error);

    int64_t bytes = koine_object_write(object, 0, SIZE, write_buffer, KOINE_NO_SYNC, &error);
    if (error)
        return failed(error);
    printf("wrote %lld bytes to object %llu of %s\n", (long long)bytes, (unsigned long long)status.number,
           status.store);

    bytes = koine_object_read(object, 0, SIZE, read_buffer, &error);
    if (error)
        return failed(error);
    if (bytes != SIZE || memcmp(write_buffer, read_buffer, SIZE) != 0) {
        fprintf(stderr, "example: what was read is not what was written\n");
        return 1;
    }
    printf("read %lld bytes, all as written\n", (long long)bytes);

    if (!koine_object_delete(object, KOINE_SYNC, &error))
        return failed(error);
    if (!koine_store_close(store, &error))
        return failed(error);
    return 0;
}
