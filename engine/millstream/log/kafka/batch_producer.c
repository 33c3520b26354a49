/* Arrow's columns as records for librdkafka, without a Python object per record.

   One thread at a time appends; librdkafka acknowledges on threads of its own, and has every record
   copied. A batch producer lives as long as its producer's configuration, which librdkafka destroys last:
   whoever calls here holds the producer. */

#define _POSIX_C_SOURCE 200809L
#include "binding.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One column: buffers of Arrow with their sizes in bytes, and the part of them that is meant. */
struct column {
    const uint8_t *valid;
    const int32_t *ends; /* none where `data` has integers */
    const uint8_t *data;
    int64_t valid_size, ends_size, data_size, first, rows;
};

/* A raw batch. The headers of a row are a part of `name` and `content`. */
struct rows {
    struct column timestamp, key, value, headers, name, content;
};

/* What became of the records of a partition since `ms_clear`. */
struct place {
    void *topic;
    int64_t taken, delivered, end; /* `end`: after the last one that was delivered */
    int32_t partition, error;      /* `error`: the first */
};

struct batch_producer {
    void *client;
    pthread_mutex_t lock; /* of what follows */
    struct place *places;
    size_t count, room, last;
};

/* -- Acknowledgements. */

static struct place *find(struct batch_producer *out, const void *topic, int32_t partition) {
    for (size_t i = 0; i < out->count; i++) {
        struct place *p = &out->places[(out->last + i) % out->count];
        if (p->topic != topic || p->partition != partition) continue;
        out->last = (size_t)(p - out->places);
        return p;
    }
    return NULL;
}

static int acknowledged(void *client, message *m, void *opaque) {
    struct batch_producer *out = opaque;
    (void)client;
    pthread_mutex_lock(&out->lock);
    struct place *p = find(out, m->rkt, m->partition);
    if (p && m->err) {
        if (!p->error) p->error = m->err;
    } else if (p) {
        p->delivered++;
        if (m->offset >= p->end) p->end = m->offset + 1;
    }
    pthread_mutex_unlock(&out->lock);
    return 0;
}

/* Forget all places, and let go of their topics: librdkafka wants that before the producer ends. */
void ms_clear(struct batch_producer *out) {
    pthread_mutex_lock(&out->lock);
    for (; out->count; out->count--) kafka.topic_destroy(out->places[out->count - 1].topic);
    out->last = 0;
    pthread_mutex_unlock(&out->lock);
}

static int ended(void *opaque) {
    struct batch_producer *out = opaque;
    pthread_mutex_destroy(&out->lock);
    free(out->places);
    free(out);
    return 0;
}

void *batch_producer_of(void *client, void *conf) {
    struct batch_producer *out = calloc(1, sizeof *out);
    if (!out) return NULL;
    out->client = client;
    pthread_mutex_init(&out->lock, NULL);
    if (kafka.on_ended(conf, "millstream", ended, out)) {
        ended(out);
        return NULL;
    }
    return kafka.on_acknowledged(client, "millstream", acknowledged, out) ? NULL : out;
}

/* The batch producer of the producer that this thread has made since `ms_forget`; NULL if there is none. */
struct batch_producer *ms_batch_producer(void) {
    struct batch_producer *out = made_batch_producer;
    made_batch_producer = NULL;
    return out;
}

const char *ms_batch_producer_name(const struct batch_producer *out) { return kafka.name(out->client); }

/* -- Appending. */

int ms_rows_size(void) { return (int)sizeof(struct rows); }

int ms_delivered_size(void) { return (int)sizeof(struct place); }

/* The index of a place, which is added if it is new; -1 without memory for it, or the topic. */
int ms_place(struct batch_producer *out, const char *topic, int partition) {
    void *handle = kafka.topic_new(out->client, topic, NULL);
    if (!handle) return -1;
    pthread_mutex_lock(&out->lock);
    struct place *p = find(out, handle, partition);
    if (!p && out->count == out->room) {
        size_t room = out->room * 2 + 16;
        struct place *more = realloc(out->places, room * sizeof *more);
        if (more) out->places = more, out->room = room;
    }
    if (p || out->count == out->room)
        kafka.topic_destroy(handle); /* the place has one */
    else {
        p = &out->places[out->count++];
        *p = (struct place){.topic = handle, .partition = partition};
    }
    int index = p ? (int)(p - out->places) : -1;
    pthread_mutex_unlock(&out->lock);
    return index;
}

/* What became of the records of a place; 0, or -1 if there is none of that index. */
int ms_delivered(struct batch_producer *out, int index, struct place *found) {
    pthread_mutex_lock(&out->lock);
    int known = index >= 0 && (size_t)index < out->count;
    if (known) *found = out->places[index];
    pthread_mutex_unlock(&out->lock);
    return known ? 0 : -1;
}

/* Whether the buffers have what the column says, so far as that can be seen without its rows. */
static int fits(const struct column *c, int64_t width) {
    const int64_t most = INT64_MAX / 16;
    if (c->first < 0 || c->rows < 0 || c->first > most || c->rows > most) return 0;
    int64_t last = c->first + c->rows;
    if (c->valid && c->valid_size < (last + 7) / 8) return 0;
    if (!c->rows) return 1;
    if (width) return c->data && c->data_size / width >= last;
    return c->ends && c->ends_size / (int64_t)sizeof *c->ends >= last + 1;
}

static int is_null(const struct column *c, int64_t row) {
    row += c->first;
    return c->valid && !(c->valid[row >> 3] >> (row & 7) & 1);
}

/* Where the row begins and ends in what has `size`: 1, or 0 where that is outside. */
static int span(const struct column *c, int64_t row, int64_t size, int64_t *begin, int64_t *end) {
    *begin = c->ends[c->first + row];
    *end = c->ends[c->first + row + 1];
    return *begin >= 0 && *begin <= *end && *end <= size;
}

static int bytes(const struct column *c, int64_t row, const void **data, size_t *size) {
    int64_t begin, end;
    *data = NULL;
    *size = 0;
    if (is_null(c, row)) return 1;
    if (!span(c, row, c->data_size, &begin, &end) || (end > begin && !c->data)) return 0;
    *data = end > begin ? (const void *)(c->data + begin) : "";
    *size = (size_t)(end - begin);
    return 1;
}

/* The headers of a row, NULL if it has none: 0, or an error of librdkafka. */
static int headers_of(const struct rows *all, int64_t row, void **headers) {
    int64_t begin, end;
    *headers = NULL;
    if (!all->headers.rows || is_null(&all->headers, row)) return 0;
    if (!span(&all->headers, row, all->name.rows, &begin, &end)) return BAD_BATCH;
    if (begin == end) return 0;
    void *made = kafka.headers_new((size_t)(end - begin));
    int error = made ? 0 : NO_ROOM;
    for (; !error && begin < end; begin++) {
        const void *name, *content;
        size_t length, size;
        int good = bytes(&all->name, begin, &name, &length) && name;
        good = good && bytes(&all->content, begin, &content, &size);
        error = good ? kafka.header_add(made, name, (ssize_t)length, content, (ssize_t)size)
                     : BAD_BATCH;
    }
    if (!error)
        *headers = made;
    else if (made)
        kafka.headers_destroy(made);
    return error;
}

static int64_t time_of(const struct column *c, int64_t row) {
    int64_t time;
    memcpy(&time, c->data + (c->first + row) * (int64_t)sizeof time, sizeof time);
    return is_null(c, row) ? 0 : time;
}

/* One row to the client: 0, or an error of librdkafka. */
static int send_row(struct batch_producer *out, argument *record, const struct rows *all, int64_t row) {
    void *headers;
    int error = headers_of(all, row, &headers);
    if (error) return error;
    argument *value = &record[2], *key = &record[3], *time = &record[4], *carried = &record[6];
    if (!bytes(&all->value, row, &value->bytes.data, &value->bytes.size) ||
        !bytes(&all->key, row, &key->bytes.data, &key->bytes.size)) {
        if (headers) kafka.headers_destroy(headers);
        return BAD_BATCH;
    }
    time->time = time_of(&all->timestamp, row);
    if (!time->time) time->time = 1; /* the client takes 0 for none, and writes the present */
    carried->pointer = headers;
    void *failed = kafka.produce(out->client, record, headers ? 7 : 6);
    if (!failed) return 0;
    error = kafka.error_code(failed);
    kafka.error_destroy(failed);
    if (headers) kafka.headers_destroy(headers); /* else they are the record's */
    return error;
}

static int all_fit(const struct rows *all) {
    const struct column *columns[] = {&all->key, &all->value, &all->headers};
    int64_t rows = all->timestamp.rows;
    for (size_t c = 0; c < 3; c++) {
        int absent = c == 2 && !columns[c]->rows;
        if (!fits(columns[c], 0) || (columns[c]->rows != rows && !absent)) return 0;
    }
    if (!fits(&all->name, 0) || !fits(&all->content, 0)) return 0;
    return all->name.rows == all->content.rows && fits(&all->timestamp, sizeof(int64_t));
}

/* Append the rows from `from` on, in order: how many were taken; `error` says why not all. */
int64_t ms_append(struct batch_producer *out, int index, const struct rows *all, int64_t from, int *error) {
    struct place place;
    *error = BAD_BATCH;
    if (from < 0 || !all_fit(all) || ms_delivered(out, index, &place)) return 0;
    argument record[] = {{.kind = TOPIC},    {.kind = PARTITION}, {.kind = VALUE},  {.kind = KEY},
                         {.kind = TIME}, {.kind = FLAGS},     {.kind = HEADERS}};
    record[0].pointer = place.topic;
    record[1].number = place.partition;
    record[5].number = COPY;
    int64_t row = from;
    for (*error = 0; row < all->timestamp.rows; row++)
        if ((*error = send_row(out, record, all, row))) break;
    pthread_mutex_lock(&out->lock);
    if (row > from) out->places[index].taken += row - from;
    pthread_mutex_unlock(&out->lock);
    return row > from ? row - from : 0;
}
