/* Reads payloads in Avro's binary encoding into columns.
 *
 * What a schema demands is a tree of nodes in preorder. A payload that does not follow it, or has a
 * value that its column cannot have, is left to the caller as a whole: its row is marked, and its
 * columns are NULL there.
 */

#include "columns.h"

enum kind {
    NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, TEXT, FIXED, SYMBOL,
    TIME, STAMP, DECIMAL, OPTIONAL, CHOICE, LIST, RECORD
};

#define MILLIS_OF_DAY 86400000
#define MILLIS_MAX (INT64_MAX / 1000)

/* `keep`: its values are wanted. `size`: of a FIXED or of a DECIMAL in a fixed (0: in bytes), the
 * number of symbols or of branches, the branch of an OPTIONAL that is null (-1: none), 1 for an INT
 * that is widened, 1 for a LIST whose items are the entries of a map. `digits`: of a DECIMAL; the
 * branch of a CHOICE that is null (-1: none).
 * `next`: behind its subtree. */
struct node {
    int32_t kind, keep, size, digits, next;
};

struct reading {
    const struct node *nodes;
    int64_t count;
    struct columns *columns;
    const uint8_t *end;
};

/* The values of a node have this many bytes; 0: they have offsets. */
static int64_t width_of(const struct node *n)
{
    switch (n->kind) {
    case BOOLEAN:
        return 1;
    case INT:
        return n->size ? 8 : 4;
    case SYMBOL:
        return 4;
    case LONG: case DOUBLE: case FLOAT: case TIME: case STAMP:
        return 8;
    case DECIMAL:
        return 16;
    default:
        return 0;
    }
}

static int put(struct reading *r, int64_t i, const void *value)
{
    return !r->nodes[i].keep || put_value(r->columns, i, value, width_of(&r->nodes[i]));
}

static int put_bytes(struct reading *r, int64_t i, const uint8_t *from, int64_t size)
{
    return !r->nodes[i].keep || put_text(r->columns, i, from, size);
}

static int put_null(struct reading *r, int64_t i)
{
    const struct node *n = &r->nodes[i];
    int64_t child;
    if (!n->keep)
        return 1;
    switch (n->kind) {
    case OPTIONAL:
        return put_null(r, i + 1);
    case RECORD: case CHOICE:
        for (child = i + 1; child < n->next; child = r->nodes[child].next)
            if (!put_null(r, child))
                return 0;
        return append_byte(r->columns, &r->columns->all[i].valid, 0);
    default:
        return put_absent(r->columns, i, width_of(n));
    }
}

static const uint8_t *read_long(const struct reading *r, const uint8_t *p, int64_t *found)
{
    uint64_t number = 0;
    int shift;
    for (shift = 0; shift < 64; shift += 7) {
        if (p >= r->end)
            return NULL;
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1)
            return NULL;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *found = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
            return p;
        }
    }
    return NULL;
}

static const uint8_t *read_node(struct reading *r, int64_t i, const uint8_t *p);

static const uint8_t *read_list(struct reading *r, int64_t i, const uint8_t *p)
{
    const struct node *n = &r->nodes[i];
    int64_t item = i + 1, count, size, all = 0;
    /* The items of a map are records; the key is the first of each. */
    int64_t key = item + 1;
    if (n->size && r->nodes[key].kind == OPTIONAL)
        key++;
    const struct column *keys = &r->columns->all[key];
    int64_t first = n->size && n->keep ? keys->valid.size : 0;
    for (;;) {
        p = read_long(r, p, &count);
        if (p == NULL)
            return NULL;
        if (count == 0)
            break;
        if (count < 0) {
            p = read_long(r, p, &size);
            if (p == NULL || count == INT64_MIN)
                return NULL;
            count = -count;
        }
        if (count > r->end - p)
            return NULL;
        for (all += count; count > 0; count--) {
            p = read_node(r, item, p);
            if (p == NULL)
                return NULL;
        }
    }
    if (!n->keep)
        return p;
    if (n->size && !are_keys(keys, 0, first))
        return NULL;
    return put_list(r->columns, i, all) ? p : NULL;
}

static const uint8_t *read_bytes(struct reading *r, int64_t i, const uint8_t *p)
{
    const struct node *n = &r->nodes[i];
    int64_t size = n->size;
    uint8_t found[16];
    if (n->kind != FIXED && (n->kind != DECIMAL || size == 0)) {
        p = read_long(r, p, &size);
        if (p == NULL)
            return NULL;
    }
    if (size < 0 || size > r->end - p)
        return NULL;
    if (n->kind == TEXT && !is_text(p, size))
        return NULL;
    if (n->kind == DECIMAL) {
        if (!decimal_of(p, size, n->digits, found) || !put(r, i, found))
            return NULL;
    } else if (!put_bytes(r, i, p, size))
        return NULL;
    return p + size;
}

static const uint8_t *read_number(struct reading *r, int64_t i, const uint8_t *p)
{
    const struct node *n = &r->nodes[i];
    int64_t number;
    int32_t small;
    p = read_long(r, p, &number);
    if (p == NULL)
        return NULL;
    switch (n->kind) {
    case INT: case SYMBOL:
        if (number < INT32_MIN || number > INT32_MAX)
            return NULL;
        if (n->kind == SYMBOL && (number < 0 || number >= n->size))
            return NULL;
        small = (int32_t)number;
        if (n->kind == SYMBOL || !n->size)
            return put(r, i, &small) ? p : NULL;
        break;
    case TIME:
        if (number < 0 || number >= MILLIS_OF_DAY)
            return NULL;
        number *= 1000;
        break;
    case STAMP:
        if (number < -MILLIS_MAX || number >= MILLIS_MAX)
            return NULL;
        number *= 1000;
        break;
    default:
        break;
    }
    return put(r, i, &number) ? p : NULL;
}

static const uint8_t *read_chosen(struct reading *r, int64_t i, const uint8_t *p)
{
    const struct node *n = &r->nodes[i];
    int64_t chosen, child = i + 1;
    p = read_long(r, p, &chosen);
    if (p == NULL || chosen < 0)
        return NULL;
    if (n->kind == OPTIONAL) {
        if (chosen > (n->size >= 0))
            return NULL;
        if (chosen == n->size)
            return put_null(r, child) ? p : NULL;
        return read_node(r, child, p);
    }
    if (chosen >= n->size)
        return NULL;
    /* All alternatives have columns, of which one has the value. */
    int64_t number, there = chosen != n->digits;
    for (number = 0; number < n->size; number++, child = r->nodes[child].next) {
        if (number == chosen)
            p = read_node(r, child, p);
        else if (!put_null(r, child))
            return NULL;
        if (p == NULL)
            return NULL;
    }
    return !n->keep || append_byte(r->columns, &r->columns->all[i].valid, (uint8_t)there) ? p : NULL;
}

static const uint8_t *read_node(struct reading *r, int64_t i, const uint8_t *p)
{
    const struct node *n = &r->nodes[i];
    int64_t child;
    float single;
    double number;
    switch (n->kind) {
    case NOTHING:
        return p;
    case BOOLEAN:
        if (p >= r->end || *p > 1)
            return NULL;
        return put(r, i, p) ? p + 1 : NULL;
    case FLOAT:
        if (r->end - p < 4)
            return NULL;
        memcpy(&single, p, 4);
        number = single;
        return put(r, i, &number) ? p + 4 : NULL;
    case DOUBLE:
        if (r->end - p < 8)
            return NULL;
        return put(r, i, p) ? p + 8 : NULL;
    case BYTES: case TEXT: case FIXED: case DECIMAL:
        return read_bytes(r, i, p);
    case OPTIONAL: case CHOICE:
        return read_chosen(r, i, p);
    case LIST:
        return read_list(r, i, p);
    case RECORD:
        for (child = i + 1; child < n->next; child = r->nodes[child].next) {
            p = read_node(r, child, p);
            if (p == NULL)
                return NULL;
        }
        return !n->keep || append_byte(r->columns, &r->columns->all[i].valid, 1) ? p : NULL;
    default:
        return read_number(r, i, p);
    }
}

static int read_row(struct reading *r, const uint8_t *p)
{
    int64_t i;
    for (i = 0; i < r->count; i = r->nodes[i].next) {
        p = read_node(r, i, p);
        if (p == NULL)
            return 0;
    }
    return 1;
}

static int read_nothing(struct reading *r)
{
    int64_t i;
    for (i = 0; i < r->count; i = r->nodes[i].next)
        if (!put_null(r, i))
            return 0;
    return 1;
}

/* Read `rows` payloads, each behind `prefix` bytes; `offsets` are those of an array of Arrow. Marks
 * in `odd` the rows that are left to the caller. NULL if there is no memory. */
struct columns *ms_avro_read(const uint8_t *data, const int32_t *offsets, int64_t rows,
                             int64_t prefix, const struct node *nodes, int64_t count, uint8_t *odd)
{
    struct reading r = {nodes, count, ms_columns_new(count), NULL};
    int64_t row;
    for (row = 0; row < rows && r.columns != NULL; row++) {
        const uint8_t *begin = data + offsets[row];
        r.end = data + offsets[row + 1];
        odd[row] = 0;
        mark(r.columns);
        if (r.end - begin >= prefix && read_row(&r, begin + prefix))
            continue;
        take_back(r.columns);
        odd[row] = 1;
        if (r.columns->full || !read_nothing(&r)) {
            ms_columns_free(r.columns);
            r.columns = NULL;
        }
    }
    return r.columns;
}
