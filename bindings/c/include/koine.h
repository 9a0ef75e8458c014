/*
 * koine.h: numbered objects on a file or a device, in this process.
 *
 * A store holds objects; an object has a number and bytes. Every call may be made from any thread, also on one
 * object at once; each write is seen whole or not at all.
 *
 * Failures. A call that can fail takes a place for an error as its last argument; NULL is "do not tell". It gives
 * NULL, false or -1 when it fails, and sets the place to an error that the caller frees with koine_error_free. After
 * success the place is untouched.
 *
 * Handles. A koine_store, koine_object, koine_transaction or koine_error pointer is not an address. One that is NULL,
 * was closed, or is of another kind is an error of kind KOINE_INVALID, never a crash. Strings and buffers are
 * addresses: they must be what the call says.
 *
 * Link with -lkoine (pkg-config koine). See koine(3).
 */
#ifndef KOINE_H
#define KOINE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct koine_store koine_store;
typedef struct koine_object koine_object;
typedef struct koine_transaction koine_transaction;
typedef struct koine_error koine_error;

/* ---- Errors ---------------------------------------------------------------------------------------------------- */

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
    KOINE_OTHER = 99,
    KOINE_PANIC = 100      /* a fault of the library */
} koine_kind;

/* The kind of an error; KOINE_OK when it is none. */
int koine_error_kind(const koine_error *error);
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

/* ---- Hints: none changes what a call gives, only how fast --------------------------------------------------------- */

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

/* ---- Stores ------------------------------------------------------------------------------------------------------ */

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

/* ---- Objects ------------------------------------------------------------------------------------------------------ */

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

/* ---- Transactions --------------------------------------------------------------------------------------------------- */

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

#ifdef __cplusplus
}
#endif

#endif
