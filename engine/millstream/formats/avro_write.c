/* Writes columns as payloads in Avro's binary encoding.
 *
 * What a schema demands is a tree of nodes in preorder, each with the buffers of its column. A row
 * that the schema cannot have is left to the caller: it is marked, and its payload is empty.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, FIXED, MILLIS, DECIMAL, EITHER, LIST, RECORD, LITERAL
};

/* `next`: behind its subtree. `size`: of a FIXED, or of a DECIMAL in a fixed (0: in bytes); for a
 * FIXED of symbols, see below. `digits`: of a DECIMAL. `valid`: a byte for each value; NULL: all
 * are. `before`: what precedes a value that is there; `instead`: what stands for one that is not,
 * `instead_size` -1 if nothing can. */
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

struct output {
    uint8_t *at;
    int64_t size, room;
    int full;
};

static int put(struct output *out, const void *from, int64_t size)
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
    if (size)
        memcpy(out->at + out->size, from, (size_t)size);
    out->size += size;
    return 1;
}

static int put_long(struct output *out, int64_t number)
{
    uint8_t bytes[10];
    int size = 0;
    uint64_t zigzag = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    while (zigzag > 0x7f) {
        bytes[size++] = (uint8_t)(zigzag | 0x80);
        zigzag >>= 7;
    }
    bytes[size++] = (uint8_t)zigzag;
    return put(out, bytes, size);
}

/* The bytes of a decimal, big-endian: as few as hold it and its sign. */
static int put_decimal(struct output *out, const struct source *n, int64_t row)
{
    __int128 number, limit = 1;
    uint8_t bytes[16];
    int64_t k, size = 16;
    memcpy(&number, n->data + 16 * row, 16);
    for (k = 0; k < n->digits; k++)
        limit *= 10;
    if (number >= limit || number <= -limit)
        return 0;
    for (k = 0; k < 16; k++)
        bytes[k] = (uint8_t)(number >> (8 * (15 - k)));
    const uint8_t *first = bytes;
    uint8_t sign = number < 0 ? 0xff : 0;
    while (size > 1 && first[0] == sign && (first[1] & 0x80) == (sign & 0x80)) {
        first++;
        size--;
    }
    if (n->size == 0)
        return put_long(out, size) && put(out, first, size);
    if (size > n->size)
        return 0;
    for (k = n->size - size; k > 0; k--)
        if (!put(out, &sign, 1))
            return 0;
    return put(out, first, size);
}

static int write_node(struct output *out, const struct source *nodes, int64_t i, int64_t row);

static int write_list(struct output *out, const struct source *nodes, int64_t i, int64_t row)
{
    const struct source *n = &nodes[i];
    int64_t item = n->offsets[row], end = n->offsets[row + 1];
    if (item < end && !put_long(out, end - item))
        return 0;
    for (; item < end; item++)
        if (!write_node(out, nodes, i + 1, item))
            return 0;
    return put(out, "", 1);
}

static int write_node(struct output *out, const struct source *nodes, int64_t i, int64_t row)
{
    const struct source *n = &nodes[i];
    int64_t child, number;
    int32_t small;
    double wide;
    float single;
    if (n->kind == EITHER) {
        if (n->valid != NULL && !n->valid[row])
            return n->instead_size >= 0 && put(out, n->instead, n->instead_size);
        return put(out, n->before, n->before_size) && write_node(out, nodes, i + 1, row);
    }
    if (n->kind == LITERAL)
        return put(out, n->before, n->before_size);
    if (n->valid != NULL && !n->valid[row])
        return 0;
    switch (n->kind) {
    case BOOLEAN:
        return put(out, n->data + row, 1);
    case INT:
        memcpy(&small, n->data + 4 * row, 4);
        return put_long(out, small);
    case LONG:
        memcpy(&number, n->data + 8 * row, 8);
        return put_long(out, number);
    case MILLIS:
        memcpy(&number, n->data + 8 * row, 8);
        return put_long(out, number / 1000 - (number % 1000 < 0));
    case FLOAT:
        memcpy(&wide, n->data + 8 * row, 8);
        single = (float)wide;
        return put(out, &single, 4);
    case DOUBLE:
        return put(out, n->data + 8 * row, 8);
    case BYTES:
        number = n->offsets[row + 1] - n->offsets[row];
        return put_long(out, number) && put(out, n->data + n->offsets[row], number);
    case FIXED:
        number = n->offsets[row + 1] - n->offsets[row];
        return number == n->size && put(out, n->data + n->offsets[row], number);
    case DECIMAL:
        return put_decimal(out, n, row);
    case LIST:
        return write_list(out, nodes, i, row);
    case RECORD:
        for (child = i + 1; child < n->next; child = nodes[child].next)
            if (!write_node(out, nodes, child, row))
                return 0;
        return 1;
    }
    return 0;
}

int64_t ms_source_size(void)
{
    return sizeof(struct source);
}

/* Write `rows` rows, each behind `prefix`. `offsets` gets the ends of the payloads behind a zero, and
 * `odd` a mark for each row that is left to the caller. The payloads, to be freed by the caller; NULL
 * if there is no memory, or more than an array of Arrow can have. */
uint8_t *ms_avro_write(const struct source *nodes, int64_t count, int64_t rows,
                       const uint8_t *prefix, int64_t prefix_size, int32_t *offsets, uint8_t *odd)
{
    struct output out = {malloc(4096), 0, 4096, 0};
    int64_t row, i;
    if (out.at == NULL)
        return NULL;
    offsets[0] = 0;
    for (row = 0; row < rows; row++) {
        int64_t begin = out.size;
        int good = put(&out, prefix, prefix_size);
        for (i = 0; good && i < count; i = nodes[i].next)
            good = write_node(&out, nodes, i, row);
        if (out.full) {
            free(out.at);
            return NULL;
        }
        if (!good)
            out.size = begin;
        odd[row] = !good;
        offsets[row + 1] = (int32_t)out.size;
    }
    return out.at;
}

void ms_avro_written_free(uint8_t *at)
{
    free(at);
}
