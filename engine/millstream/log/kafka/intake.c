/* What a consumer's partitions bring, without a Python object per record.

   Partitions are forwarded to a queue of ours before they are assigned: it gets their records,
   errors and ends. The consumer's own queue stays with confluent_kafka.

   One thread at a time per `struct intake`. What is handed out belongs to who takes it; every
   message is destroyed by `ms_next` or by `ms_close`. */

#include "batches.h"
#include "binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 100000 };

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

int ms_run_size(void) { return (int)sizeof(struct run); }

/* The intake of the consumer that this thread has made since `ms_forget`; NULL if there is none. */
struct intake *ms_open(int most) {
    if (!made_consumer || most < 1 || most > MOST) return NULL;
    struct intake *in = calloc(1, sizeof *in);
    if (!in) return NULL;
    in->client = made_consumer;
    in->room = (size_t)most;
    in->messages = calloc(in->room, sizeof *in->messages);
    in->queue = in->messages ? kafka.queue_new(made_consumer) : NULL;
    made_consumer = NULL;
    if (in->queue) return in;
    free(in->messages);
    free(in);
    return NULL;
}

const char *ms_name(const struct intake *in) { return kafka.name(in->client); }

/* Take what comes of a partition that is not assigned yet: 0, or -1. */
int ms_expect(struct intake *in, const char *topic, int partition) {
    /* This asks for the leaders of a topic that is new to the client. When a partition of such a
       topic is assigned, librdkafka (2.16) waits for its next look at all topics, up to a second. */
    void *known = kafka.topic_new(in->client, topic, NULL);
    if (!known) return -1;
    void *queue = kafka.queue_of(in->client, topic, partition);
    kafka.topic_destroy(known);
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
        struct sizes s = measure(in->messages + in->next, in->count - in->next);
        if (build(in->messages + in->next, &s, &out->batch)) return -1;
        taken = s.rows;
    }
    for (; taken; taken--) kafka.destroy(in->messages[in->next++]);
    return 1;
}
