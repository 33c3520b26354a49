/* Where the values of flat JSON records lie, and the whole numbers among them: what json_places.py and
   json_digits.py find with numpy, in one pass. Called by json_scan.py; knows nothing of Python. */

#include <stdint.h>
#include <string.h>

#include "text.h"

enum kind {
    SKIPPED, /* nobody reads it, and it fits: a text, or any scalar that is none */
    TEXT,    /* the places of a text, without its quotes */
    LOOSE,   /* the places of what is no text; the caller proves what it is */
    WHOLE,   /* numbers, with the places of what is none of up to sixteen digits */
    ABSENT,  /* null in all records */
    /* Nobody reads these; they must be null or fit their column. */
    WITHIN,  /* a whole number from `low` to `high` */
    DOUBLE,  /* a number */
    BOOLEAN, /* true or false */
    DECIMAL, /* a number of up to `low` digits before the point and `high` behind it */
};

enum state { FINE, ODD, NONE };

/* A field of all records. `joint`: what stands before its value, from the end of the value before
   on. Arrays have an entry for each record. */
struct field {
    const uint8_t *joint;
    int64_t length;
    int32_t quoted;
    int32_t kind;
    int32_t *begin;
    int32_t *end;
    int64_t *number;
    uint8_t *state;
    int64_t low;
    int64_t high;
    int64_t bytes; /* out: of all its values together */
    int64_t odd;   /* out: how many entries of `state` are ODD */
    int64_t none;  /* out: how many are NONE */
};

int64_t ms_field_size(void) { return (int64_t)sizeof(struct field); }

static const uint8_t *value_end(const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at != ',' && *at != '}' && *at > ' ' && *at != '"')
        at++;
    return at;
}

static int is(const uint8_t *at, const uint8_t *end, const char *word, size_t length)
{
    return (size_t)(end - at) == length && memcmp(at, word, length) == 0;
}

static const uint8_t *digits(const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* Whether there is a number as JSON writes it. */
static int number(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *from;
    if (at < end && *at == '-')
        at++;
    from = at;
    at = digits(at, end);
    if (at == from || (*from == '0' && at - from > 1))
        return 0;
    if (at < end && *at == '.') {
        from = ++at;
        if ((at = digits(at, end)) == from)
            return 0;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        from = at;
        if ((at = digits(at, end)) == from)
            return 0;
    }
    return at == end;
}

static int scalar(const uint8_t *at, const uint8_t *end)
{
    return number(at, end) || is(at, end, "null", 4) || is(at, end, "true", 4)
        || is(at, end, "false", 5);
}

/* Whether there is a whole number from `low` to `high`. */
static int within(const uint8_t *at, const uint8_t *end, int64_t low, int64_t high)
{
    uint64_t value = 0;
    int minus = at < end && *at == '-';
    at += minus;
    if (at == end || end - at > 19 || (*at == '0' && end - at > 1))
        return 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return 0;
        value = 10 * value + (uint64_t)(*at - '0');
    }
    /* Nineteen digits fit into 64 bits without a sign. */
    return minus ? value <= (uint64_t)-low : value <= (uint64_t)high;
}

/* Whether there is a number without exponent of at most so many digits on each side of its point. */
static int decimal(const uint8_t *at, const uint8_t *end, int64_t before, int64_t behind)
{
    const uint8_t *from;
    at += at < end && *at == '-';
    from = at;
    at = digits(at, end);
    if (at == from || (*from == '0' ? at - from > 1 : at - from > before))
        return 0;
    if (at == end)
        return 1;
    if (*at != '.')
        return 0;
    from = ++at;
    at = digits(at, end);
    return at == end && at > from && at - from <= behind;
}

/* A whole number of up to sixteen digits into `*found`. */
static enum state whole(const uint8_t *at, const uint8_t *end, int64_t *found)
{
    int64_t value = 0;
    int minus = at < end && *at == '-';
    *found = 0;
    if (is(at, end, "null", 4))
        return NONE;
    at += minus;
    if (at == end || end - at > 16 || (*at == '0' && end - at > 1))
        return ODD;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return ODD;
        value = 10 * value + (*at - '0');
    }
    *found = minus ? -value : value;
    return FINE;
}

/* Takes a value into the field's arrays; whether it may stand there. */
static int taken(struct field *field, int64_t row, const uint8_t *content, const uint8_t *begin,
                 const uint8_t *end)
{
    enum state state;
    switch ((enum kind)field->kind) {
    case SKIPPED:
        return field->quoted || scalar(begin, end);
    case ABSENT:
        return is(begin, end, "null", 4);
    case WITHIN:
        return within(begin, end, field->low, field->high) || is(begin, end, "null", 4);
    case DOUBLE:
        return number(begin, end) || is(begin, end, "null", 4);
    case BOOLEAN:
        return is(begin, end, "true", 4) || is(begin, end, "false", 5) || is(begin, end, "null", 4);
    case DECIMAL:
        return decimal(begin, end, field->low, field->high) || is(begin, end, "null", 4);
    case WHOLE:
        state = whole(begin, end, field->number + row);
        field->state[row] = (uint8_t)state;
        field->odd += state == ODD;
        field->none += state == NONE;
        break;
    case TEXT:
    case LOOSE:
        break;
    default:
        return 0;
    }
    field->begin[row] = (int32_t)(begin - content);
    field->end[row] = (int32_t)(end - content);
    field->bytes += end - begin;
    return 1;
}

/* Finds the values of all records, which lie one behind the other in `content`, from `starts[0]` on.
   How many records have just these fields, compact and without escapes: those before the first one
   that has not. What is found means nothing unless these are all. `last`: what ends a record. */
int64_t ms_scan(const uint8_t *content, int64_t size, const int32_t *starts, int64_t rows,
                struct field *fields, int64_t count, const uint8_t *last, int64_t last_length)
{
    for (int64_t row = 0; row < rows; row++) {
        if (starts[row] < 0 || starts[row] > starts[row + 1] || starts[row + 1] > size)
            return row;
        const uint8_t *at = content + starts[row], *end = content + starts[row + 1];
        for (int64_t index = 0; index < count; index++) {
            struct field *field = fields + index;
            if (end - at < field->length || memcmp(at, field->joint, (size_t)field->length))
                return row;
            const uint8_t *begin = at + field->length;
            at = field->quoted ? text_end(begin, end) : value_end(begin, end);
            if (field->quoted && (at == end || *at != '"'))
                return row;
            if (!taken(field, row, content, begin, at))
                return row;
        }
        if (end - at != last_length || memcmp(at, last, (size_t)last_length))
            return row;
    }
    return rows;
}

/* Puts texts one behind the other; `starts` has one entry more than there are texts. */
void ms_gather(const uint8_t *content, const int32_t *begin, const int32_t *end, int64_t rows,
               int32_t *starts, uint8_t *texts)
{
    int32_t at = 0;
    for (int64_t row = 0; row < rows; row++) {
        int32_t length = end[row] - begin[row];
        starts[row] = at;
        memcpy(texts + at, content + begin[row], (size_t)length);
        at += length;
    }
    starts[rows] = at;
}
