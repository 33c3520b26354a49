/* Messages of librdkafka as Arrow arrays. A batch is measured before it is built. */

#include "batches.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The arrays of one batch, parents first. */
enum { BATCH, OFFSET, TIMESTAMP, KEYS, VALUES, LISTS, HEADER, NAME, CONTENT, ARRAYS };

/* One allocation per batch: this, then the buffers. It goes with the last of its arrays. */
struct block {
    atomic_int arrays;
    struct ArrowArray array[ARRAYS];
    struct ArrowArray *children[ARRAYS];
    const void *buffers[ARRAYS][3];
};

enum { ALIGNMENT = 64 };
static const size_t MOST_BYTES = (size_t)64 << 20; /* of one batch, unless its one record has more */

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

struct sizes measure(message **messages, size_t count) {
    const message *first = messages[0];
    struct sizes all = {0};
    for (size_t i = 0; i < count; i++) {
        const message *m = messages[i];
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
    describe(b, which, c->rows, c->nulls, which == LISTS ? 2 : 3);
    b->buffers[which][0] = c->nulls ? c->valid : NULL;
    b->buffers[which][1] = c->ends;
    b->buffers[which][2] = c->data;
}

static void describe_all(struct block *b, const struct columns *all) {
    int64_t rows = all->key.rows;
    for (int i = 0; i < ARRAYS; i++) b->children[i] = &b->array[i];
    atomic_init(&b->arrays, ARRAYS);
    describe(b, BATCH, rows, 0, 1);
    adopt(b, BATCH, OFFSET, LISTS);
    describe(b, OFFSET, rows, 0, 2);
    b->buffers[OFFSET][1] = all->offsets;
    describe(b, TIMESTAMP, rows, 0, 2);
    b->buffers[TIMESTAMP][1] = all->stamps;
    describe_strings(b, KEYS, &all->key);
    describe_strings(b, VALUES, &all->value);
    describe_strings(b, LISTS, &all->headers);
    adopt(b, LISTS, HEADER, HEADER);
    describe(b, HEADER, all->name.rows, 0, 1);
    adopt(b, HEADER, NAME, CONTENT);
    describe_strings(b, NAME, &all->name);
    describe_strings(b, CONTENT, &all->content);
}

int build(message **messages, const struct sizes *s, struct ArrowArray *batch) {
    size_t used = 0;
    lay_out(NULL, &used, s);
    uint8_t *base = aligned_alloc(ALIGNMENT, used);
    if (!base) return -1;
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
    *batch = b->array[BATCH];
    b->array[BATCH].release = NULL; /* moved to `batch`; it still counts */
    return 0;
}
