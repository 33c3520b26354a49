/* Batches of messages from librdkafka as Arrow arrays: what intake.c needs of batches.c. */

#ifndef MILLSTREAM_BATCHES_H
#define MILLSTREAM_BATCHES_H

#include "binding.h"

/* Of Arrow's C data interface. */
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

/* What the records of a run need. */
struct sizes {
    size_t rows, keys, values, carried, names, contents;
};

/* How many of the messages, from the first on, are records of one partition and fit one batch; at
   least 1. */
HIDDEN struct sizes measure(message **messages, size_t count);

/* The records of `s` as one batch, which is released as Arrow says: 0, or -1 without memory. */
HIDDEN int build(message **messages, const struct sizes *s, struct ArrowArray *batch);

#endif
