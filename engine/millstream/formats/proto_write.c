/* Writes columns as payloads in Protobuf's binary encoding.
 *
 * A message is a tree of nodes in preorder, each with the buffers of its column; what precedes a
 * value is the tag of its field. A row that the message cannot have is left to the caller: it is
 * marked, and its payload is empty.
 */

#include "payloads.h"

/* BOXED: a number or text in a message of its own. REFUSED: what no field can have. */
enum kind {
    VARINT, ZIGZAG, FIXED32, FIXED64, BOOLEAN, FLOAT, DOUBLE, SYMBOL, BYTES, DATE, TIME, STAMP,
    DECIMAL, LIST, PACKED, MESSAGE, BOXED, REFUSED
};

/* `size` of a source: the bytes of its numbers, of a DECIMAL the scale. `digits`: of a DECIMAL, and
 * of whole numbers the bits of those that have no sign (0: they have one). `instead_size` 0: a zero
 * is written as nothing. */
static int64_t whole_of(const struct source *n, int64_t row)
{
    int64_t wide;
    int32_t small;
    if (n->size == 4) {
        memcpy(&small, n->data + 4 * row, 4);
        return small;
    }
    memcpy(&wide, n->data + 8 * row, 8);
    return wide;
}

static int is_zero(const struct source *n, int64_t row)
{
    static const uint8_t zeros[8];
    switch (n->kind) {
    case BOOLEAN:
        return n->data[row] == 0;
    case BYTES:
        return n->offsets[row] == n->offsets[row + 1];
    case FLOAT: case DOUBLE:
        return !memcmp(n->data + 8 * row, zeros, 8);
    default:
        return whole_of(n, row) == 0;
    }
}

static int put_whole(struct output *out, const struct source *n, int64_t row)
{
    int64_t number = whole_of(n, row);
    uint32_t low = (uint32_t)number;
    if (n->digits && (number < 0 || (n->digits == 32 && number > UINT32_MAX)))
        return 0;
    switch (n->kind) {
    case ZIGZAG:
        return put_varint(out, zigzag(number));
    case FIXED32:
        return put(out, &low, 4);
    case FIXED64:
        return put(out, &number, 8);
    default:
        return put_varint(out, (uint64_t)number);
    }
}

/* A field of a message whose value is one: a number that is not 0. */
static int put_part(struct output *out, int field, int64_t number)
{
    return number == 0 || (put_varint(out, (uint64_t)field << 3) && put_varint(out, (uint64_t)number));
}

static int put_date(struct output *out, int64_t days)
{
    days += 719468;
    int64_t era = days / 146097 - (days % 146097 < 0), of_era = days - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153, day = of_year - (153 * month + 2) / 5 + 1;
    month += month < 10 ? 3 : -9;
    return put_part(out, 1, year + era * 400 + (month <= 2)) && put_part(out, 2, month)
        && put_part(out, 3, day);
}

static int put_time(struct output *out, int64_t micros)
{
    int64_t seconds = micros / 1000000;
    return put_part(out, 1, seconds / 3600) && put_part(out, 2, seconds / 60 % 60)
        && put_part(out, 3, seconds % 60) && put_part(out, 4, micros % 1000000 * 1000);
}

static int put_stamp(struct output *out, int64_t micros)
{
    int64_t seconds = micros / 1000000, rest = micros % 1000000;
    if (rest < 0) {
        seconds--;
        rest += 1000000;
    }
    return put_part(out, 1, seconds) && put_part(out, 2, rest * 1000);
}

static int put_decimal(struct output *out, const struct source *n, int64_t row)
{
    uint8_t bytes[16];
    int64_t size = decimal_bytes(n->data + 16 * row, n->digits, bytes);
    return size && put_varint(out, 1 << 3 | 2) && put_varint(out, (uint64_t)size)
        && put(out, bytes + 16 - size, size) && put_part(out, 2, n->digits)
        && put_part(out, 3, n->size);
}

/* A length before what was written since `begin`. */
static int put_length(struct output *out, int64_t begin)
{
    int64_t size = out->size - begin, more = 1;
    uint64_t left = (uint64_t)size;
    for (; left > 0x7f; left >>= 7)
        more++;
    if (!make_room(out, more))
        return 0;
    memmove(out->at + begin + more, out->at + begin, (size_t)size);
    out->size = begin;
    if (!put_varint(out, (uint64_t)size))
        return 0;
    out->size = begin + more + size;
    return 1;
}

static int write_message(struct output *out, const struct source *nodes, int64_t i, int64_t row);

/* What is behind the tag; of what has a length, without it. */
static int put_content(struct output *out, const struct source *nodes, int64_t i, int64_t row)
{
    const struct source *n = &nodes[i];
    double wide;
    float single;
    switch (n->kind) {
    case BOOLEAN:
        return put(out, n->data + row, 1);
    case FLOAT:
        memcpy(&wide, n->data + 8 * row, 8);
        single = (float)wide;
        return put(out, &single, 4);
    case DOUBLE:
        return put(out, n->data + 8 * row, 8);
    case SYMBOL:
        /* A name that is none has no number. */
        return whole_of(n, row) != INT64_MIN && put_varint(out, (uint64_t)whole_of(n, row));
    case BYTES:
        return put(out, n->data + n->offsets[row], n->offsets[row + 1] - n->offsets[row]);
    case DATE: case TIME: case STAMP: {
        int64_t number = whole_of(n, row);
        return n->kind == DATE ? put_date(out, number)
            : n->kind == TIME ? put_time(out, number) : put_stamp(out, number);
    }
    case DECIMAL:
        return put_decimal(out, n, row);
    case MESSAGE: case BOXED:
        return write_message(out, nodes, i, row);
    case REFUSED:
        return 0;
    default:
        return put_whole(out, n, row);
    }
}

static int has_length(const struct source *n)
{
    return (n->kind >= BYTES && n->kind <= DECIMAL) || n->kind == MESSAGE || n->kind == BOXED;
}

/* The tag and a value that is there. */
static int write_value(struct output *out, const struct source *nodes, int64_t i, int64_t row)
{
    const struct source *n = &nodes[i];
    if (n->valid != NULL && !n->valid[row])
        return 0;
    if (n->instead_size == 0 && is_zero(n, row))
        return 1;
    if (!put(out, n->before, n->before_size))
        return 0;
    if (n->kind == BYTES)
        return put_varint(out, (uint64_t)(n->offsets[row + 1] - n->offsets[row]))
            && put_content(out, nodes, i, row);
    int64_t begin = out->size;
    return put_content(out, nodes, i, row) && (!has_length(n) || put_length(out, begin));
}

static int write_list(struct output *out, const struct source *nodes, int64_t i, int64_t row)
{
    const struct source *n = &nodes[i];
    int64_t item = n->offsets[row], end = n->offsets[row + 1], begin;
    if (item == end)
        return 1;
    if (n->kind == LIST) {
        for (; item < end; item++)
            if (!write_value(out, nodes, i + 1, item))
                return 0;
        return 1;
    }
    if (!put(out, n->before, n->before_size))
        return 0;
    begin = out->size;
    for (; item < end; item++) {
        const uint8_t *valid = nodes[i + 1].valid;
        if ((valid != NULL && !valid[item]) || !put_content(out, nodes, i + 1, item))
            return 0;
    }
    return put_length(out, begin);
}

static int write_fields(struct output *out, const struct source *nodes, int64_t from, int64_t end,
                        int64_t row)
{
    int64_t i;
    for (i = from; i < end; i = nodes[i].next) {
        const struct source *n = &nodes[i];
        if (n->valid != NULL && !n->valid[row])
            continue;
        if (n->kind == LIST || n->kind == PACKED ? !write_list(out, nodes, i, row)
                                                 : !write_value(out, nodes, i, row))
            return 0;
    }
    return 1;
}

/* The entries of maps have no field that is missing: `size` is 1. */
static int write_message(struct output *out, const struct source *nodes, int64_t i, int64_t row)
{
    const struct source *n = &nodes[i];
    int64_t child;
    if (!n->size)
        return write_fields(out, nodes, i + 1, n->next, row);
    for (child = i + 1; child < n->next; child = nodes[child].next)
        if (!write_value(out, nodes, child, row))
            return 0;
    return 1;
}

static int write_row_of(struct output *out, const struct source *nodes, int64_t count, int64_t row)
{
    return write_fields(out, nodes, 0, count, row);
}

/* See `ms_payloads`. */
uint8_t *ms_proto_write(const struct source *nodes, int64_t count, int64_t rows,
                        const uint8_t *prefix, int64_t prefix_size, int32_t *offsets, uint8_t *odd)
{
    return ms_payloads(write_row_of, nodes, count, rows, prefix, prefix_size, offsets, odd);
}
