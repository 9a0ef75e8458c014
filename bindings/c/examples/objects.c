/* Puts an object, edits it, lists its bucket and reads it back. Argument: the path of a store, made when missing. */
#include <koine.h>
#include <stdio.h>

static int failed(koine_error *error)
{
    fprintf(stderr, "%s: %s\n", koine_error_name(error), koine_error_message(error));
    koine_error_free(error);
    return 1;
}

static int print(void *context, const koine_result *object)
{
    koine_session *session = (koine_session *)context;
    const char *key = koine_result_text(object, 0, KOINE_NAME);
    koine_result *all = koine_get_all(session, koine_in("texts", key), NULL);
    printf("%s has %llu bytes: %s\n", key, (unsigned long long)koine_result_number(object, 0, KOINE_SIZE),
           koine_result_text(all, 0, KOINE_BODY));
    koine_result_free(all);
    return 0;
}

int main(int count, char **arguments)
{
    koine_error *error = NULL;
    koine_open_options options;
    koine_session *session;
    koine_name name = koine_in("texts", "greetings/hello");
    if (count != 2)
        return 2;
    koine_init(&options);
    options.create = 1;
    session = koine_open(arguments[1], &options, &error);
    if (!session)
        return failed(error);
    if (!koine_bucket_create(session, "texts", NULL, &error) ||
        !koine_put(session, name, "Hello", 5, NULL, NULL, &error) ||
        !koine_append(session, name, ", world!", 8, NULL, NULL, &error) ||
        !koine_for_each(session, "texts", "greetings/", print, session, &error) || !koine_close(session, &error))
        return failed(error);
    return 0;
}
