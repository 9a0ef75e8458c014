/*
 * koine.h: buckets and objects in a store: a file, a device, or a server that holds one.
 *
 * Two libraries in one. Named objects stand in buckets, as in S3: sessions, `koine_put`, `koine_get`, files, uploads,
 * snapshots, users, transactions (the second half of this file). Numbered objects are bytes with a number, in a store
 * of this process: `koine_store_...`, `koine_object_...`, `koine_transaction_...` (the first half). A store has the
 * ones or the others.
 *
 * Threads. Every call may be made from any thread, also on one handle at once; where that means something more it
 * stands at the handle. Each write is seen whole or not at all.
 *
 * Failures. A call that can fail takes a place for an error as its last argument; NULL is "do not tell". It gives
 * NULL, false or -1 when it fails, and sets the place to an error that the caller frees with koine_error_free. After
 * success the place is untouched.
 *
 * Handles. A koine_store, koine_session, koine_result or other koine_ pointer that a call gave is not an address. One
 * that is NULL, was closed, or is of another kind is an error of kind KOINE_INVALID, never a crash. Strings, buffers
 * and structures are addresses: they must be what the call says. None is kept beyond the call unless that is said.
 *
 * Texts are UTF-8 and end with a zero, but where a length stands beside them. Sizes and offsets are in bytes and of 64
 * bits; times are in nanoseconds since 1970.
 *
 * Link with -lkoine (pkg-config koine). See koine(3).
 */
#ifndef KOINE_H
#define KOINE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct koine_store koine_store;
typedef struct koine_object koine_object;
typedef struct koine_transaction koine_transaction;
typedef struct koine_mapped koine_mapped;
typedef struct koine_error koine_error;
typedef struct koine_session koine_session;
typedef struct koine_result koine_result;
typedef struct koine_reader koine_reader;
typedef struct koine_writer koine_writer;
typedef struct koine_file koine_file;
typedef struct koine_txn koine_txn;

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

/* What to do about an error. Later versions may have more. */
typedef enum koine_kind {
    KOINE_OK = 0,
    KOINE_REFUSED = 1,     /* something did not hold; nothing was changed */
    KOINE_INVALID = 2,     /* the argument is wrong and will stay wrong */
    KOINE_NOT_FOUND = 3,   /* the object or store is not there */
    KOINE_FULL = 4,        /* no space, or the limit of objects; deleting still works */
    KOINE_EXPIRED = 5,     /* the read took too long; read again */
    KOINE_OWNED = 6,       /* the store is open elsewhere */
    KOINE_DAMAGED = 7,     /* bytes on the device are not what they should be; the message names the place */
    KOINE_UNKNOWN = 8,     /* not a store, or one of another format; nothing was changed */
    KOINE_DEVICE = 9,      /* the device or file system failed */
    KOINE_STOPPED = 10,    /* the store refuses changes since the device failed; close it and open it again */
    KOINE_UNSUPPORTED = 11,
    KOINE_BUSY = 12,       /* objects are open, or passing; the same call may succeed later */
    KOINE_DISCONNECTED = 13, /* the server that has the store is not reached, or went away; the message says whether what was
                              * asked may have happened, and what of the session is lost. The next call connects again */
    KOINE_TIMED_OUT = 14,  /* the server did not answer in time; whether what was asked happens is not known */
    KOINE_CLOSED = 15,     /* the session that it was opened through was closed */
    KOINE_OTHER = 99,
    KOINE_PANIC = 100,     /* a fault of the library */
    /* Of named objects. Where S3 has a code for it, it has that name. */
    KOINE_NO_SUCH_BUCKET = 200,
    KOINE_NO_SUCH_KEY = 201,            /* no object has this name in the bucket */
    KOINE_NO_SUCH_UPLOAD = 202,         /* or it was completed or aborted */
    KOINE_NO_SUCH_PART = 203,
    KOINE_NO_SUCH_VERSION = 204,
    KOINE_NO_SUCH_SNAPSHOT = 205,
    KOINE_NO_SUCH_INDEX = 206,
    KOINE_NO_SUCH_GROUP = 207,
    KOINE_NO_SUCH_USER = 208,
    KOINE_NO_SUCH_ACCESS_KEY = 209,
    KOINE_NO_SUCH_POLICY = 210,
    KOINE_PRECONDITION_FAILED = 211,    /* a condition of the options does not hold; nothing was changed */
    KOINE_NOT_MODIFIED = 212,
    KOINE_BUCKET_ALREADY_OWNED_BY_YOU = 213, /* a bucket of this name exists, and is the caller's */
    KOINE_BUCKET_ALREADY_EXISTS = 214,
    KOINE_BUCKET_NOT_EMPTY = 215,
    KOINE_ALREADY_EXISTS = 216,
    KOINE_NOT_EMPTY = 217,              /* holds or owns something that goes first */
    KOINE_ACCESS_DENIED = 218,
    KOINE_LOG_IN_FAILED = 219,          /* says no more, so that nobody learns which names there are */
    KOINE_MALFORMED_POLICY = 220,
    KOINE_READ_ONLY = 221,              /* a snapshot, or a session of koine_pin */
    KOINE_QUOTA_EXCEEDED = 222,         /* deleting still works */
    KOINE_INVALID_BUCKET_NAME = 223,
    KOINE_INVALID_REQUEST = 224,        /* not possible as a whole, though each argument is */
    KOINE_INVALID_RANGE = 225,          /* outside the object */
    KOINE_BAD_DIGEST = 226,
    KOINE_INVALID_DIGEST = 227,
    KOINE_ENTITY_TOO_SMALL = 228,       /* a part other than the last has less than 5 MiB */
    KOINE_ENTITY_TOO_LARGE = 229,
    KOINE_INCOMPLETE_BODY = 230,
    KOINE_INVALID_PART = 231,
    KOINE_INVALID_PART_ORDER = 232,
    KOINE_KEY_TOO_LONG = 233,           /* more than 1024 bytes */
    KOINE_METADATA_TOO_LARGE = 234,     /* more than 2 KiB */
    KOINE_INVALID_TAG = 235,
    KOINE_TRANSACTION_TOO_LARGE = 236,
    KOINE_CONFLICT = 237,               /* others changed the same thing again and again; the same call may succeed later */
    KOINE_SYSTEM = 238,                 /* a file descriptor of the caller's failed; the message tells why */
    KOINE_ABORTED = 239                 /* the callback of a transaction gave it up; nothing was changed */
} koine_kind;

/* The kind of an error; KOINE_OK when it is none. */
int koine_error_kind(const koine_error *error);
/* The name of its kind ("NoSuchKey"), until it is freed; "" when it is none. */
const char *koine_error_name(const koine_error *error);
/* Its message, until it is freed; "" when it is none. */
const char *koine_error_message(const koine_error *error);
/* Frees it. NULL, and an error that was freed before, do nothing. */
void koine_error_free(koine_error *error);

/* The version of the library: "MAJOR.MINOR.PATCH". */
const char *koine_version(void);

/* ---- What a change survives ------------------------------------------------------------------------------------- */

typedef enum koine_sync {
    KOINE_NO_SYNC = 0, /* visible; may be lost with the process, or when the room for it goes to others: then the next call tells */
    KOINE_WRITTEN = 1, /* survives the end of the process */
    KOINE_SYNC = 2     /* survives power loss */
} koine_sync;

/* ---- Hints: none changes what a call gives, only how fast ------------------------------------------------------- */

typedef enum koine_access {
    KOINE_ACCESS_UNKNOWN = 0,
    KOINE_ACCESS_SEQUENTIAL = 1, /* read ahead */
    KOINE_ACCESS_RANDOM = 2      /* small checksum chunks, no read-ahead */
} koine_access;

typedef enum koine_lifetime {
    KOINE_LIFETIME_UNKNOWN = 0,
    KOINE_LIFETIME_SHORT = 1, /* gone soon: placed from the end of the store */
    KOINE_LIFETIME_LONG = 2   /* stays: placed from its begin */
} koine_lifetime;

typedef struct koine_hint {
    koine_access access;
    koine_lifetime lifetime;
    uint64_t expected_size;  /* creating fails with KOINE_FULL when so much is not free; 0: not known */
} koine_hint;

/* ---- Stores ----------------------------------------------------------------------------------------------------- */

typedef struct koine_store_options {
    uint64_t block_size;   /* in which data lies, for ever: a power of two from 4096 to 1048576; 0: 4096 */
    uint64_t object_limit; /* the most objects at once, for ever; 0: as many as fit */
    uint64_t size_max;     /* up to how many bytes a file grows; 0: as far as the disk allows */
    uint64_t memory;       /* for tables and caches, in bytes; up to twice as much beside it for unsynced writes; 0: 128 MiB */
    int force;             /* not 0: overwrite what is there */
} koine_store_options;

typedef struct koine_store_status {
    const char *path;          /* lives as long as the process */
    uint64_t store_id;         /* drawn when the store was made */
    uint64_t block_size;
    uint64_t objects;          /* how many there are */
    uint64_t objects_open;     /* handles and transactions */
    uint64_t object_limit;     /* UINT64_MAX: none */
    uint64_t objects_possible; /* how many more the limit allows; UINT64_MAX: no limit */
    uint64_t size;             /* in bytes, at present */
    uint64_t size_max;         /* UINT64_MAX: as far as the disk allows */
    uint64_t used;
    uint64_t free;
} koine_store_status;

/* Makes a store in a file (made when missing) or on a block device, and opens it. options may be NULL. What is there
 * is overwritten only when it is empty or zeros, or with force. */
koine_store *koine_store_create(const char *path, const koine_store_options *options, koine_error **error);
/* Opens a store. KOINE_OWNED when it is open already, here or in another process. */
koine_store *koine_store_open(const char *path, koine_error **error);
/* Closes a store, everything in it durable. KOINE_BUSY while objects are open: then it stays open. */
bool koine_store_close(koine_store *store, koine_error **error);
/* Makes everything so far survive power loss. */
bool koine_store_sync(koine_store *store, koine_error **error);
bool koine_store_get_status(const koine_store *store, koine_store_status *status, koine_error **error);
/* Lets a store take more space while it is in use: of a file up to size bytes as they are needed, UINT64_MAX: as far as
 * the disk allows; of a device size bytes now, 0: all that was added to it. A store never becomes smaller. */
bool koine_store_grow(koine_store *store, uint64_t size, koine_error **error);
/* Writes everything in the store, as it is in one version, to a file descriptor that is open for writing, and leaves
 * that open. Gives the length of the stream in bytes, or -1. The store may be in use. */
int64_t koine_store_export(koine_store *store, int descriptor, koine_error **error);
/* As koine_store_create, with what an export holds, which is read from a file descriptor: all of it, or the new store
 * holds nothing and is not opened. The descriptor stays open, and may have been read beyond the end of the stream. */
koine_store *koine_store_receive(const char *path, const koine_store_options *options, int descriptor,
                                 koine_error **error);
/* Creates up to 16384 objects in one commit, all or none, without opening them. Their numbers follow each other from
 * *first on. */
bool koine_store_create_many(koine_store *store, uint64_t count, uint64_t size, int sync, uint64_t *first,
                             koine_error **error);
/* Deletes up to 16384 objects in one commit; none when one is not there. */
bool koine_store_delete_many(koine_store *store, const uint64_t *numbers, uint64_t count, int sync,
                             koine_error **error);
/* Lists the numbers of at most count objects from number from on, in order; gives how many. */
int64_t koine_store_list(const koine_store *store, uint64_t from, uint64_t *numbers, uint64_t count,
                         koine_error **error);

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

typedef struct koine_object_status {
    const char *store;  /* the store's path; lives as long as the process */
    uint64_t number;
    uint64_t size;      /* in bytes, holes included */
    uint64_t allocated; /* bytes of the device, in whole blocks */
    uint64_t reserved;  /* bytes set aside for first writes, and for the index of them */
    uint64_t version;   /* grows with each change */
} koine_object_status;

/* Creates an object of size bytes that read as zeros, and opens it. So much space is set aside: writing these bytes for the
 * first time never fails for want of it. KOINE_FULL when so much is not free now. hint may be NULL. */
koine_object *koine_object_create(koine_store *store, uint64_t size, const koine_hint *hint, koine_error **error);
/* Opens an object. hint may be NULL. */
koine_object *koine_object_open(koine_store *store, uint64_t number, const koine_hint *hint, koine_error **error);
/* Closes an object, its changes as durable as sync says. The handle ends also when this fails. */
bool koine_object_close(koine_object *object, int sync, koine_error **error);
/* Deletes an object and closes it. Other handles of it give KOINE_NOT_FOUND from then on; they still want closing. */
bool koine_object_delete(koine_object *object, int sync, koine_error **error);
/* Sets the size: what is cut off is gone, what is added reads as zeros. */
bool koine_object_resize(koine_object *object, uint64_t size, int sync, koine_error **error);
/* Makes everything so far survive power loss. */
bool koine_object_sync(koine_object *object, koine_error **error);
/* Writes count bytes; the object grows as needed, a gap reads as zeros. Gives count: all is written or nothing. */
int64_t koine_object_write(koine_object *object, uint64_t offset, uint64_t count, const void *buffer, int sync,
                           koine_error **error);
/* Reads up to count bytes; gives how many, fewer only at the object's end. */
int64_t koine_object_read(koine_object *object, uint64_t offset, uint64_t count, void *buffer, koine_error **error);
/* Says that a range will be read soon: reads it now, keeps what it can in memory. */
bool koine_object_will_need(koine_object *object, uint64_t offset, uint64_t count, koine_error **error);
/* The number; 0, which no object has, when the handle is none. */
uint64_t koine_object_number(const koine_object *object);
bool koine_object_get_status(const koine_object *object, koine_object_status *status, koine_error **error);
/* Bytes of an object without a copy, verified; fewer than count only at the object's end. They stay what they are, whatever is
 * written or deleted later, until koine_mapped_free. They are in memory when this returns and stay there, so that a medium
 * that fails is an error of this call and never a signal. Where that cannot be (ulimit -l; holes; small pieces), they are a
 * verified copy. They count as an open object: koine_store_close says so. */
koine_mapped *koine_object_map(koine_object *object, uint64_t offset, uint64_t count, koine_error **error);
/* Where they lie; NULL when the handle is none, or there are none. */
const void *koine_mapped_bytes(const koine_mapped *mapped);
uint64_t koine_mapped_length(const koine_mapped *mapped);
bool koine_mapped_is_copy(const koine_mapped *mapped);
/* Gives them back: nobody may look at them any more. */
bool koine_mapped_free(koine_mapped *mapped, koine_error **error);

/* ---- Transactions ----------------------------------------------------------------------------------------------- */

/* Starts a transaction on an object and any others of its store. Nothing of it is visible before it is executed, then
 * all of it at once, or nothing when that fails. */
koine_transaction *koine_transaction_start(koine_object *object, koine_error **error);
/* Queues a write; the buffer is free again at once. Gives count. */
int64_t koine_transaction_write(koine_transaction *transaction, koine_object *object, uint64_t offset, uint64_t count,
                                const void *buffer, koine_error **error);
/* Reads at once, with the writes that the transaction has queued; gives the count as koine_object_read. */
int64_t koine_transaction_read(koine_transaction *transaction, koine_object *object, uint64_t offset, uint64_t count,
                               void *buffer, koine_error **error);
/* Queues a read, which sees the writes queued before it. The buffer must stay, and nobody else may touch it, until the
 * transaction ends. *done gets the count when it is executed; done may be NULL. */
bool koine_transaction_read_later(koine_transaction *transaction, koine_object *object, uint64_t offset,
                                  uint64_t count, void *buffer, int64_t *done, koine_error **error);
/* Executes a transaction in one commit, and gives the bytes that it wrote and read. The handle ends also when this
 * fails; then nothing of it has happened (after KOINE_STOPPED: open the store again and look). */
int64_t koine_transaction_execute(koine_transaction *transaction, int sync, koine_error **error);
/* Ends a transaction without doing anything of it. */
bool koine_transaction_abandon(koine_transaction *transaction, koine_error **error);

/* ================================================================================================================ */
/* Named objects in buckets                                                                                         */
/* ================================================================================================================ */

/* ---- Structures that grow --------------------------------------------------------------------------------------- */

/* Flags of different structures have different values: one that is not a structure's is KOINE_INVALID, and so is a member
 * that is set without its flag. */

/* Options and changes are structures whose first member is their size. Set all of one to zero and its size right by
 *     koine_options options; koine_init(&options);
 * and then what is wanted of it: a program that was compiled with an older header goes on to work. */
#define koine_init(structure)                                                                                          \
    (memset((structure), 0, sizeof *(structure)), (void)((structure)->struct_size = sizeof *(structure)))

/* ---- Names ------------------------------------------------------------------------------------------------------ */

/* A length that stands for "up to the zero at the end". */
#define KOINE_TERMINATED UINT64_MAX

/* An object's name: a bucket and a key. A key is UTF-8 of 1 to 1024 bytes, a zero among them where a length is told.
 * BUCKET@SNAPSHOT is a bucket that can be read. */
typedef struct koine_name {
    const char *bucket;
    const char *key;
    uint64_t key_length; /* or KOINE_TERMINATED */
} koine_name;

/* The name of `key`, which ends with a zero, in `bucket`. */
static inline koine_name koine_in(const char *bucket, const char *key)
{
    koine_name name;
    name.bucket = bucket;
    name.key = key;
    name.key_length = KOINE_TERMINATED;
    return name;
}

/* An entry of metadata or tags; in a list of names the value is not looked at. */
typedef struct koine_entry {
    const char *name;
    const char *value;
} koine_entry;

/* Some bytes of an object. */
typedef struct koine_segment {
    koine_name name;
    uint64_t offset;
    uint64_t length;      /* UINT64_MAX with offset 0: all */
    const char *if_match; /* NULL, or the ETag that the object must have */
} koine_segment;

/* ---- Results ---------------------------------------------------------------------------------------------------- */

/* What a call tells is a result: rows that have fields. It never changes; any thread may read it. Texts of it live until
 * koine_result_free, which the caller owes for each result that it got. A field that a row has not, a row that there
 * is not and a handle that is none read as "" and 0. Calls that tell something aside take a place for a result, which
 * may be NULL: then nothing is told and nothing is to be freed. */
typedef enum koine_field {
    KOINE_NAME = 1,              /* text: an object's key, a common prefix, the name of a bucket, snapshot, user, ... */
    KOINE_IS_PREFIX = 2,         /* number: 1 for a common prefix of a listing */
    KOINE_SIZE = 3,              /* number: bytes */
    KOINE_ETAG = 4,              /* text, without quotes */
    KOINE_VERSION = 5,           /* number: the commit that last changed it */
    KOINE_ID = 6,                /* text: the same as long as the object lives, whatever it is named */
    KOINE_CREATED = 7,           /* number: a time */
    KOINE_MODIFIED = 8,          /* number: when its bytes changed */
    KOINE_CHANGED = 9,           /* number: when anything of it changed */
    KOINE_MODE = 10,             /* number: permission bits */
    KOINE_PART_COUNT = 11,       /* number, where it was joined from parts */
    KOINE_CONTENT_TYPE = 12,     /* texts, as they were given */
    KOINE_CACHE_CONTROL = 13,
    KOINE_CONTENT_DISPOSITION = 14,
    KOINE_CONTENT_ENCODING = 15,
    KOINE_CONTENT_LANGUAGE = 16,
    KOINE_EXPIRES = 17,
    KOINE_METADATA = 18,         /* entries */
    KOINE_TAGS = 19,             /* entries */
    KOINE_CHECKSUMS = 20,        /* entries: algorithm, text */
    KOINE_UID = 21,              /* number, where it was set */
    KOINE_GID = 22,
    KOINE_BODY = 23,             /* text with a length: bytes of the object */
    KOINE_EXISTED = 24,          /* number: 1 where there was something to delete */
    KOINE_ERROR_NAME = 25,       /* text: what koine_error_name tells, where this one of many failed */
    KOINE_ERROR_MESSAGE = 26,    /* text */
    KOINE_PART_NUMBER = 27,      /* number: 1 to 10000 */
    KOINE_UPLOAD = 28,           /* text: the id of an upload */
    KOINE_OBJECTS = 29,          /* numbers: how much a bucket holds */
    KOINE_BYTES = 30,
    KOINE_OLDER_VERSIONS = 31,
    KOINE_OLDER_BYTES = 32,
    KOINE_UPLOAD_BYTES = 33,
    KOINE_QUOTA_BYTES = 34,      /* numbers, where there is a quota */
    KOINE_QUOTA_OBJECTS = 35,
    KOINE_DESCRIPTION = 36,      /* text */
    KOINE_GROUP = 37,            /* text: a user's home, a bucket's group */
    KOINE_GROUPS = 38,           /* entries without values: other groups of a user */
    KOINE_POLICIES = 39,         /* entries without values */
    KOINE_DISABLED = 40,         /* number: 1 for who does not get in */
    KOINE_ADMINISTRATOR = 41,    /* number */
    KOINE_HAS_PASSWORD = 42,     /* number */
    KOINE_TOKEN = 43,            /* text */
    KOINE_EXPIRES_AT = 44,       /* number: a time */
    KOINE_SECRET = 45,           /* text: shown this once */
    KOINE_OWNER = 46,            /* text: a bucket's owner; of a session number: 1 where this process holds the store */
    KOINE_POLICY = 47,           /* text: a policy's document */
    KOINE_USERS = 48,            /* numbers: what went with a group */
    KOINE_BUCKETS = 49,
    KOINE_BEING_DELETED = 50,    /* number */
    KOINE_RIGHTS = 51,           /* number: KOINE_RIGHT_... together */
    KOINE_GRANTEE = 52,          /* number: a koine_grantee */
    KOINE_VERSION_ID = 53,       /* text: which of the versions of its name it is; `null` where none are kept */
    KOINE_IS_NEWEST = 54,        /* number: 1 for the version that the name stands for */
    KOINE_IS_MARKER = 55,        /* number: 1 for a version that says that the name was deleted */
    KOINE_FOUND = 56,            /* text: what the metadata or tag says that was searched for */
    KOINE_INDEXED = 57,          /* number: a koine_indexed */
    KOINE_IS_WHOLE = 58,         /* number: 1 for an index that is searched; 0 while it is built */
    KOINE_VERSIONING = 59,       /* text: never, enabled or suspended */
    KOINE_ACCESS_TIMES = 60,     /* number: 1 where a bucket keeps when its objects were last read */
    KOINE_ALLOWED = 61,          /* number */
    KOINE_RULE = 62,             /* text: what decided */
    KOINE_ACCESSED = 63          /* number: when it was last read, where its bucket keeps that */
} koine_field;

/* How many rows there are. */
uint64_t koine_result_rows(const koine_result *result);
/* Whether a row has a field. */
bool koine_result_has(const koine_result *result, uint64_t row, int field);
/* A text, with a zero behind it; it may have others within: see its length. */
const char *koine_result_text(const koine_result *result, uint64_t row, int field);
/* The length of a text in bytes. */
uint64_t koine_result_length(const koine_result *result, uint64_t row, int field);
uint64_t koine_result_number(const koine_result *result, uint64_t row, int field);
/* Entries: how many, and the name and the value of each from 0 on. */
uint64_t koine_result_entries(const koine_result *result, uint64_t row, int field);
const char *koine_result_entry_name(const koine_result *result, uint64_t row, int field, uint64_t entry);
const char *koine_result_entry_value(const koine_result *result, uint64_t row, int field, uint64_t entry);
/* Whether another page follows, and what its `after` is: a name (of a part: its number) and beside it, of uploads, an
 * upload, of versions, a version, of a search, the text that was found. */
bool koine_result_has_next(const koine_result *result);
const char *koine_result_next(const koine_result *result);
uint64_t koine_result_next_length(const koine_result *result);
const char *koine_result_next_upload(const koine_result *result);
/* Frees a result. NULL, and one that was freed before, do nothing. */
void koine_result_free(koine_result *result);

/* ---- Sessions --------------------------------------------------------------------------------------------------- */

typedef struct koine_open_options {
    uint64_t struct_size;
    int create;          /* not 0: make the store where the file is missing or empty */
    uint64_t size_max;   /* up to how many bytes a file that is made grows; 0: as far as the disk allows */
    uint64_t memory;     /* for tables and caches, in bytes; 0: 128 MiB */
    uint64_t block_size; /* of a store that is made; 0: 4096 */
    const char *key;     /* what a server over TCP wants to see, or NULL */
    const char *token;   /* who calls: the user of this token; NULL: who owns the device */
    /* Of a store that another process has; UINT64_MAX: for ever. */
    uint64_t connect_milliseconds;   /* for the server to take the connection; 0: 10 seconds; then KOINE_TIMED_OUT */
    uint64_t call_milliseconds;      /* for the answer to a call; 0: a minute; then KOINE_TIMED_OUT */
    uint64_t reconnect_milliseconds; /* for a server that went away to come back, from when that was found; 0: 10 seconds;
                                        then KOINE_DISCONNECTED, and each later call tries once */
} koine_open_options;

/* Opens the store at a path, `memory:`, rocksdb:FOLDER, koine+unix:SOCKET or koine+tcp:HOST:PORT. A store that another
 * process holds and serves is reached through that process; else this one holds it (KOINE_OWNED where it cannot, also
 * when this process has it open already: share the session). options may be NULL. The caller closes it. A session has
 * no state of its own: threads share one without waiting for each other. After fork() it is the parent's
 * alone: every call of the child with a handle from before is refused (KOINE_STOPPED), writes nothing and reads nothing;
 * closing such a handle there is true and does nothing. Errors and results stay good. The child opens what it needs.
 * Where the process that has the store was started again, the session connects again by itself, as the same user. Calls that
 * read are made again; a change that was under way when the connection was lost is KOINE_DISCONNECTED where it may have
 * happened. Readers and pinned sessions of before are KOINE_EXPIRED then, writers and transactions KOINE_DISCONNECTED, and
 * nothing of theirs was stored. */
koine_session *koine_open(const char *place, const koine_open_options *options, koine_error **error);
/* Ends a session. With the last session of a store everything is finished and the store given back; readers, writers
 * and files that are still open are KOINE_CLOSED from then on, and still want closing. The handle ends also when this fails. */
bool koine_close(koine_session *session, koine_error **error);
/* A row: KOINE_NAME is the place, KOINE_OWNER 1 where this process holds the store. */
koine_result *koine_session_info(const koine_session *session, koine_error **error);
/* Logs in: another session of the same store, as that user, to be closed like any. `told`: the token, good for so many
 * seconds (0: 12 hours; at most 30 days). KOINE_LOG_IN_FAILED. */
koine_session *koine_log_in(koine_session *session, const char *user, const char *password, uint64_t seconds,
                            koine_result **told, koine_error **error);
/* Another session of the same store, as the user of a token; for NULL as one without an identity. */
koine_session *koine_as(koine_session *session, const char *token, koine_error **error);
/* Another session of the same store and user, which reads the store as it is now, whatever is changed later; what would
 * change something is KOINE_READ_ONLY. Who may read is decided by the rules of the moment of each call. `told`:
 * KOINE_VERSION, the last commit that is seen. While it is open, what was deleted since takes space; KOINE_EXPIRED
 * where the store could not wait. Of a store that another process holds there are at most 64 (KOINE_BUSY). To be closed
 * like any. */
koine_session *koine_pin(koine_session *session, koine_result **told, koine_error **error);
/* Takes a token back: sessions of it may nothing any more. */
bool koine_log_out(koine_session *session, const char *token, koine_error **error);

/* ---- Options of changes ----------------------------------------------------------------------------------------- */

typedef enum koine_flag {
    KOINE_IF_ABSENT = 1,          /* nothing may have the name, else KOINE_PRECONDITION_FAILED */
    KOINE_IF_PRESENT = 2,         /* something must have it, else KOINE_NO_SUCH_KEY */
    KOINE_IF_VERSION = 4,         /* what has it was last changed by the commit if_version */
    KOINE_NO_CREATE = 8,          /* edits: an absent object is not made, but KOINE_NO_SUCH_KEY */
    KOINE_SOURCE_ATTRIBUTES = 16, /* koine_compose: headers, metadata and tags are those of the first segment's object */
    KOINE_REPLACE_ATTRIBUTES = 32, /* koine_copy: headers and metadata are those given, not the source's */
    KOINE_REPLACE_TAGS = 64,      /* koine_copy: tags are those given */
    KOINE_MD5 = 128               /* puts, files and uploads: the ETag is made of the MD5 of the bytes, as S3 gives it;
                                     else it is drawn, has a dash and costs nothing */
} koine_flag;

/* What a change asks for beside its arguments. What a call has no use for is KOINE_INVALID: all take conditions; puts,
 * copies, compositions, files and uploads take headers, metadata and tags; copies and moves a source's ETag. */
typedef struct koine_options {
    uint64_t struct_size;
    uint64_t flags;              /* of koine_flag, together */
    const char *if_match;        /* NULL, or ETags, separated by commas: what has the name must have one */
    uint64_t if_version;         /* with KOINE_IF_VERSION */
    const char *source_if_match; /* the source must have one of these ETags */
    const char *content_type;    /* headers: stored and given back */
    const char *cache_control;
    const char *content_disposition;
    const char *content_encoding;
    const char *content_language;
    const char *expires;
    const koine_entry *metadata; /* names in lower case; 2 KiB in all */
    uint64_t metadata_count;
    const koine_entry *tags;     /* at most 10 */
    uint64_t tag_count;
    const char *source_version;  /* koine_copy: this version of the source; NULL: the newest */
} koine_options;

/* ---- Buckets ---------------------------------------------------------------------------------------------------- */

/* Which rows of a listing. NULL is all of them, from the first on. */
typedef struct koine_list_options {
    uint64_t struct_size;
    const char *prefix;        /* names that begin so; NULL: all */
    uint64_t prefix_length;    /* 0: up to its zero */
    const char *delimiter;     /* objects and uploads: what is the same up to the next one is one row, a common prefix */
    const char *after;         /* names after this one: koine_result_next of the last page */
    uint64_t after_length;     /* 0: up to its zero */
    uint64_t limit;            /* the most rows; 0: 1000 */
    const char *upload_after;  /* uploads and versions: koine_result_next_upload of the last page */
    const char *group;         /* buckets: those of this group alone, for its members and administrators; NULL: all */
} koine_list_options;

/* Called with one row, which it does not free and which ends when it returns; it may make any other call. Not 0: the walk
 * ends there, which is no error. It runs on the thread of the walk. */
typedef int (*koine_each)(void *context, const koine_result *row);

typedef enum koine_bucket_change_flag {
    KOINE_CHANGE_QUOTA_BYTES = 0x4000,  /* also of koine_identity_change */
    KOINE_CHANGE_QUOTA_OBJECTS = 0x8000,
    KOINE_CHANGE_BUCKET_METADATA = 0x10000, /* the metadata are those set, and no others */
    KOINE_CHANGE_BUCKET_TAGS = 0x20000,
    KOINE_CHANGE_ACCESS_TIMES = 0x40000
} koine_bucket_change_flag;

typedef struct koine_bucket_change {
    uint64_t struct_size;
    uint64_t flags;          /* what is changed; the rest stays */
    uint64_t quota_bytes;    /* UINT64_MAX: none */
    uint64_t quota_objects;  /* UINT64_MAX: none */
    uint64_t access_times;   /* 1: keep when objects were last read; 0: do not */
    const koine_entry *set_metadata;    /* added, or put in the place of those of their names */
    uint64_t set_metadata_count;
    const koine_entry *remove_metadata; /* their values are not looked at */
    uint64_t remove_metadata_count;
    const koine_entry *set_tags;
    uint64_t set_tag_count;
    const koine_entry *remove_tags;
    uint64_t remove_tag_count;
} koine_bucket_change;

/* Makes a bucket: 3 to 63 of lower-case letters, digits, dots and hyphens. `told`: what is known of it. */
bool koine_bucket_create(koine_session *session, const char *bucket, koine_result **told, koine_error **error);
/* Deletes a bucket. KOINE_BUCKET_NOT_EMPTY where it holds objects, or snapshots unless those go with it. */
bool koine_bucket_delete(koine_session *session, const char *bucket, int with_snapshots, koine_error **error);
/* Deletes all buckets of a group with what is in them, their snapshots too; the group stays. `told`: KOINE_BUCKETS, how
 * many. Interrupted, the rest is there; again, it goes on. */
bool koine_bucket_delete_all(koine_session *session, const char *group, koine_result **told, koine_error **error);
/* A row: name, time of creation, quotas, KOINE_VERSIONING, KOINE_ACCESS_TIMES, metadata, tags. */
koine_result *koine_bucket_info(const koine_session *session, const char *bucket, koine_error **error);
/* A row: how much it holds. Costs the same however much that is. */
koine_result *koine_bucket_usage(const koine_session *session, const char *bucket, koine_error **error);
/* Changes quotas, access times, metadata and tags. A quota below what is there keeps out what would add. */
bool koine_bucket_set(koine_session *session, const char *bucket, const koine_bucket_change *change,
                      koine_result **told, koine_error **error);
/* Takes all objects out at once, however many. */
bool koine_bucket_purge(koine_session *session, const char *bucket, koine_error **error);
/* A page of buckets by name, of those that the caller may see. options may be NULL. */
koine_result *koine_bucket_list(const koine_session *session, const koine_list_options *options, koine_error **error);
/* Calls back for each bucket that begins so; prefix may be NULL. */
bool koine_bucket_for_each(const koine_session *session, const char *prefix, koine_each each, void *context,
                           koine_error **error);

typedef enum koine_versioning {
    KOINE_VERSIONS_NEVER = 0,      /* a name has one object */
    KOINE_VERSIONS_ENABLED = 1,    /* what is put over, edited or deleted stays as an older version */
    KOINE_VERSIONS_SUSPENDED = 2   /* what was kept stays, and no more is kept */
} koine_versioning;

/* Sets whether a bucket keeps versions: a koine_versioning. Once it does, never again KOINE_VERSIONS_NEVER. */
bool koine_bucket_set_versioning(koine_session *session, const char *bucket, int versioning, koine_error **error);

/* ---- Snapshots and branches: each in constant time -------------------------------------------------------------- */

/* Keeps a bucket as it is now; it is read as the bucket BUCKET@SNAPSHOT. */
bool koine_snapshot_create(koine_session *session, const char *bucket, const char *snapshot, koine_result **told,
                           koine_error **error);
/* A row each, by name. */
koine_result *koine_snapshot_list(const koine_session *session, const char *bucket, koine_error **error);
bool koine_snapshot_delete(koine_session *session, const char *bucket, const char *snapshot, koine_error **error);
/* Puts a bucket back to what it was. What was put since is gone. */
bool koine_bucket_restore(koine_session *session, const char *bucket, const char *snapshot, koine_error **error);
/* Makes a bucket that begins as `from`, a bucket or BUCKET@SNAPSHOT, is, and goes its own way. */
bool koine_bucket_branch(koine_session *session, const char *from, const char *to, koine_result **told,
                         koine_error **error);

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

/* Each change is one commit, durable when the call returns. `told` is a row of the object as it is then. options may be
 * NULL. */

/* Puts an object of `length` bytes, in the place of what has its name. */
bool koine_put(koine_session *session, koine_name name, const void *data, uint64_t length,
               const koine_options *options, koine_result **told, koine_error **error);
/* Puts all that a file descriptor gives, from where it stands to its end. It stays open. */
bool koine_put_fd(koine_session *session, koine_name name, int descriptor, const koine_options *options,
                  koine_result **told, koine_error **error);
/* Reads up to `length` bytes from `offset` on into the buffer; gives how many, fewer only at the object's end. */
int64_t koine_get(const koine_session *session, koine_name name, uint64_t offset, uint64_t length, void *buffer,
                  koine_error **error);
/* Reads all of it: a row of the object with KOINE_BODY, in the library's memory until the result is freed. */
koine_result *koine_get_all(const koine_session *session, koine_name name, koine_error **error);
/* Writes up to `length` bytes (UINT64_MAX: all) from `offset` on to a file descriptor, which stays open; gives how many. */
int64_t koine_get_fd(const koine_session *session, koine_name name, uint64_t offset, uint64_t length, int descriptor,
                     koine_error **error);
/* A row of the object. KOINE_NO_SUCH_KEY. */
koine_result *koine_head(const koine_session *session, koine_name name, koine_error **error);
/* 1 where it is there, 0 where not, -1 on failure. */
int koine_exists(const koine_session *session, koine_name name, koine_error **error);
/* Deletes: 1, 0 where there was nothing, -1 on failure. */
int koine_delete(koine_session *session, koine_name name, const koine_options *options, koine_error **error);
/* Deletes up to 1000 objects of one bucket in one commit. A row each: KOINE_EXISTED, or KOINE_ERROR_NAME. */
koine_result *koine_delete_many(koine_session *session, const koine_name *names, uint64_t count, koine_error **error);
/* A page of objects and common prefixes, in the order of the bytes of their names. options may be NULL. */
koine_result *koine_list(const koine_session *session, const char *bucket, const koine_list_options *options,
                         koine_error **error);
/* Calls back for each object that begins so; prefix may be NULL. What stays is told once, what comes or goes meanwhile
 * at most once. */
bool koine_for_each(const koine_session *session, const char *bucket, const char *prefix, koine_each each,
                    void *context, koine_error **error);
/* Copies an object over what has the name, without copying its data, also between buckets. */
bool koine_copy(koine_session *session, koine_name from, koine_name to, const koine_options *options,
                koine_result **told, koine_error **error);
/* Gives an object another name, over what has that. */
bool koine_move(koine_session *session, koine_name from, koine_name to, const koine_options *options,
                koine_result **told, koine_error **error);
/* Swaps two objects. `told`: two rows, as they are named then. */
bool koine_exchange(koine_session *session, koine_name one, koine_name other, koine_result **told,
                    koine_error **error);
/* Copies all objects whose names begin so to names that begin otherwise; gives how many, or -1. In steps of 2500: what
 * was copied before a failure stays. */
int64_t koine_copy_prefix(koine_session *session, koine_name from, koine_name to, koine_error **error);
/* The same for moving, within a bucket and in one commit. */
bool koine_move_prefix(koine_session *session, koine_name from, koine_name to, koine_error **error);

/* ---- Edits: the object stays the same, its ETag is another ------------------------------------------------------ */

/* Writes at an offset; the object grows as needed, a gap reads as zeros. */
bool koine_write_at(koine_session *session, koine_name name, uint64_t offset, const void *data, uint64_t length,
                    const koine_options *options, koine_result **told, koine_error **error);
/* Writes behind what is there by then. */
bool koine_append(koine_session *session, koine_name name, const void *data, uint64_t length,
                  const koine_options *options, koine_result **told, koine_error **error);
/* As koine_write_at, all that a file descriptor gives. It stays open. */
bool koine_write_fd(koine_session *session, koine_name name, uint64_t offset, int descriptor,
                    const koine_options *options, koine_result **told, koine_error **error);
/* Gives an object another size; what is added reads as zeros. */
bool koine_truncate(koine_session *session, koine_name name, uint64_t size, const koine_options *options,
                    koine_result **told, koine_error **error);
/* Writes a segment, which tells its length, at an offset of another object, without copying data. */
bool koine_write_copy(koine_session *session, const koine_segment *from, koine_name to, uint64_t offset,
                      const koine_options *options, koine_result **told, koine_error **error);
/* Makes an object of up to 10000 segments, one behind the other, without copying data. */
bool koine_compose(koine_session *session, const koine_segment *segments, uint64_t count, koine_name to,
                   const koine_options *options, koine_result **told, koine_error **error);

typedef enum koine_change_flag {
    KOINE_CHANGE_ALL_METADATA = 0x100, /* the metadata are those set, and no others */
    KOINE_CHANGE_ALL_TAGS = 0x200,
    KOINE_CHANGE_HEADERS = 0x400,      /* all headers are those of `headers` */
    KOINE_CHANGE_MODE = 0x800,
    KOINE_CHANGE_OWNER = 0x1000,
    KOINE_CHANGE_MODIFIED = 0x2000
} koine_change_flag;

/* What is changed of an object beside its bytes; the rest stays. */
typedef struct koine_change {
    uint64_t struct_size;
    uint64_t flags;
    const koine_entry *set_metadata;    /* added, or put in the place of those of their names */
    uint64_t set_metadata_count;
    const koine_entry *remove_metadata; /* their values are not looked at */
    uint64_t remove_metadata_count;
    const koine_entry *set_tags;
    uint64_t set_tag_count;
    const koine_entry *remove_tags;
    uint64_t remove_tag_count;
    uint64_t mode;                      /* permission bits */
    uint64_t uid;
    uint64_t gid;
    uint64_t modified;                  /* a time */
    const koine_options *headers;       /* only its headers are looked at; NULL: none */
} koine_change;

bool koine_set(koine_session *session, koine_name name, const koine_change *change, const koine_options *options,
               koine_result **told, koine_error **error);

/* ---- Versions --------------------------------------------------------------------------------------------------- */

/* A page of the versions in a bucket, or in a snapshot of one: by name, then newest first, delete markers too. A row:
 * KOINE_NAME, KOINE_VERSION_ID, KOINE_IS_NEWEST, KOINE_MODIFIED, and KOINE_IS_MARKER or what a listing tells of an
 * object. options may be NULL. */
koine_result *koine_version_list(const koine_session *session, const char *bucket, const koine_list_options *options,
                                 koine_error **error);
/* As koine_head, koine_get and koine_reader_open, of one version: KOINE_NO_SUCH_VERSION. */
koine_result *koine_version_head(const koine_session *session, koine_name name, const char *version,
                                 koine_error **error);
int64_t koine_version_get(const koine_session *session, koine_name name, const char *version, uint64_t offset,
                          uint64_t length, void *buffer, koine_error **error);
koine_reader *koine_version_open(const koine_session *session, koine_name name, const char *version,
                                 koine_error **error);
/* Deletes a version, or a delete marker, for good. Where it was the newest, the one before it is: what was deleted is
 * there again. */
bool koine_version_delete(koine_session *session, koine_name name, const char *version, koine_error **error);

/* ---- Searching -------------------------------------------------------------------------------------------------- */

typedef enum koine_indexed {
    KOINE_OF_METADATA = 1,
    KOINE_OF_TAG = 2
} koine_indexed;

/* Which objects are searched for. One of `equal`, `begins_with`, and `first` with `last`, says what the text must be; NULL
 * all: anything. Texts compare by their bytes. */
typedef struct koine_search_query {
    uint64_t struct_size;
    uint64_t of;              /* a koine_indexed */
    const char *name;         /* of the metadata, in lower case, or of the tag */
    const char *equal;
    const char *begins_with;
    const char *first;        /* this, or behind it */
    const char *last;         /* this, or before it */
    const char *prefix;       /* objects whose names begin so; NULL: all */
    const char *value_after;  /* koine_result_next_upload of the last page */
    const char *name_after;   /* koine_result_next of the last page */
    uint64_t limit;           /* the most rows; 0: 1000 */
} koine_search_query;

/* A page of what is found, by the first 256 bytes of the texts, then by name: rows as of a listing, and KOINE_FOUND. With
 * an index it costs what it finds, without one as much as lies under the prefix. */
koine_result *koine_search(const koine_session *session, const char *bucket, const koine_search_query *query,
                           koine_error **error);
/* Adds an index over metadata or a tag (`of`: a koine_indexed), at most 16 of a bucket, and builds it while others write.
 * KOINE_ALREADY_EXISTS where it is whole; interrupted, the next call goes on. `told`: a row as of koine_index_list. */
bool koine_index_add(koine_session *session, const char *bucket, int of, const char *name, koine_result **told,
                     koine_error **error);
bool koine_index_drop(koine_session *session, const char *bucket, int of, const char *name, koine_error **error);
/* A row each: KOINE_NAME, KOINE_INDEXED, KOINE_IS_WHOLE. */
koine_result *koine_index_list(const koine_session *session, const char *bucket, koine_error **error);

/* ---- Readers and writers ---------------------------------------------------------------------------------------- */

/* A reader reads an object as it was when it was opened, whatever becomes of it. Threads read side by side. */
koine_reader *koine_reader_open(const koine_session *session, koine_name name, koine_error **error);
/* A row of the object. */
koine_result *koine_reader_info(const koine_reader *reader, koine_error **error);
/* As koine_get. */
int64_t koine_reader_read(const koine_reader *reader, uint64_t offset, uint64_t length, void *buffer,
                          koine_error **error);
bool koine_reader_close(koine_reader *reader, koine_error **error);

/* A writer takes a body piece by piece; nothing is seen of it before koine_writer_finish, then all at once. Threads that
 * share one are taken one after the other. */
koine_writer *koine_writer_open(koine_session *session, koine_name name, const koine_options *options,
                                koine_error **error);
/* The same for an edit: at an offset, or for UINT64_MAX at the end. */
koine_writer *koine_writer_open_at(koine_session *session, koine_name name, uint64_t offset,
                                   const koine_options *options, koine_error **error);
/* Adds a piece; gives its length. */
int64_t koine_writer_write(koine_writer *writer, const void *data, uint64_t length, koine_error **error);
/* Commits. The handle ends also when this fails; then nothing was changed. */
bool koine_writer_finish(koine_writer *writer, koine_result **told, koine_error **error);
/* Gives up what was written. The handle ends. */
bool koine_writer_drop(koine_writer *writer, koine_error **error);

/* ---- Files ------------------------------------------------------------------------------------------------------ */

typedef enum koine_whence {
    KOINE_FROM_START = 0,
    KOINE_FROM_HERE = 1,
    KOINE_FROM_END = 2
} koine_whence;

/* Opens an object as a file: "r" to read what is there; "r+" to read and write over it; "w" to put it anew; "x" the same
 * where nothing is; "a" to write behind what is there; a "b" behind the first letter changes nothing. "w" and "x" change nothing before koine_file_close, which is
 * one commit; "r+" and "a" change the object at koine_file_flush and koine_file_close. What is read is the object as
 * it was opened, and what was written here. Threads that share a file are taken one after the other. */
koine_file *koine_file_open(koine_session *session, koine_name name, const char *mode, const koine_options *options,
                            koine_error **error);
/* Reads where the file stands; gives how many bytes, fewer only at its end. */
int64_t koine_file_read(koine_file *file, uint64_t length, void *buffer, koine_error **error);
/* Writes where the file stands; gives the length. */
int64_t koine_file_write(koine_file *file, const void *data, uint64_t length, koine_error **error);
/* Moves; gives the place from the beginning. (file, 0, KOINE_FROM_HERE, ...) tells where it stands. */
int64_t koine_file_seek(koine_file *file, int64_t offset, int whence, koine_error **error);
/* How long it is, with what was written here; -1 on failure. */
int64_t koine_file_size(const koine_file *file, koine_error **error);
/* Of "r+": gives it another size, seen from the next flush on. */
bool koine_file_truncate(koine_file *file, uint64_t size, koine_error **error);
bool koine_file_flush(koine_file *file, koine_error **error);
/* Makes what was written visible, and closes. `told` is not set for "r". The handle ends also when this fails. */
bool koine_file_close(koine_file *file, koine_result **told, koine_error **error);
/* Closes and gives up what was not flushed. */
bool koine_file_drop(koine_file *file, koine_error **error);

/* ---- Uploads in parts ------------------------------------------------------------------------------------------- */

/* A part as a completion names it. */
typedef struct koine_part {
    uint64_t number;
    const char *etag;
} koine_part;

/* Begins an upload: a row with KOINE_UPLOAD, its id, by which any process goes on with it until it is completed or
 * aborted. Options: headers and metadata. */
koine_result *koine_upload_create(koine_session *session, koine_name name, const koine_options *options,
                                  koine_error **error);
/* Puts part 1 to 10000, over what has the number; all but the last have 5 MiB or more. `told`: a row of the part. */
bool koine_upload_part(koine_session *session, koine_name name, const char *upload, uint64_t number, const void *data,
                       uint64_t length, koine_result **told, koine_error **error);
bool koine_upload_part_fd(koine_session *session, koine_name name, const char *upload, uint64_t number,
                          int descriptor, koine_result **told, koine_error **error);
/* The part is a segment of an object, whose data is not copied. */
bool koine_upload_part_copy(koine_session *session, const koine_segment *from, koine_name name, const char *upload,
                            uint64_t number, koine_result **told, koine_error **error);
/* Parts after this number, at most `limit` (0: 1000). */
koine_result *koine_upload_parts(const koine_session *session, koine_name name, const char *upload, uint64_t after,
                                 uint64_t limit, koine_error **error);
/* Makes the object of these parts in ascending order; with NULL and 0 of all that were put. */
bool koine_upload_complete(koine_session *session, koine_name name, const char *upload, const koine_part *parts,
                           uint64_t count, const koine_options *options, koine_result **told, koine_error **error);
bool koine_upload_abort(koine_session *session, koine_name name, const char *upload, koine_error **error);
/* A page of uploads by name and then by age. options may be NULL. */
koine_result *koine_upload_list(const koine_session *session, const char *bucket, const koine_list_options *options,
                                koine_error **error);

/* ---- Transactions ----------------------------------------------------------------------------------------------- */

/* Called by koine_transact with a transaction that ends when it returns: 0 to commit, anything else to give up. It is
 * called again where others changed what it read, so it does nothing else that cannot be done twice. */
typedef int (*koine_txn_body)(koine_txn *transaction, void *context);

/* Runs the callback on this thread and commits all that it changed at once, durably; or changes nothing: KOINE_ABORTED
 * where it gave up, KOINE_BUSY where others were faster 500 times. `told`: KOINE_VERSION, the commit. */
bool koine_transact(koine_session *session, koine_txn_body body, void *context, koine_result **told,
                    koine_error **error);
/* What these read they see with the changes made before in the transaction, and it is a condition of the commit. They are
 * made on the callback's thread. */
/* A row, or none where there is no such object. */
koine_result *koine_txn_head(koine_txn *transaction, koine_name name, koine_error **error);
/* As koine_get; but not bytes that the transaction itself has written. */
int64_t koine_txn_get(koine_txn *transaction, koine_name name, uint64_t offset, uint64_t length, void *buffer,
                      koine_error **error);
/* A page; that no name comes or goes in it is a condition of the commit. */
koine_result *koine_txn_list(koine_txn *transaction, const char *bucket, const koine_list_options *options,
                             koine_error **error);
bool koine_txn_put(koine_txn *transaction, koine_name name, const void *data, uint64_t length,
                   const koine_options *options, koine_error **error);
/* At an offset, or for UINT64_MAX at the end. */
bool koine_txn_write(koine_txn *transaction, koine_name name, uint64_t offset, const void *data, uint64_t length,
                     const koine_options *options, koine_error **error);
bool koine_txn_truncate(koine_txn *transaction, koine_name name, uint64_t size, const koine_options *options,
                        koine_error **error);
bool koine_txn_write_copy(koine_txn *transaction, const koine_segment *from, koine_name to, uint64_t offset,
                          const koine_options *options, koine_error **error);
bool koine_txn_compose(koine_txn *transaction, const koine_segment *segments, uint64_t count, koine_name to,
                       const koine_options *options, koine_error **error);
bool koine_txn_copy(koine_txn *transaction, koine_name from, koine_name to, const koine_options *options,
                    koine_error **error);
bool koine_txn_move(koine_txn *transaction, koine_name from, koine_name to, const koine_options *options,
                    koine_error **error);
bool koine_txn_exchange(koine_txn *transaction, koine_name one, koine_name other, koine_error **error);
int koine_txn_delete(koine_txn *transaction, koine_name name, const koine_options *options, koine_error **error);
bool koine_txn_set(koine_txn *transaction, koine_name name, const koine_change *change, const koine_options *options,
                   koine_error **error);
/* Keys and values of a space of the caller's, 32 to 2^32-1, made when it is first written to; for who owns the device
 * alone. A row with KOINE_BODY, or none. */
koine_result *koine_txn_key_get(koine_txn *transaction, uint64_t space, const void *key, uint64_t key_length,
                                koine_error **error);
bool koine_txn_key_put(koine_txn *transaction, uint64_t space, const void *key, uint64_t key_length,
                       const void *value, uint64_t length, koine_error **error);
bool koine_txn_key_delete(koine_txn *transaction, uint64_t space, const void *key, uint64_t key_length,
                          koine_error **error);

/* ---- Groups, users, keys ---------------------------------------------------------------------------------------- */

typedef enum koine_identity_change_flag {
    /* KOINE_CHANGE_QUOTA_BYTES, KOINE_CHANGE_QUOTA_OBJECTS: of all buckets together */
    KOINE_CHANGE_POLICIES = 0x80000,
    KOINE_CHANGE_DISABLED = 0x100000,  /* this and the next two: users only */
    KOINE_CHANGE_ADMINISTRATOR = 0x200000,
    KOINE_CHANGE_UID = 0x400000        /* the user of this machine that it is */
} koine_identity_change_flag;

typedef struct koine_identity_change {
    uint64_t struct_size;
    uint64_t flags;
    const char *name;            /* another name, or NULL */
    const char *description;     /* of a user: what people call it; NULL: as it is */
    const koine_entry *policies; /* values are not looked at */
    uint64_t policy_count;
    uint64_t quota_bytes;        /* UINT64_MAX: none */
    uint64_t quota_objects;
    uint64_t disabled;
    uint64_t administrator;
    uint64_t uid;
} koine_identity_change;

/* description may be NULL. */
bool koine_group_create(koine_session *session, const char *group, const char *description, koine_result **told,
                        koine_error **error);
/* Deletes a group with the users at home in it and all of its buckets. `told`: KOINE_USERS and KOINE_BUCKETS. */
bool koine_group_delete(koine_session *session, const char *group, koine_result **told, koine_error **error);
koine_result *koine_group_info(const koine_session *session, const char *group, koine_error **error);
/* A row: how much its buckets hold together. */
koine_result *koine_group_usage(const koine_session *session, const char *group, koine_error **error);
koine_result *koine_group_list(const koine_session *session, const koine_list_options *options, koine_error **error);
bool koine_group_set(koine_session *session, const char *group, const koine_identity_change *change,
                     koine_result **told, koine_error **error);
/* Makes a user at home in a group; without a password (NULL) it comes by access keys or as a user of this machine. */
bool koine_user_create(koine_session *session, const char *group, const char *user, const char *password,
                       koine_result **told, koine_error **error);
/* KOINE_NOT_EMPTY while it owns buckets. */
bool koine_user_delete(koine_session *session, const char *user, koine_error **error);
koine_result *koine_user_info(const koine_session *session, const char *user, koine_error **error);
/* A row: how much its buckets hold together. */
koine_result *koine_user_usage(const koine_session *session, const char *user, koine_error **error);
/* Users of a group; of all for NULL. */
koine_result *koine_user_list(const koine_session *session, const char *group, const koine_list_options *options,
                              koine_error **error);
bool koine_user_set(koine_session *session, const char *user, const koine_identity_change *change,
                    koine_result **told, koine_error **error);
bool koine_user_set_password(koine_session *session, const char *user, const char *password, koine_error **error);
/* By who knows the old one; a user changes its own so. All its tokens are taken back but the session's. */
bool koine_user_change_password(koine_session *session, const char *user, const char *old_password,
                                const char *password, koine_error **error);
/* The tokens of a user: rows with KOINE_NAME (an id; the token is not kept), KOINE_CREATED, KOINE_EXPIRES_AT. */
koine_result *koine_token_list(const koine_session *session, const char *user, koine_error **error);
/* Takes one back by its id. */
bool koine_token_delete(koine_session *session, const char *user, const char *id, koine_error **error);
bool koine_member_add(koine_session *session, const char *group, const char *user, int administrator,
                      koine_error **error);
bool koine_member_remove(koine_session *session, const char *group, const char *user, koine_error **error);

typedef struct koine_key_options {
    uint64_t struct_size;
    uint64_t seconds;        /* how long it is good; 0: until it is deleted */
    const char *access_key;  /* with `secret`: not drawn but these; or NULL */
    const char *secret;
    const char *policy;      /* narrows what it may be used for; or NULL */
    const char *description;
} koine_key_options;

/* Makes an access key for S3: a row with KOINE_NAME and KOINE_SECRET, which is shown this once. options may be NULL. */
koine_result *koine_key_create(koine_session *session, const char *user, const koine_key_options *options,
                               koine_error **error);
koine_result *koine_key_list(const koine_session *session, const char *user, koine_error **error);
bool koine_key_delete(koine_session *session, const char *user, const char *access_key, koine_error **error);

/* ---- Policies and access lists ---------------------------------------------------------------------------------- */

typedef enum koine_grantee {
    KOINE_TO_USER = 1,
    KOINE_TO_GROUP = 2,
    KOINE_TO_EVERY_USER = 3, /* where public access is on */
    KOINE_TO_EVERYONE = 4    /* where public access is on */
} koine_grantee;

typedef enum koine_right {
    KOINE_RIGHT_READ = 0x1000000,       /* of a bucket: listing it */
    KOINE_RIGHT_WRITE = 0x2000000,      /* of a bucket: putting and deleting in it */
    KOINE_RIGHT_READ_LIST = 0x4000000,
    KOINE_RIGHT_WRITE_LIST = 0x8000000
} koine_right;

/* A line of an access list. */
typedef struct koine_grant {
    uint64_t grantee;  /* a koine_grantee */
    const char *name;  /* of the user or group; else NULL */
    uint64_t rights;   /* of koine_right, together */
} koine_grant;

/* Sets a policy (a document in the language of S3) that users and groups are given by name; NULL deletes it. */
bool koine_policy_set(koine_session *session, const char *policy, const char *document, koine_error **error);
/* A row with KOINE_POLICY. */
koine_result *koine_policy_get(const koine_session *session, const char *policy, koine_error **error);
/* The same for the one policy of a bucket. */
bool koine_bucket_set_policy(koine_session *session, const char *bucket, const char *document, koine_error **error);
koine_result *koine_bucket_get_policy(const koine_session *session, const char *bucket, koine_error **error);
/* Gives a bucket to a user; group: NULL for the user's home. */
bool koine_bucket_set_owner(koine_session *session, const char *bucket, const char *owner, const char *group,
                            koine_error **error);
/* A row with KOINE_OWNER and KOINE_GROUP. */
koine_result *koine_bucket_get_owner(const koine_session *session, const char *bucket, koine_error **error);
/* Sets an access list of at most 100 grants; with 0 it grants nothing. */
bool koine_bucket_set_access(koine_session *session, const char *bucket, const koine_grant *grants, uint64_t count,
                             koine_error **error);
/* A row for each grant: KOINE_GRANTEE, KOINE_RIGHTS, and KOINE_ID of a user or group. */
koine_result *koine_bucket_get_access(const koine_session *session, const char *bucket, koine_error **error);
bool koine_set_access(koine_session *session, koine_name name, const koine_grant *grants, uint64_t count,
                      koine_error **error);
koine_result *koine_get_access(const koine_session *session, koine_name name, koine_error **error);
typedef enum koine_asker {
    KOINE_ASKER_EVERYONE = 0,   /* somebody without an identity */
    KOINE_ASKER_USER = 1,
    KOINE_ASKER_ACCESS_KEY = 2  /* what it is narrowed to counts too */
} koine_asker;

/* Whether somebody may do something to a bucket or, unless the key is NULL, to an object, and why: a row with
 * KOINE_ALLOWED and KOINE_RULE. asker: a koine_asker; who: the user's name or the access key; action: as in policies,
 * `s3:GetObject`. For administrators. */
koine_result *koine_explain(const koine_session *session, int asker, const char *who, const char *action,
                            const char *bucket, const char *key, koine_error **error);
/* Whether what policies and lists give to everyone is given. */
bool koine_set_public_access(koine_session *session, int on, koine_error **error);

#ifdef __cplusplus
}
#endif

#endif
