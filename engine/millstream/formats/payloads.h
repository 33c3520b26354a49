/* Payloads that a format writes from columns: each node of what its schema demands has the buffers
 * of its column. */

#ifndef MILLSTREAM_PAYLOADS_H
#define MILLSTREAM_PAYLOADS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* `next`: behind its subtree. `size`, `digits`: as the format says. `valid`: a byte for each value;
 * NULL: all are. `before`: what precedes a value that is there; `instead`: what stands for one that
 * is not, `instead_size` -1 if nothing can. */
struct source {
    int64_t kind, next, size, digits;
    const uint8_t *valid;
    const uint8_t *data;
    const int32_t *offsets;
    const uint8_t *before;
    int64_t before_size;
    const uint8_t *instead;
    int64_t instead_size;
};

/* `full`: there is no memory, or an array of Arrow cannot have that much. */
struct output {
    uint8_t *at;
    int64_t size, room;
    int full;
};

static inline int make_room(struct output *out, int64_t size)
{
    if (out->room - out->size < size) {
        int64_t room = out->room;
        while (room - out->size < size)
            room *= 2;
        uint8_t *at = room > INT32_MAX ? NULL : realloc(out->at, (size_t)room);
        if (at == NULL) {
            out->full = 1;
            return 0;
        }
        out->at = at;
        out->room = room;
    }
    return 1;
}

static inline int put(struct output *out, const void *from, int64_t size)
{
    if (!make_room(out, size))
        return 0;
    if (size)
        memcpy(out->at + out->size, from, (size_t)size);
    out->size += size;
    return 1;
}

static inline int put_varint(struct output *out, uint64_t number)
{
    uint8_t bytes[10];
    int size = 0;
    while (number > 0x7f) {
        bytes[size++] = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    bytes[size++] = (uint8_t)number;
    return put(out, bytes, size);
}

static inline uint64_t zigzag(int64_t number)
{
    return ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
}

/* A decimal of at most so many digits as big-endian bytes, as few as hold it and its sign; returns
 * how many, which end with the 16th, or 0 if it has more digits. */
static inline int64_t decimal_bytes(const uint8_t *from, int64_t digits, uint8_t *bytes)
{
    __int128 number, limit = 1;
    int64_t k, size = 16;
    memcpy(&number, from, 16);
    for (k = 0; k < digits; k++)
        limit *= 10;
    if (number >= limit || number <= -limit)
        return 0;
    for (k = 0; k < 16; k++)
        bytes[k] = (uint8_t)(number >> (8 * (15 - k)));
    uint8_t sign = number < 0 ? 0xff : 0;
    while (size > 1 && bytes[16 - size] == sign && (bytes[17 - size] & 0x80) == (sign & 0x80))
        size--;
    return size;
}

/* The payloads of `rows` rows by what writes one, each behind `prefix`. `offsets` gets their ends
 * behind a zero, and `odd` a mark for each row that is left to the caller. */
typedef int write_row(struct output *out, const struct source *nodes, int64_t count, int64_t row);

uint8_t *ms_payloads(write_row *write, const struct source *nodes, int64_t count, int64_t rows,
                     const uint8_t *prefix, int64_t prefix_size, int32_t *offsets, uint8_t *odd);

#endif
