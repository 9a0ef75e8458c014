/* Makes the calls of the script that drives every binding: a call a line on standard input (its name, then NAME=VALUE with
 * tabs between, values in percent signs where need be), what it gave a line on standard output, as JSON. Argument: a
 * store. `script.rs` beside it drives it. */
#include <koine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS 256

static char *names[FIELDS], *values[FIELDS];
static int fields;
static koine_session *store, *session;
static koine_session *logins[16];
static char *login_names[16], *login_tokens[16];
static int login_count;
static koine_session *pins[8];
static char *pin_names[8];
static int pin_count;
static char version_names[64][32], version_ids[64][32];
static int version_count;
static koine_error *error;
static koine_result *told;

static void decode(char *text)
{
    char *to = text;
    for (; *text; text++) {
        if (*text == '%') {
            char digits[3] = {text[1], text[2], 0};
            *to++ = (char)strtol(digits, NULL, 16);
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = 0;
}

/* The value of an argument; NULL where it was not given. */
static const char *given(const char *name)
{
    for (int at = 1; at < fields; at++)
        if (strcmp(names[at], name) == 0)
            return values[at];
    return NULL;
}

static const char *text(const char *name)
{
    const char *value = given(name);
    return value ? value : "";
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *value = given(name);
    return value ? strtoull(value, NULL, 10) : otherwise;
}

/* Arguments that begin so, as entries: those with a value, or those without. */
static uint64_t entries(const char *prefix, koine_entry *all, int with_value)
{
    uint64_t count = 0;
    size_t length = strlen(prefix);
    for (int at = 1; at < fields; at++) {
        if (strncmp(names[at], prefix, length) == 0) {
            all[count].name = names[at] + length;
            all[count].value = values[at];
            count += (values[at] != NULL) == with_value;
        }
    }
    return count;
}

static void string(const char *bytes, uint64_t length)
{
    putchar('"');
    for (uint64_t at = 0; at < length; at++) {
        unsigned char byte = (unsigned char)bytes[at];
        if (byte == '"' || byte == '\\' || byte < ' ')
            printf("\\u%04x", byte);
        else
            putchar(byte);
    }
    putchar('"');
}

static void field(uint64_t row, int of)
{
    string(koine_result_text(told, row, of), koine_result_length(told, row, of));
}

static void field_or_null(uint64_t row, int of)
{
    if (koine_result_has(told, row, of))
        field(row, of);
    else
        printf("null");
}

static void number_or_null(uint64_t row, int of)
{
    if (koine_result_has(told, row, of))
        printf("%llu", (unsigned long long)koine_result_number(told, row, of));
    else
        printf("null");
}

static void map(uint64_t row, int of)
{
    putchar('{');
    for (uint64_t at = 0; at < koine_result_entries(told, row, of); at++) {
        const char *name = koine_result_entry_name(told, row, of, at);
        const char *value = koine_result_entry_value(told, row, of, at);
        if (at > 0)
            putchar(',');
        string(name, strlen(name));
        putchar(':');
        string(value, strlen(value));
    }
    putchar('}');
}

/* An ETag; one that was drawn is not the same twice, nor is one of parts whose own were drawn. */
static const char *etag_of(uint64_t row)
{
    static char parts[32];
    const char *etag = koine_result_text(told, row, KOINE_ETAG);
    if (strlen(etag) == 33 && etag[16] == '-')
        return "drawn";
    if (strlen(etag) > 33 && etag[32] == '-') {
        snprintf(parts, sizeof parts, "parts%s", etag + 32);
        return parts;
    }
    return etag;
}

static void object(uint64_t row)
{
    printf("{\"key\":");
    field(row, KOINE_NAME);
    printf(",\"size\":%llu,\"etag\":\"%s\",\"type\":", (unsigned long long)koine_result_number(told, row, KOINE_SIZE),
           etag_of(row));
    field_or_null(row, KOINE_CONTENT_TYPE);
    printf(",\"metadata\":");
    map(row, KOINE_METADATA);
    printf(",\"tags\":");
    map(row, KOINE_TAGS);
    printf(",\"mode\":%llu}", (unsigned long long)koine_result_number(told, row, KOINE_MODE));
}

static void part(uint64_t row)
{
    printf("{\"number\":%llu,\"size\":%llu}", (unsigned long long)koine_result_number(told, row, KOINE_PART_NUMBER),
           (unsigned long long)koine_result_number(told, row, KOINE_SIZE));
}

static void bucket(uint64_t row)
{
    printf("{\"name\":");
    field(row, KOINE_NAME);
    printf(",\"quota_bytes\":");
    number_or_null(row, KOINE_QUOTA_BYTES);
    printf(",\"quota_objects\":");
    number_or_null(row, KOINE_QUOTA_OBJECTS);
    putchar('}');
}

static void group(uint64_t row)
{
    printf("{\"name\":");
    field(row, KOINE_NAME);
    printf(",\"description\":");
    field(row, KOINE_DESCRIPTION);
    putchar('}');
}

static const char *boolean(uint64_t row, int of)
{
    return koine_result_number(told, row, of) ? "true" : "false";
}

static void user(uint64_t row)
{
    printf("{\"name\":");
    field(row, KOINE_NAME);
    printf(",\"group\":");
    field(row, KOINE_GROUP);
    printf(",\"groups\":[");
    for (uint64_t at = 0; at < koine_result_entries(told, row, KOINE_GROUPS); at++) {
        const char *name = koine_result_entry_name(told, row, KOINE_GROUPS, at);
        if (at > 0)
            putchar(',');
        string(name, strlen(name));
    }
    printf("],\"disabled\":%s,\"has_password\":%s}", boolean(row, KOINE_DISABLED), boolean(row, KOINE_HAS_PASSWORD));
}

static void name(uint64_t row)
{
    field(row, KOINE_NAME);
}

/* Each row of a result that a call gave. */
static void rows(koine_result *result, void (*each)(uint64_t))
{
    told = result;
    if (!told)
        return;
    printf("{\"gives\":[");
    for (uint64_t row = 0; row < koine_result_rows(told); row++) {
        if (row > 0)
            putchar(',');
        each(row);
    }
    printf("]}");
}

/* The one row of a result. */
static void row(bool success, void (*each)(uint64_t))
{
    if (!success)
        return;
    printf("{\"gives\":");
    each(0);
    putchar('}');
}

static void row_of(koine_result *result, void (*each)(uint64_t))
{
    told = result;
    row(result != NULL, each);
}

static void truth(bool success)
{
    if (success)
        printf("{\"gives\":true}");
}

/* 1, 0, or -1 for a failure. */
static void answer(int value)
{
    if (value >= 0)
        printf("{\"gives\":%s}", value ? "true" : "false");
}

static void count(int64_t value)
{
    if (value >= 0)
        printf("{\"gives\":%lld}", (long long)value);
}

static koine_name key(const char *argument)
{
    return koine_in(text("bucket"), text(argument));
}

static koine_name target(void)
{
    return koine_in(given("to_bucket") ? text("to_bucket") : text("bucket"), text("to"));
}

static koine_entry metadata[32];

static const koine_options *options(void)
{
    static koine_options all;
    const char *wanted = text("if");
    koine_init(&all);
    if (strcmp(wanted, "absent") == 0)
        all.flags |= KOINE_IF_ABSENT;
    if (strcmp(wanted, "present") == 0)
        all.flags |= KOINE_IF_PRESENT;
    if (strcmp(text("create"), "false") == 0)
        all.flags |= KOINE_NO_CREATE;
    if (given("md5"))
        all.flags |= KOINE_MD5;
    all.if_match = given("if_match");
    all.content_type = given("type");
    all.metadata = metadata;
    all.metadata_count = entries("metadata.", metadata, 1);
    return &all;
}

/* The id of a version that an earlier step has told. */
static const char *version(void)
{
    for (int at = 0; at < version_count; at++)
        if (strcmp(version_names[at], text("version")) == 0)
            return version_ids[at];
    return NULL;
}

static void get(void)
{
    static char buffer[1 << 20];
    uint64_t offset = number("offset", 0), wanted = number("length", sizeof buffer);
    if (wanted > sizeof buffer)
        wanted = sizeof buffer;
    int64_t length = given("version") ? koine_version_get(session, key("key"), version(), offset, wanted, buffer, &error)
                                      : koine_get(session, key("key"), offset, wanted, buffer, &error);
    if (length < 0)
        return;
    printf("{\"gives\":");
    string(buffer, (uint64_t)length);
    putchar('}');
}

static void list(void)
{
    koine_list_options page;
    koine_init(&page);
    page.prefix = given("prefix");
    page.delimiter = given("delimiter");
    page.after = given("after");
    page.limit = number("limit", 0);
    told = koine_list(session, text("bucket"), &page, &error);
    if (!told)
        return;
    printf("{\"gives\":{");
    for (int prefixes = 0; prefixes < 2; prefixes++) {
        const char *between = "";
        printf("%s", prefixes ? "],\"prefixes\":[" : "\"objects\":[");
        for (uint64_t at = 0; at < koine_result_rows(told); at++) {
            if (koine_result_has(told, at, KOINE_IS_PREFIX) != (prefixes == 1))
                continue;
            printf("%s%s", between, prefixes ? "" : "[");
            field(at, KOINE_NAME);
            if (!prefixes)
                printf(",%llu]", (unsigned long long)koine_result_number(told, at, KOINE_SIZE));
            between = ",";
        }
    }
    printf("],\"next\":");
    if (koine_result_has_next(told))
        string(koine_result_next(told), koine_result_next_length(told));
    else
        printf("null");
    printf("}}");
}

static void delete_many(void)
{
    koine_name all[FIELDS];
    uint64_t length = 0, existed = 0;
    for (int at = 1; at < fields; at++)
        if (strcmp(names[at], "keys") == 0)
            all[length++] = koine_in(text("bucket"), values[at]);
    told = koine_delete_many(session, all, length, &error);
    for (uint64_t at = 0; at < koine_result_rows(told); at++)
        existed += koine_result_number(told, at, KOINE_EXISTED);
    if (told)
        count((int64_t)existed);
}

/* A segment of KEY, or KEY/OFFSET/LENGTH with what stands between them. */
static koine_segment segment(const char *key_argument, const char *range)
{
    koine_segment of;
    of.name = koine_in(text("bucket"), key_argument);
    of.offset = 0;
    of.length = UINT64_MAX;
    of.if_match = NULL;
    if (range && *range) {
        char *end;
        of.offset = strtoull(range, &end, 10);
        of.length = strtoull(end + 1, NULL, 10);
    }
    return of;
}

static void copy(void)
{
    koine_options wanted = *options();
    wanted.source_version = given("version") ? version() : NULL;
    row(koine_copy(session, key("key"), target(), &wanted, &told, &error), object);
}

static void compose(void)
{
    koine_segment all[16];
    uint64_t length = 0;
    for (int at = 1; at < fields; at++)
        if (strncmp(names[at], "sources.", 8) == 0)
            all[length++] = segment(values[at], names[at] + 8);
    row(koine_compose(session, all, length, target(), options(), &told, &error), object);
}

static void set(void)
{
    static koine_entry set_tags[32], gone[32], gone_tags[32];
    koine_change change;
    koine_init(&change);
    change.set_metadata = metadata;
    change.set_metadata_count = entries("metadata.", metadata, 1);
    change.remove_metadata = gone;
    change.remove_metadata_count = entries("metadata.", gone, 0);
    change.set_tags = set_tags;
    change.set_tag_count = entries("tags.", set_tags, 1);
    change.remove_tags = gone_tags;
    change.remove_tag_count = entries("tags.", gone_tags, 0);
    if (given("mode"))
        change.flags |= KOINE_CHANGE_MODE;
    change.mode = number("mode", 0);
    row(koine_set(session, key("key"), &change, NULL, &told, &error), object);
}

/* A step of a file; -1 on failure. */
static int64_t step(koine_file *file, const char *what, const char *argument)
{
    char buffer[256], *end;
    int64_t first = argument ? strtoll(argument, &end, 10) : 0;
    if (strcmp(what, "write") == 0)
        return koine_file_write(file, argument, strlen(argument), &error);
    if (strcmp(what, "seek") == 0)
        return koine_file_seek(file, first, (int)strtol(end + 1, NULL, 10), &error);
    if (strcmp(what, "size") == 0)
        return koine_file_size(file, &error);
    if (strcmp(what, "truncate") == 0)
        return koine_file_truncate(file, (uint64_t)first, &error) ? -2 : -1;
    if (strcmp(what, "flush") == 0)
        return koine_file_flush(file, &error) ? -2 : -1;
    first = koine_file_read(file, (uint64_t)first < sizeof buffer ? (uint64_t)first : sizeof buffer, buffer, &error);
    if (first >= 0)
        string(buffer, (uint64_t)first);
    return first < 0 ? -1 : -3;
}

static void file(void)
{
    const char *between = "";
    koine_file *opened = koine_file_open(session, key("key"), text("mode"), NULL, &error);
    if (!opened)
        return;
    printf("{\"gives\":[");
    for (int at = 1; at < fields; at++) {
        if (strncmp(names[at], "steps.", 6) != 0)
            continue;
        printf("%s", between);
        between = ",";
        int64_t gave = step(opened, names[at] + 6, values[at]);
        if (gave == -2)
            printf("true");
        else if (gave >= 0)
            printf("%lld", (long long)gave);
    }
    if (koine_file_close(opened, NULL, &error))
        printf("]}");
}

static void upload_part(void)
{
    static char large[8 << 20];
    const char *data = text("data");
    uint64_t length = strlen(data);
    if (given("fill")) {
        length = number("fill", 0);
        memset(large, 'x', length);
        data = large;
    }
    row(koine_upload_part(session, key("key"), text("upload"), number("number", 0), data, length, &told, &error), part);
}

static void usage(uint64_t at)
{
    printf("{\"objects\":%llu,\"bytes\":%llu}", (unsigned long long)koine_result_number(told, at, KOINE_OBJECTS),
           (unsigned long long)koine_result_number(told, at, KOINE_BYTES));
}

static void gone(uint64_t at)
{
    printf("{\"users\":%llu,\"buckets\":%llu}", (unsigned long long)koine_result_number(told, at, KOINE_USERS),
           (unsigned long long)koine_result_number(told, at, KOINE_BUCKETS));
}

/* A limit that is an argument: `none` takes it away. */
static void limit(const char *argument, uint64_t flag, uint64_t *flags, uint64_t *place)
{
    if (given(argument))
        *flags |= flag;
    *place = strcmp(text(argument), "none") == 0 ? UINT64_MAX : number(argument, 0);
}

static void set_bucket(void)
{
    koine_bucket_change change;
    koine_init(&change);
    limit("quota_bytes", KOINE_CHANGE_QUOTA_BYTES, &change.flags, &change.quota_bytes);
    limit("quota_objects", KOINE_CHANGE_QUOTA_OBJECTS, &change.flags, &change.quota_objects);
    row(koine_bucket_set(session, text("bucket"), &change, &told, &error), bucket);
}

static char *kept(const char *of)
{
    char *copy = (char *)malloc(strlen(of) + 1);
    return strcpy(copy, of);
}

static void log_in(void)
{
    koine_session *opened = koine_log_in(session, text("user"), text("password"), 60, &told, &error);
    if (!opened || login_count == 16)
        return;
    logins[login_count] = opened;
    login_names[login_count] = kept(text("save"));
    login_tokens[login_count++] = kept(koine_result_text(told, 0, KOINE_TOKEN));
    printf("{\"gives\":");
    field(0, KOINE_NAME);
    putchar('}');
}

static void log_out(void)
{
    for (int at = 0; at < login_count; at++)
        if (strcmp(login_names[at], text("of")) == 0)
            truth(koine_log_out(session, login_tokens[at], &error));
}

static void changed_identity(void)
{
    koine_identity_change change;
    koine_init(&change);
    change.name = given("rename");
    change.description = given("description");
    if (given("disabled"))
        change.flags |= KOINE_CHANGE_DISABLED;
    change.disabled = strcmp(text("disabled"), "true") == 0;
    if (given("user"))
        row(koine_user_set(session, text("user"), &change, &told, &error), user);
    else
        row(koine_group_set(session, text("group"), &change, &told, &error), group);
}

static void users(void)
{
    rows(koine_user_list(session, text("group"), NULL, &error), name);
}

static const koine_list_options *prefix(void)
{
    static koine_list_options page;
    koine_init(&page);
    page.prefix = given("prefix");
    page.group = given("group");
    return &page;
}

static void decision(uint64_t at)
{
    printf("{\"allowed\":%s,\"rule\":", boolean(at, KOINE_ALLOWED));
    field(at, KOINE_RULE);
    putchar('}');
}

static void explain(void)
{
    int asker = given("user") ? KOINE_ASKER_USER : KOINE_ASKER_EVERYONE;
    row_of(koine_explain(session, asker, given("user"), text("action"), text("bucket"), given("key"), &error), decision);
}

static void pin(void)
{
    koine_session *pinned = koine_pin(session, NULL, &error);
    if (!pinned || pin_count == 8)
        return;
    pins[pin_count] = pinned;
    pin_names[pin_count++] = kept(text("save"));
    truth(true);
}

static void unpin(void)
{
    for (int at = 0; at < pin_count; at++)
        if (pins[at] && strcmp(pin_names[at], text("of")) == 0) {
            truth(koine_close(pins[at], &error));
            pins[at] = NULL;
        }
}

static bool identities(const char *call)
{
    const char *of_group = text("group"), *of_user = text("user");
    if (strcmp(call, "create_group") == 0)
        row(koine_group_create(session, of_group, given("description"), &told, &error), group);
    else if (strcmp(call, "delete_group") == 0)
        row(koine_group_delete(session, of_group, &told, &error), gone);
    else if (strcmp(call, "groups") == 0)
        rows(koine_group_list(session, prefix(), &error), name);
    else if (strcmp(call, "create_user") == 0)
        row(koine_user_create(session, of_group, of_user, given("password"), &told, &error), user);
    else if (strcmp(call, "delete_user") == 0)
        truth(koine_user_delete(session, of_user, &error));
    else if (strcmp(call, "user") == 0)
        row_of(koine_user_info(session, of_user, &error), user);
    else if (strcmp(call, "users") == 0)
        users();
    else if (strcmp(call, "set_group") == 0 || strcmp(call, "set_user") == 0)
        changed_identity();
    else if (strcmp(call, "set_password") == 0)
        truth(koine_user_set_password(session, of_user, text("password"), &error));
    else if (strcmp(call, "add_member") == 0)
        truth(koine_member_add(session, of_group, of_user, 0, &error));
    else if (strcmp(call, "remove_member") == 0)
        truth(koine_member_remove(session, of_group, of_user, &error));
    else if (strcmp(call, "create_key") == 0)
        truth((told = koine_key_create(session, of_user, NULL, &error)) != NULL);
    else if (strcmp(call, "keys") == 0 && (told = koine_key_list(session, of_user, &error)) != NULL)
        count((int64_t)koine_result_rows(told));
    else if (strcmp(call, "user_usage") == 0)
        row_of(koine_user_usage(session, of_user, &error), usage);
    else if (strcmp(call, "group_usage") == 0)
        row_of(koine_group_usage(session, of_group, &error), usage);
    else if (strcmp(call, "explain") == 0)
        explain();
    else if (strcmp(call, "pin") == 0)
        pin();
    else if (strcmp(call, "unpin") == 0)
        unpin();
    else if (strcmp(call, "log_in") == 0)
        log_in();
    else if (strcmp(call, "log_out") == 0)
        log_out();
    else
        return strcmp(call, "keys") == 0;
    return true;
}

static bool uploads(const char *call)
{
    const char *upload = text("upload");
    koine_segment from = segment(text("source"), given("range"));
    if (strcmp(call, "upload") == 0) {
        told = koine_upload_create(session, key("key"), options(), &error);
        if (told) {
            printf("{\"gives\":");
            field(0, KOINE_UPLOAD);
            putchar('}');
        }
    } else if (strcmp(call, "part") == 0)
        upload_part();
    else if (strcmp(call, "part_copy") == 0)
        row(koine_upload_part_copy(session, &from, key("key"), upload, number("number", 0), &told, &error), part);
    else if (strcmp(call, "parts") == 0)
        rows(koine_upload_parts(session, key("key"), upload, 0, 0, &error), part);
    else if (strcmp(call, "complete") == 0)
        row(koine_upload_complete(session, key("key"), upload, NULL, 0, options(), &told, &error), object);
    else if (strcmp(call, "abort") == 0)
        truth(koine_upload_abort(session, key("key"), upload, &error));
    else if (strcmp(call, "uploads") == 0)
        rows(koine_upload_list(session, text("bucket"), NULL, &error), name);
    else
        return identities(call);
    return true;
}

/* The ids of versions are kept, each under NAME.NUMBER. */
static void versions(void)
{
    told = koine_version_list(session, text("bucket"), prefix(), &error);
    if (!told)
        return;
    printf("{\"gives\":[");
    for (uint64_t at = 0; at < koine_result_rows(told); at++) {
        printf("%s[", at > 0 ? "," : "");
        field(at, KOINE_NAME);
        printf(",%s,", boolean(at, KOINE_IS_NEWEST));
        if (koine_result_number(told, at, KOINE_IS_MARKER))
            printf("null]");
        else
            printf("%llu]", (unsigned long long)koine_result_number(told, at, KOINE_SIZE));
        if (version_count < 64) {
            snprintf(version_names[version_count], sizeof version_names[0], "%s.%d", text("save"), (int)at);
            snprintf(version_ids[version_count++], sizeof version_ids[0], "%s",
                     koine_result_text(told, at, KOINE_VERSION_ID));
        }
    }
    printf("]}");
}

static void found(uint64_t at)
{
    putchar('[');
    field(at, KOINE_FOUND);
    putchar(',');
    field(at, KOINE_NAME);
    putchar(']');
}

static void search(void)
{
    koine_search_query query;
    koine_init(&query);
    query.of = given("tag") ? KOINE_OF_TAG : KOINE_OF_METADATA;
    query.name = given("tag") ? given("tag") : given("metadata");
    query.equal = given("equal");
    query.begins_with = given("begins");
    query.first = given("first");
    query.last = given("last");
    query.prefix = given("prefix");
    query.limit = number("limit", 0);
    rows(koine_search(session, text("bucket"), &query, &error), found);
}

static void an_index(uint64_t at)
{
    printf("[\"%s\",", koine_result_number(told, at, KOINE_INDEXED) == KOINE_OF_TAG ? "tag" : "metadata");
    field(at, KOINE_NAME);
    printf(",%s]", boolean(at, KOINE_IS_WHOLE));
}

static void settings(uint64_t at)
{
    printf("{\"versioning\":");
    field(at, KOINE_VERSIONING);
    printf(",\"access_times\":\"%s\",\"metadata\":",
           koine_result_number(told, at, KOINE_ACCESS_TIMES) ? "relative" : "off");
    map(at, KOINE_METADATA);
    printf(",\"tags\":");
    map(at, KOINE_TAGS);
    putchar('}');
}

static void set_settings(void)
{
    static koine_entry set_tags[32], gone[32], gone_tags[32];
    koine_bucket_change change;
    koine_init(&change);
    change.set_metadata = metadata;
    change.set_metadata_count = entries("metadata.", metadata, 1);
    change.remove_metadata = gone;
    change.remove_metadata_count = entries("metadata.", gone, 0);
    change.set_tags = set_tags;
    change.set_tag_count = entries("tags.", set_tags, 1);
    change.remove_tags = gone_tags;
    change.remove_tag_count = entries("tags.", gone_tags, 0);
    if (given("access_times"))
        change.flags |= KOINE_CHANGE_ACCESS_TIMES;
    change.access_times = strcmp(text("access_times"), "relative") == 0;
    row(koine_bucket_set(session, text("bucket"), &change, &told, &error), settings);
}

/* A step of a transaction, what it gave behind `place`; false on failure. */
static bool txn_step(koine_txn *txn, const char *what, char *argument, char *place, size_t room)
{
    char *second = argument ? strchr(argument, '+') : NULL;
    char first[64];
    koine_name one, other;
    int answered = 1;
    snprintf(first, sizeof first, "%.*s", (int)(second ? second - argument : 63), argument);
    one = koine_in(text("bucket"), first);
    second = second ? second + 1 : NULL;
    other = koine_in(text("bucket"), second);
    if (strcmp(what, "put") == 0)
        answered = koine_txn_put(txn, one, second, strlen(second), NULL, &error) ? 1 : -1;
    else if (strcmp(what, "append") == 0)
        answered = koine_txn_write(txn, one, UINT64_MAX, second, strlen(second), NULL, &error) ? 1 : -1;
    else if (strcmp(what, "truncate") == 0)
        answered = koine_txn_truncate(txn, one, strtoull(second, NULL, 10), NULL, &error) ? 1 : -1;
    else if (strcmp(what, "copy") == 0)
        answered = koine_txn_copy(txn, one, other, NULL, &error) ? 1 : -1;
    else if (strcmp(what, "move") == 0)
        answered = koine_txn_move(txn, one, other, NULL, &error) ? 1 : -1;
    else if (strcmp(what, "exchange") == 0)
        answered = koine_txn_exchange(txn, one, other, &error) ? 1 : -1;
    else if (strcmp(what, "delete") == 0)
        answered = koine_txn_delete(txn, one, NULL, &error);
    else if (strcmp(what, "exists") == 0) {
        koine_result *info = koine_txn_head(txn, one, &error);
        answered = info ? koine_result_rows(info) > 0 : -1;
        koine_result_free(info);
    } else {
        char buffer[64];
        int64_t length = koine_txn_get(txn, one, 0, sizeof buffer, buffer, &error);
        snprintf(place, room, "\"%.*s\"", (int)length, buffer);
        return length >= 0;
    }
    snprintf(place, room, "%s", answered ? "true" : "false");
    return answered >= 0;
}

/* What the steps gave, as JSON; told once it is committed, since they may be made again. */
static int txn_body(koine_txn *txn, void *context)
{
    char *gave = (char *)context;
    gave[0] = 0;
    for (int at = 1; at < fields; at++) {
        if (strncmp(names[at], "steps.", 6) != 0)
            continue;
        if (gave[0])
            strcat(gave, ",");
        if (!txn_step(txn, names[at] + 6, values[at], gave + strlen(gave), 256))
            return 1;
    }
    return 0;
}

static void transaction(void)
{
    static char gave[4096];
    koine_error *ended = NULL;
    bool done = koine_transact(session, txn_body, gave, NULL, &ended);
    if (done)
        printf("{\"gives\":[%s]}", gave);
    /* Where a step failed that is what is told. */
    if (error)
        koine_error_free(ended);
    else
        error = ended;
}

static bool kept_and_found(const char *call)
{
    const char *bucket_name = text("bucket");
    int of = given("tag") ? KOINE_OF_TAG : KOINE_OF_METADATA;
    const char *entry = given("tag") ? given("tag") : given("metadata");
    if (strcmp(call, "set_versioning") == 0)
        truth(koine_bucket_set_versioning(session, bucket_name, strcmp(text("versioning"), "enabled") == 0 ?
              KOINE_VERSIONS_ENABLED : KOINE_VERSIONS_SUSPENDED, &error));
    else if (strcmp(call, "versions") == 0)
        versions();
    else if (strcmp(call, "get_version") == 0)
        get();
    else if (strcmp(call, "head_version") == 0)
        row_of(koine_version_head(session, key("key"), version(), &error), object);
    else if (strcmp(call, "delete_version") == 0)
        truth(koine_version_delete(session, key("key"), version(), &error));
    else if (strcmp(call, "search") == 0)
        search();
    else if (strcmp(call, "add_index") == 0)
        truth(koine_index_add(session, bucket_name, of, entry, NULL, &error));
    else if (strcmp(call, "drop_index") == 0)
        truth(koine_index_drop(session, bucket_name, of, entry, &error));
    else if (strcmp(call, "indexes") == 0)
        rows(koine_index_list(session, bucket_name, &error), an_index);
    else if (strcmp(call, "settings") == 0)
        row_of(koine_bucket_info(session, bucket_name, &error), settings);
    else if (strcmp(call, "set_settings") == 0)
        set_settings();
    else if (strcmp(call, "transaction") == 0)
        transaction();
    else
        return uploads(call);
    return true;
}

static bool changes(const char *call)
{
    const char *data = text("data");
    koine_segment from = segment(text("key"), given("range"));
    if (strcmp(call, "copy") == 0)
        copy();
    else if (strcmp(call, "move") == 0)
        row(koine_move(session, key("key"), target(), options(), &told, &error), object);
    else if (strcmp(call, "exchange") == 0)
        rows(koine_exchange(session, key("key"), target(), &told, &error) ? told : NULL, object);
    else if (strcmp(call, "copy_prefix") == 0)
        count(koine_copy_prefix(session, key("prefix"), target(), &error));
    else if (strcmp(call, "move_prefix") == 0)
        truth(koine_move_prefix(session, key("prefix"), target(), &error));
    else if (strcmp(call, "write_at") == 0)
        row(koine_write_at(session, key("key"), number("offset", 0), data, strlen(data), options(), &told, &error), object);
    else if (strcmp(call, "append") == 0)
        row(koine_append(session, key("key"), data, strlen(data), options(), &told, &error), object);
    else if (strcmp(call, "truncate") == 0)
        row(koine_truncate(session, key("key"), number("size", 0), options(), &told, &error), object);
    else if (strcmp(call, "write_copy") == 0)
        row(koine_write_copy(session, &from, target(), number("offset", 0), options(), &told, &error), object);
    else if (strcmp(call, "compose") == 0)
        compose();
    else
        return kept_and_found(call);
    return true;
}

static bool objects(const char *call)
{
    const char *data = text("data");
    if (strcmp(call, "put") == 0)
        row(koine_put(session, key("key"), data, strlen(data), options(), &told, &error), object);
    else if (strcmp(call, "get") == 0)
        get();
    else if (strcmp(call, "head") == 0)
        row_of(koine_head(session, key("key"), &error), object);
    else if (strcmp(call, "exists") == 0)
        answer(koine_exists(session, key("key"), &error));
    else if (strcmp(call, "delete") == 0)
        answer(koine_delete(session, key("key"), options(), &error));
    else if (strcmp(call, "delete_many") == 0)
        delete_many();
    else if (strcmp(call, "list") == 0)
        list();
    else if (strcmp(call, "set") == 0)
        set();
    else if (strcmp(call, "file") == 0)
        file();
    else
        return changes(call);
    return true;
}

static bool buckets(const char *call)
{
    const char *of = text("bucket"), *snapshot = text("name");
    if (strcmp(call, "create_bucket") == 0)
        truth(koine_bucket_create(session, of, NULL, &error));
    else if (strcmp(call, "delete_buckets") == 0) {
        if (koine_bucket_delete_all(session, text("group"), &told, &error))
            count((int64_t)koine_result_number(told, 0, KOINE_BUCKETS));
    } else if (strcmp(call, "delete_bucket") == 0)
        truth(koine_bucket_delete(session, of, 0, &error));
    else if (strcmp(call, "purge") == 0)
        truth(koine_bucket_purge(session, of, &error));
    else if (strcmp(call, "bucket") == 0)
        row_of(koine_bucket_info(session, of, &error), bucket);
    else if (strcmp(call, "buckets") == 0)
        rows(koine_bucket_list(session, prefix(), &error), name);
    else if (strcmp(call, "usage") == 0)
        row_of(koine_bucket_usage(session, of, &error), usage);
    else if (strcmp(call, "set_bucket") == 0)
        set_bucket();
    else if (strcmp(call, "snapshot") == 0)
        truth(koine_snapshot_create(session, of, snapshot, NULL, &error));
    else if (strcmp(call, "snapshots") == 0)
        rows(koine_snapshot_list(session, of, &error), name);
    else if (strcmp(call, "delete_snapshot") == 0)
        truth(koine_snapshot_delete(session, of, snapshot, &error));
    else if (strcmp(call, "restore") == 0)
        truth(koine_bucket_restore(session, of, snapshot, &error));
    else if (strcmp(call, "branch") == 0)
        truth(koine_bucket_branch(session, of, text("to"), NULL, &error));
    else
        return objects(call);
    return true;
}

static void parse(char *line)
{
    fields = 0;
    line[strcspn(line, "\n")] = 0;
    for (char *next = strtok(line, "\t"); next && fields < FIELDS; next = strtok(NULL, "\t")) {
        char *equal = strchr(next, '=');
        if (equal)
            *equal++ = 0;
        names[fields] = next;
        values[fields] = equal;
        decode(next);
        if (equal)
            decode(equal);
        fields++;
    }
}

int main(int arguments, char **argument)
{
    static char line[1 << 16];
    if (arguments != 2 || !(store = koine_open(argument[1], NULL, &error)))
        return 2;
    while (fgets(line, sizeof line, stdin)) {
        parse(line);
        session = store;
        for (int at = 0; at < login_count; at++)
            if (given("as") && strcmp(login_names[at], text("as")) == 0)
                session = logins[at];
        for (int at = 0; at < pin_count; at++)
            if (given("pinned") && pins[at] && strcmp(pin_names[at], text("pinned")) == 0)
                session = pins[at];
        if (!buckets(names[0]))
            return 3;
        if (error)
            printf("{\"fails\":\"%s\"}", koine_error_name(error));
        putchar('\n');
        fflush(stdout);
        koine_error_free(error);
        koine_result_free(told);
        error = NULL;
        told = NULL;
    }
    for (int at = 0; at < pin_count; at++) {
        koine_close(pins[at], NULL);
        free(pin_names[at]);
    }
    for (int at = 0; at < login_count; at++) {
        koine_close(logins[at], NULL);
        free(login_names[at]);
        free(login_tokens[at]);
    }
    return koine_close(store, &error) ? 0 : 1;
}
