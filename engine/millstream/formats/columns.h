/* Columns that a format reads values into: one for each node of what its schema demands.
 *
 * A payload's values are appended as it is read; of one that turns out to be left to the caller,
 * they are taken back.
 */

#ifndef MILLSTREAM_COLUMNS_H
#define MILLSTREAM_COLUMNS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    uint8_t *at;
    int64_t size, room;
};

/* `valid`: a byte for each value. `data`: the values, or of a list no bytes, but in `size` how many
 * items there are. `offsets`: of texts and lists. */
struct column {
    struct bytes valid, data, offsets;
    int64_t valid_mark, data_mark, offsets_mark;
};

/* `full`: there is no memory, or an array of Arrow cannot have that much. */
struct columns {
    struct column *all;
    int64_t count;
    int full;
};

static inline int append(struct columns *cs, struct bytes *b, const void *from, int64_t size)
{
    if (b->room - b->size < size) {
        int64_t room = b->room ? b->room : 256;
        while (room - b->size < size)
            room *= 2;
        uint8_t *at = realloc(b->at, (size_t)room);
        if (at == NULL) {
            cs->full = 1;
            return 0;
        }
        b->at = at;
        b->room = room;
    }
    if (size)
        memcpy(b->at + b->size, from, (size_t)size);
    b->size += size;
    return 1;
}

static inline int append_byte(struct columns *cs, struct bytes *b, uint8_t byte)
{
    return append(cs, b, &byte, 1);
}

static inline int append_offset(struct columns *cs, struct bytes *b, int64_t offset)
{
    int32_t small = (int32_t)offset;
    if (offset > INT32_MAX) {
        cs->full = 1;
        return 0;
    }
    return append(cs, b, &small, 4);
}

static inline int put_value(struct columns *cs, int64_t i, const void *value, int64_t width)
{
    struct column *c = &cs->all[i];
    return append_byte(cs, &c->valid, 1) && append(cs, &c->data, value, width);
}

static inline int put_text(struct columns *cs, int64_t i, const uint8_t *from, int64_t size)
{
    struct column *c = &cs->all[i];
    return append_byte(cs, &c->valid, 1) && append(cs, &c->data, from, size)
        && append_offset(cs, &c->offsets, c->data.size);
}

/* A list of the items that were appended since the last one. */
static inline int put_list(struct columns *cs, int64_t i, int64_t items)
{
    struct column *c = &cs->all[i];
    c->data.size += items;
    return append_byte(cs, &c->valid, 1) && append_offset(cs, &c->offsets, c->data.size);
}

/* NULL in a column whose values have this many bytes; 0: they have offsets. */
static inline int put_absent(struct columns *cs, int64_t i, int64_t width)
{
    static const uint8_t zeros[16];
    struct column *c = &cs->all[i];
    if (!append_byte(cs, &c->valid, 0))
        return 0;
    return width ? append(cs, &c->data, zeros, width) : append_offset(cs, &c->offsets, c->data.size);
}

static inline int is_text(const uint8_t *p, int64_t size)
{
    const uint8_t *end = p + size;
    while (p < end) {
        uint64_t eight;
        if (end - p >= 8) {
            memcpy(&eight, p, 8);
            if (!(eight & 0x8080808080808080u)) {
                p += 8;
                continue;
            }
        }
        uint8_t b = *p;
        int more, k;
        uint32_t code;
        if (b < 0x80) {
            p++;
            continue;
        }
        if (b >= 0xc2 && b < 0xe0)
            more = 1, code = b & 0x1f;
        else if (b >= 0xe0 && b < 0xf0)
            more = 2, code = b & 0x0f;
        else if (b >= 0xf0 && b < 0xf5)
            more = 3, code = b & 0x07;
        else
            return 0;
        if (end - p <= more)
            return 0;
        for (k = 1; k <= more; k++) {
            if ((p[k] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (p[k] & 0x3f);
        }
        if ((more == 2 && code < 0x800) || (more == 3 && (code < 0x10000 || code > 0x10ffff))
            || (code >= 0xd800 && code < 0xe000))
            return 0;
        p += more + 1;
    }
    return 1;
}

/* A big-endian number of `size` bytes as 16 little-endian ones, if it has so few digits. */
static inline int decimal_of(const uint8_t *p, int64_t size, int32_t digits, uint8_t *found)
{
    uint8_t sign = size && p[0] & 0x80 ? 0xff : 0;
    while (size > 16) {
        if (*p != sign || (p[1] & 0x80) != (sign & 0x80))
            return 0;
        p++;
        size--;
    }
    int64_t k;
    for (k = 0; k < 16; k++)
        found[k] = k < size ? p[size - 1 - k] : sign;
    __int128 number, limit = 1;
    memcpy(&number, found, 16);
    for (k = 0; k < digits; k++)
        limit *= 10;
    return number < limit && number > -limit;
}

#define KEYS_MAX 1000

static inline int same_value(const struct column *c, int64_t width, int64_t a, int64_t b)
{
    if (width)
        return !memcmp(c->data.at + width * a, c->data.at + width * b, (size_t)width);
    const int32_t *offsets = (const int32_t *)c->offsets.at;
    int32_t size = offsets[a + 1] - offsets[a];
    return offsets[b + 1] - offsets[b] == size
        && (size == 0 || !memcmp(c->data.at + offsets[a], c->data.at + offsets[b], (size_t)size));
}

/* Whether the values of a column from `first` on are few and differ; a NULL among them is no key. */
static inline int are_keys(const struct column *c, int64_t width, int64_t first)
{
    int64_t last = c->valid.size, i, k;
    if (last - first > KEYS_MAX)
        return 0;
    for (i = first; i < last; i++) {
        if (!c->valid.at[i])
            return 0;
        for (k = first; k < i; k++)
            if (same_value(c, width, k, i))
                return 0;
    }
    return 1;
}

static inline void mark(struct columns *cs)
{
    int64_t i;
    for (i = 0; i < cs->count; i++) {
        struct column *c = &cs->all[i];
        c->valid_mark = c->valid.size;
        c->data_mark = c->data.size;
        c->offsets_mark = c->offsets.size;
    }
}

static inline void take_back(struct columns *cs)
{
    int64_t i;
    for (i = 0; i < cs->count; i++) {
        struct column *c = &cs->all[i];
        c->valid.size = c->valid_mark;
        c->data.size = c->data_mark;
        c->offsets.size = c->offsets_mark;
    }
}

void ms_columns_free(struct columns *cs);
struct columns *ms_columns_new(int64_t count);

#endif
