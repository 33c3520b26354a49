/* librdkafka as it is used here, and the clients that it has told of: binding.c fills it in. */

#ifndef MILLSTREAM_BINDING_H
#define MILLSTREAM_BINDING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* -- What is used of librdkafka's ABI (rdkafka.h), which its soname 1 keeps stable. */

typedef struct {
    int err;
    void *rkt;
    int32_t partition;
    void *payload; /* of an error: its text */
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} message;

_Static_assert(sizeof(void *) == 8 && sizeof(int) == 4, "64 bits, as librdkafka's wheels");
_Static_assert(offsetof(message, payload) == 24 && offsetof(message, offset) == 56, "layout");
_Static_assert(sizeof(message) == 72, "layout of rd_kafka_message_t");

/* One argument of `rd_kafka_produceva`. */
typedef struct {
    int kind;
    union {
        int32_t number;
        int64_t time;
        void *pointer;
        struct {
            const void *data;
            size_t size;
        } bytes;
        char room[64];
    };
} argument;

_Static_assert(sizeof(argument) == 72 && offsetof(argument, bytes) == 8, "rd_kafka_vu_t");

enum { TOPIC = 2, PARTITION, VALUE, KEY, FLAGS = 7, TIME, HEADERS = 10 }; /* of arguments */
enum { COPY = 2 }; /* a flag */
enum { BAD_BATCH = -199, NO_ROOM = -194 }; /* errors: _BAD_MSG, _CRIT_SYS_RESOURCE */

typedef int on_new(void *client, void *conf, void *opaque, char *text, size_t size);
typedef int on_acknowledgement(void *client, message *, void *opaque);

#define HIDDEN __attribute__((visibility("hidden")))

extern HIDDEN struct kafka {
    int (*version)(void);
    int (*type)(const void *client);
    const char *(*name)(const void *client);
    const void *(*conf)(void *client);
    int (*conf_get)(const void *conf, const char *name, char *value, size_t *size);
    void (*conf_set_error)(void *conf, void (*call)(void *, int, const char *, void *));
    int (*intercept)(void *conf, const char *name, on_new *call, void *opaque);
    int (*on_ended)(void *conf, const char *name, int (*call)(void *), void *opaque);
    int (*on_acknowledged)(void *, const char *name, on_acknowledgement *call, void *opaque);
    void *(*queue_new)(void *client);
    void *(*queue_of)(void *client, const char *topic, int32_t partition);
    void (*queue_forward)(void *from, void *to);
    void (*queue_destroy)(void *queue);
    ssize_t (*consume)(void *queue, int wait_ms, message **messages, size_t most);
    void (*destroy)(message *);
    int64_t (*timestamp)(const message *, int *kind);
    const char *(*topic)(const void *rkt);
    const char *(*text)(const message *);
    int (*headers)(const message *, void **headers);
    size_t (*header_count)(const void *headers);
    int (*header)(const void *, size_t, const char **name, const void **value, size_t *size);
    void *(*headers_new)(size_t room);
    void (*headers_destroy)(void *headers);
    int (*header_add)(void *, const char *name, ssize_t length, const void *, ssize_t size);
    void *(*topic_new)(void *client, const char *name, void *conf);
    void (*topic_destroy)(void *rkt);
    void *(*produce)(void *client, const argument *arguments, size_t count);
    int (*error_code)(const void *error);
    void (*error_destroy)(void *error);
} kafka;

/* The consumer that this thread has made since `ms_forget`, and the batch producer of its producer. */
extern HIDDEN _Thread_local void *made_consumer;
extern HIDDEN _Thread_local void *made_batch_producer;

/* What counts the acknowledgements of a new producer, until that is gone; NULL without it. */
HIDDEN void *batch_producer_of(void *client, void *conf);

#endif
