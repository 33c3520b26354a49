/* Writes columns as payloads in Avro's binary encoding.
 *
 * What a schema demands is a tree of nodes in preorder, each with the buffers of its column. A row
 * that the schema cannot have is left to the caller: it is marked, and its payload is empty.
 */

#include "payloads.h"

enum kind {
    BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, FIXED, MILLIS, DECIMAL, EITHER, LIST, RECORD, LITERAL
};

/* `size` of a source: of a FIXED, or of a DECIMAL in a fixed (0: in bytes). `digits`: of a DECIMAL. */

static int put_long(struct output *out, int64_t number)
{
    return put_varint(out, zigzag(number));
}

static int put_decimal(struct output *out, const struct source *n, int64_t row)
{
    uint8_t bytes[16];
    int64_t k, size = decimal_bytes(n->data + 16 * row, n->digits, bytes);
    const uint8_t *first = bytes + 16 - size;
    if (size == 0)
        return 0;
    if (n->size == 0)
        return put_long(out, size) && put(out, first, size);
    if (size > n->size)
        return 0;
    uint8_t sign = *first & 0x80 ? 0xff : 0;
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

static int write_fields(struct output *out, const struct source *nodes, int64_t count, int64_t row)
{
    int64_t i;
    for (i = 0; i < count; i = nodes[i].next)
        if (!write_node(out, nodes, i, row))
            return 0;
    return 1;
}

/* See `ms_payloads`. */
uint8_t *ms_avro_write(const struct source *nodes, int64_t count, int64_t rows,
                       const uint8_t *prefix, int64_t prefix_size, int32_t *offsets, uint8_t *odd)
{
    return ms_payloads(write_fields, nodes, count, rows, prefix, prefix_size, offsets, odd);
}
