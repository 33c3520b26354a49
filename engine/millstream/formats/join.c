/* Records of JSON joined from the columns of their fields, as json_text.py has DuckDB do it. Called
   by json_join.py; knows nothing of Python. */

#include <stdint.h>
#include <string.h>

#include "text.h"

enum kind {
    TEXT,    /* to be written between quotes, with escapes */
    JSON,    /* texts that are JSON already */
    INTEGER, /* of 32 bits */
    BIGINT,  /* of 64 bits */
    BOOLEAN, /* a bit for each row */
};

/* A column as Arrow has it. `lead`: what stands before its value in each record. `valid`: a bit for
   each row, or nothing where none is NULL. `values`: the numbers, the bits, or where texts start in
   `data`. The first row is at `offset` in all of them. */
struct column {
    const uint8_t *lead;
    int64_t lead_length;
    int64_t kind;
    int64_t offset;
    const uint8_t *valid;
    const void *values;
    const uint8_t *data;
    int64_t data_size;
};

int64_t ms_column_size(void) { return (int64_t)sizeof(struct column); }

static int bit(const uint8_t *bits, int64_t at) { return bits[at >> 3] >> (at & 7) & 1; }

static int is_null(const struct column *column, int64_t at)
{
    return column->valid && !bit(column->valid, at);
}

/* The letter behind the backslash for a byte that has one; 0 where it takes six bytes. */
static uint8_t letter(uint8_t byte)
{
    switch (byte) {
    case '"':
    case '\\':
        return byte;
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    default:
        return 0;
    }
}

static int64_t text_size(const uint8_t *at, const uint8_t *end)
{
    int64_t size = 2 + (end - at);
    while ((at = text_end(at, end)) < end)
        size += letter(*at++) ? 1 : 5;
    return size;
}

/* Bytes that the values of a column take at most; -1 where texts do not lie within `data`. */
static int64_t values_size(const struct column *column, int64_t rows)
{
    int64_t size = 4 * rows;
    switch ((enum kind)column->kind) {
    case INTEGER:
        return 11 * rows;
    case BIGINT:
        return 20 * rows;
    case BOOLEAN:
        return 5 * rows;
    case TEXT:
    case JSON:
        break;
    default:
        return -1;
    }
    const int32_t *starts = (const int32_t *)column->values + column->offset;
    for (int64_t row = 0; row < rows; row++) {
        if (starts[row] < 0 || starts[row] > starts[row + 1]
            || starts[row + 1] > column->data_size)
            return -1;
        const uint8_t *at = column->data + starts[row], *end = column->data + starts[row + 1];
        size += column->kind == TEXT ? text_size(at, end) : end - at;
    }
    return size;
}

static uint8_t *put(uint8_t *to, const void *from, int64_t size)
{
    memcpy(to, from, (size_t)size);
    return to + size;
}

static uint8_t *put_text(uint8_t *to, const uint8_t *at, const uint8_t *end)
{
    static const char digits[] = "0123456789ABCDEF";
    *to++ = '"';
    for (;;) {
        const uint8_t *next = text_end(at, end);
        to = put(to, at, next - at);
        if (next == end)
            break;
        *to++ = '\\';
        if (letter(*next))
            *to++ = letter(*next);
        else {
            to = put(to, "u00", 3);
            *to++ = (uint8_t)digits[*next >> 4];
            *to++ = (uint8_t)digits[*next & 15];
        }
        at = next + 1;
    }
    *to++ = '"';
    return to;
}

static uint8_t *put_number(uint8_t *to, int64_t value)
{
    uint8_t reversed[20];
    int count = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (value < 0)
        *to++ = '-';
    do
        reversed[count++] = (uint8_t)('0' + rest % 10);
    while (rest /= 10);
    while (count)
        *to++ = reversed[--count];
    return to;
}

static uint8_t *put_value(uint8_t *to, const struct column *column, int64_t at)
{
    const int32_t *starts;
    if (is_null(column, at))
        return put(to, "null", 4);
    switch ((enum kind)column->kind) {
    case INTEGER:
        return put_number(to, ((const int32_t *)column->values)[at]);
    case BIGINT:
        return put_number(to, ((const int64_t *)column->values)[at]);
    case BOOLEAN:
        return bit(column->values, at) ? put(to, "true", 4) : put(to, "false", 5);
    case TEXT:
        starts = column->values;
        return put_text(to, column->data + starts[at], column->data + starts[at + 1]);
    case JSON:
        starts = column->values;
        return put(to, column->data + starts[at], starts[at + 1] - starts[at]);
    }
    return to;
}

/* Bytes that all records take at most; -1 where a column is not as it should be. */
int64_t ms_joined_size(const struct column *columns, int64_t count, int64_t rows)
{
    int64_t size = rows;
    for (int64_t index = 0; index < count; index++) {
        int64_t values = values_size(columns + index, rows);
        if (values < 0)
            return -1;
        size += columns[index].lead_length * rows + values;
    }
    return size;
}

/* Writes the records one behind the other; `starts` has one entry more than there are rows. */
void ms_join(const struct column *columns, int64_t count, int64_t rows, int32_t *starts,
             uint8_t *records)
{
    uint8_t *to = records;
    for (int64_t row = 0; row < rows; row++) {
        starts[row] = (int32_t)(to - records);
        for (int64_t index = 0; index < count; index++) {
            const struct column *column = columns + index;
            to = put(to, column->lead, column->lead_length);
            to = put_value(to, column, column->offset + row);
        }
        *to++ = '}';
    }
    starts[rows] = (int32_t)(to - records);
}
