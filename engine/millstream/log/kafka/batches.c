/* Batches of messages from librdkafka as Arrow arrays, without a Python object per record.

   A shared object for ctypes (which lets go of the GIL while it calls), no Python module. It uses
   the librdkafka that confluent_kafka has loaded, found when it is bound, and public calls only:
   librdkafka loads it once more as a plugin, and tells it of each client that is made.

   Partitions are forwarded to a queue of ours before they are assigned: it gets their records,
   errors and ends. The consumer's own queue stays with confluent_kafka, whose callbacks end the
   process when they run outside of its own calls. The one that a partition's queue can call, for
   errors that are none of the consumer's (a partition that is not known yet), is taken out: without
   a callback in Python it does nothing either.

   One thread at a time per `struct intake`. What is handed out belongs to who takes it; every
   message is destroyed by `ms_next` or by `ms_close`. */

#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

typedef int on_new(void *client, void *conf, void *opaque, char *text, size_t size);

static struct {
    int (*version)(void);
    const char *(*name)(const void *client);
    const void *(*conf)(void *client);
    int (*conf_get)(const void *conf, const char *name, char *value, size_t *size);
    void (*conf_set_error)(void *conf, void (*call)(void *, int, const char *, void *));
    int (*intercept)(void *conf, const char *name, on_new *call, void *opaque);
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
} kafka;

/* -- Arrow's C data interface. */

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

/* The arrays of one batch, parents first. */
enum { BATCH, OFFSET, TIMESTAMP, KEY, VALUE, HEADERS, HEADER, NAME, CONTENT, ARRAYS };

/* One allocation per batch: this, then the buffers. It goes with the last of its arrays. */
struct block {
    atomic_int arrays;
    struct ArrowArray array[ARRAYS];
    struct ArrowArray *children[ARRAYS];
    const void *buffers[ARRAYS][3];
};

enum { MOST = 100000, ALIGNMENT = 64 };
static const size_t MOST_BYTES = (size_t)64 << 20; /* of one batch, unless its one record has more */

struct intake {
    void *client, *queue;
    message **messages;
    size_t room, count, next;
};

/* What `ms_next` gives: records of one partition that came in a row, or one piece of news. */
struct run {
    struct ArrowArray batch; /* released where `error` is not 0 */
    int64_t offset;          /* of the news */
    int32_t partition;
    int32_t error;
    char topic[256]; /* empty where the news is of no topic */
    char text[512];
};

/* What the records of a run need. */
struct sizes {
    size_t rows, keys, values, carried, names, contents;
};

/* -- Binding. */

static _Thread_local void *made;

int ms_run_size(void) { return (int)sizeof(struct run); }

/* Find librdkafka through a library that is linked with it and already loaded: 0, or -1. */
int ms_bind(const char *library) {
    const struct {
        void *place;
        const char *name;
    } wanted[] = {
        {&kafka.version, "rd_kafka_version"},
        {&kafka.name, "rd_kafka_name"},
        {&kafka.conf, "rd_kafka_conf"},
        {&kafka.conf_get, "rd_kafka_conf_get"},
        {&kafka.conf_set_error, "rd_kafka_conf_set_error_cb"},
        {&kafka.intercept, "rd_kafka_conf_interceptor_add_on_new"},
        {&kafka.queue_new, "rd_kafka_queue_new"},
        {&kafka.queue_of, "rd_kafka_queue_get_partition"},
        {&kafka.queue_forward, "rd_kafka_queue_forward"},
        {&kafka.queue_destroy, "rd_kafka_queue_destroy"},
        {&kafka.consume, "rd_kafka_consume_batch_queue"},
        {&kafka.destroy, "rd_kafka_message_destroy"},
        {&kafka.timestamp, "rd_kafka_message_timestamp"},
        {&kafka.topic, "rd_kafka_topic_name"},
        {&kafka.text, "rd_kafka_message_errstr"},
        {&kafka.headers, "rd_kafka_message_headers"},
        {&kafka.header_count, "rd_kafka_header_cnt"},
        {&kafka.header, "rd_kafka_header_get_all"},
    };
    void *loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (!loaded) return -1;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(loaded, wanted[i].name);
        if (!found) return -1;
        memcpy(wanted[i].place, &found, sizeof found);
    }
    return 0;
}

int ms_version(void) { return kafka.version(); }

static int has_error_callback(const void *conf) {
    char value[64] = "";
    size_t size = sizeof value;
    return kafka.conf_get(conf, "error_cb", value, &size) == 0;
}

/* A client whose callback was not seen to go is not remembered: it is read in another way. */
static int remember(void *client, void *conf, void *opaque, char *text, size_t size) {
    (void)opaque, (void)text, (void)size;
    int had = has_error_callback(kafka.conf(client));
    kafka.conf_set_error(conf, NULL);
    made = had && !has_error_callback(kafka.conf(client)) ? client : NULL;
    return 0;
}

/* Called by librdkafka for a configuration that names this file in `plugin.library.paths`. */
int conf_init(void *conf, void **opaque, char *text, size_t size) {
    (void)opaque;
    if (kafka.intercept) return kafka.intercept(conf, "millstream", remember, NULL);
    snprintf(text, size, "millstream's reader is not bound");
    return -1;
}

void ms_forget(void) { made = NULL; }

/* The intake of the client that this thread has made since `ms_forget`; NULL if there is none. */
struct intake *ms_open(int most) {
    if (!made || most < 1 || most > MOST) return NULL;
    struct intake *in = calloc(1, sizeof *in);
    if (!in) return NULL;
    in->client = made;
    in->room = (size_t)most;
    in->messages = calloc(in->room, sizeof *in->messages);
    in->queue = in->messages ? kafka.queue_new(made) : NULL;
    made = NULL;
    if (in->queue) return in;
    free(in->messages);
    free(in);
    return NULL;
}

const char *ms_name(const struct intake *in) { return kafka.name(in->client); }

/* Take what comes of a partition that is not assigned yet: 0, or -1. */
int ms_expect(struct intake *in, const char *topic, int partition) {
    void *queue = kafka.queue_of(in->client, topic, partition);
    if (!queue) return -1;
    kafka.queue_forward(queue, in->queue);
    kafka.queue_destroy(queue);
    return 0;
}

/* To be called before the client is closed. */
void ms_close(struct intake *in) {
    for (; in->next < in->count; in->next++) kafka.destroy(in->messages[in->next]);
    kafka.queue_destroy(in->queue);
    free(in->messages);
    free(in);
}

/* Wait for the first message, take what else there is; how many wait for `ms_next`. */
int ms_take(struct intake *in, int wait_ms) {
    if (in->next < in->count) return (int)(in->count - in->next);
    in->next = in->count = 0;
    ssize_t first = kafka.consume(in->queue, wait_ms, in->messages, 1);
    if (first < 1) return 0;
    in->count = 1;
    if (in->room > 1) {
        ssize_t more = kafka.consume(in->queue, 0, in->messages + 1, in->room - 1);
        if (more > 0) in->count += (size_t)more;
    }
    return (int)in->count;
}

/* -- Building. */

static void release(struct ArrowArray *array) {
    struct block *block = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        struct ArrowArray *child = array->children[i];
        if (child->release) child->release(child); /* else it was moved away */
    }
    array->release = NULL;
    if (atomic_fetch_sub(&block->arrays, 1) == 1) free(block);
}

static void *headers_of(const message *m) {
    void *headers = NULL;
    return kafka.headers(m, &headers) == 0 ? headers : NULL;
}

static size_t present(const void *data, size_t size) { return data ? size : 0; }

/* How many messages from `next` on are records of one partition and fit one batch; at least 1. */
static struct sizes measure(const struct intake *in) {
    const message *first = in->messages[in->next];
    struct sizes all = {0};
    for (size_t i = in->next; i < in->count; i++) {
        const message *m = in->messages[i];
        if (m->err || m->rkt != first->rkt || m->partition != first->partition) break;
        struct sizes more = all;
        more.rows++;
        more.keys += present(m->key, m->key_len);
        more.values += present(m->payload, m->len);
        void *headers = headers_of(m);
        size_t carried = headers ? kafka.header_count(headers) : 0;
        for (size_t h = 0; h < carried; h++) {
            const char *name = NULL;
            const void *value = NULL;
            size_t size = 0;
            if (kafka.header(headers, h, &name, &value, &size)) continue;
            more.carried++;
            more.names += strlen(name);
            more.contents += present(value, size);
        }
        if (all.rows && more.keys + more.values + more.names + more.contents > MOST_BYTES) break;
        all = more;
    }
    return all;
}

/* A column of strings that is being filled; its buffers have room for all that was measured. */
struct column {
    uint8_t *valid, *data;
    int32_t *ends;
    int32_t rows, nulls;
};

static void put(struct column *c, const void *data, size_t size) {
    int32_t row = c->rows++, begin = c->ends[row];
    size = present(data, size);
    if (size) memcpy(c->data + begin, data, size);
    c->ends[row + 1] = begin + (int32_t)size;
    if (data)
        c->valid[row >> 3] |= (uint8_t)(1 << (row & 7));
    else
        c->nulls++;
}

/* Arrow's strings are UTF-8; in a name that is not, what is not ASCII becomes '?'. */
static void mend(uint8_t *text, size_t size) {
    for (size_t i = 0; i < size;) {
        uint8_t lead = text[i];
        size_t more = lead < 0x80 ? 0 : lead >> 5 == 6 ? 1 : lead >> 4 == 14 ? 2 : 3;
        uint32_t point = more ? lead & (0x3f >> more) : lead;
        int good = more < 3 || lead >> 3 == 30;
        good = good && more < size - i;
        for (size_t j = 1; good && j <= more; j++) {
            good = text[i + j] >> 6 == 2;
            point = point << 6 | (text[i + j] & 0x3f);
        }
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        good = good && point >= least[more] && point <= 0x10ffff && point >> 11 != 27;
        if (!good) {
            for (i = 0; i < size; i++)
                if (text[i] >= 0x80) text[i] = '?';
            return;
        }
        i += more + 1;
    }
}

static size_t rounded(size_t bytes) { return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

/* The next `bytes` of a block; its room was counted by the same calls with a `base` of NULL. */
static void *carve(uint8_t *base, size_t *used, size_t bytes) {
    void *place = base ? base + *used : NULL;
    *used += rounded(bytes ? bytes : 1);
    return place;
}

static struct column strings(uint8_t *base, size_t *used, size_t rows, size_t bytes) {
    struct column c = {0};
    c.valid = carve(base, used, (rows + 7) / 8);
    c.ends = carve(base, used, (rows + 1) * sizeof *c.ends);
    c.data = carve(base, used, bytes);
    return c;
}

struct columns {
    int64_t *offsets, *stamps;
    struct column key, value, name, content, headers; /* `headers`: of lists, without data */
};

static struct columns lay_out(uint8_t *base, size_t *used, const struct sizes *s) {
    struct columns all = {0};
    *used = rounded(sizeof(struct block));
    all.offsets = carve(base, used, s->rows * sizeof *all.offsets);
    all.stamps = carve(base, used, s->rows * sizeof *all.stamps);
    all.key = strings(base, used, s->rows, s->keys);
    all.value = strings(base, used, s->rows, s->values);
    all.headers = strings(base, used, s->rows, 0);
    all.name = strings(base, used, s->carried, s->names);
    all.content = strings(base, used, s->carried, s->contents);
    return all;
}

static void put_headers(struct columns *all, const message *m) {
    void *headers = headers_of(m);
    struct column *lists = &all->headers;
    size_t carried = headers ? kafka.header_count(headers) : 0;
    for (size_t h = 0; h < carried; h++) {
        const char *name = NULL;
        const void *value = NULL;
        size_t size = 0;
        if (kafka.header(headers, h, &name, &value, &size)) continue;
        size_t length = strlen(name);
        int32_t begin = all->name.ends[all->name.rows];
        put(&all->name, name, length);
        mend(all->name.data + begin, length);
        put(&all->content, value, size);
    }
    put(lists, headers, 0);
    lists->ends[lists->rows] = all->name.rows;
}

static void describe(struct block *b, int which, int64_t length, int64_t nulls, int buffers) {
    struct ArrowArray *array = &b->array[which];
    array->length = length;
    array->null_count = nulls;
    array->n_buffers = buffers;
    array->buffers = b->buffers[which];
    array->release = release;
    array->private_data = b;
}

static void adopt(struct block *b, int which, int first, int last) {
    b->array[which].children = &b->children[first];
    b->array[which].n_children = last - first + 1;
}

static void describe_strings(struct block *b, int which, const struct column *c) {
    describe(b, which, c->rows, c->nulls, which == HEADERS ? 2 : 3);
    b->buffers[which][0] = c->nulls ? c->valid : NULL;
    b->buffers[which][1] = c->ends;
    b->buffers[which][2] = c->data;
}

static void describe_all(struct block *b, const struct columns *all) {
    int64_t rows = all->key.rows;
    for (int i = 0; i < ARRAYS; i++) b->children[i] = &b->array[i];
    atomic_init(&b->arrays, ARRAYS);
    describe(b, BATCH, rows, 0, 1);
    adopt(b, BATCH, OFFSET, HEADERS);
    describe(b, OFFSET, rows, 0, 2);
    b->buffers[OFFSET][1] = all->offsets;
    describe(b, TIMESTAMP, rows, 0, 2);
    b->buffers[TIMESTAMP][1] = all->stamps;
    describe_strings(b, KEY, &all->key);
    describe_strings(b, VALUE, &all->value);
    describe_strings(b, HEADERS, &all->headers);
    adopt(b, HEADERS, HEADER, HEADER);
    describe(b, HEADER, all->name.rows, 0, 1);
    adopt(b, HEADER, NAME, CONTENT);
    describe_strings(b, NAME, &all->name);
    describe_strings(b, CONTENT, &all->content);
}

/* The records of `s` as one batch, in a block of its own; NULL without memory for it. */
static struct block *build(message **messages, const struct sizes *s) {
    size_t used = 0;
    lay_out(NULL, &used, s);
    uint8_t *base = aligned_alloc(ALIGNMENT, used);
    if (!base) return NULL;
    struct columns all = lay_out(base, &used, s);
    struct block *b = (struct block *)base;
    memset(b, 0, sizeof *b);
    struct column *columns[] = {&all.key, &all.value, &all.headers, &all.name, &all.content};
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
        memset(columns[c]->valid, 0, ((c < 3 ? s->rows : s->carried) + 7) / 8);
        columns[c]->ends[0] = 0;
    }
    for (size_t i = 0; i < s->rows; i++) {
        const message *m = messages[i];
        int kind;
        all.offsets[i] = m->offset;
        all.stamps[i] = kafka.timestamp(m, &kind);
        put(&all.key, m->key, m->key_len);
        put(&all.value, m->payload, m->len);
        put_headers(&all, m);
    }
    describe_all(b, &all);
    return b;
}

/* The next run of what was taken: 1, 0 when there is no more, -1 without memory for it. */
int ms_next(struct intake *in, struct run *out) {
    memset(&out->batch, 0, sizeof out->batch);
    if (in->next >= in->count) return 0;
    message *m = in->messages[in->next];
    out->error = m->err;
    out->partition = m->partition;
    out->offset = m->offset;
    const char *topic = m->rkt ? kafka.topic(m->rkt) : "";
    snprintf(out->topic, sizeof out->topic, "%s", topic);
    out->text[0] = 0;
    size_t taken = 1;
    if (m->err) {
        const char *text = kafka.text(m);
        snprintf(out->text, sizeof out->text, "%s", text ? text : "");
    } else {
        struct sizes s = measure(in);
        struct block *b = build(in->messages + in->next, &s);
        if (!b) return -1;
        out->batch = b->array[BATCH];
        b->array[BATCH].release = NULL; /* moved to `out`; it still counts */
        taken = s.rows;
    }
    for (; taken; taken--) kafka.destroy(in->messages[in->next++]);
    return 1;
}
