/* Reads payloads in Avro's binary encoding into columns.
 *
 * What a schema demands is a tree of nodes in preorder. A payload that does not follow it, or has a
 * value that its column cannot have, is left to the caller as a whole: its row is marked, and its
 * columns are NULL there.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, TEXT, FIXED, SYMBOL,
    TIME, STAMP, DECIMAL, OPTIONAL, CHOICE, LIST, RECORD
};

#define MILLIS_OF_DAY 86400000
#define MILLIS_MAX (INT64_MAX / 1000)

/* `keep`: its values are wanted. `size`: of a FIXED or of a DECIMAL in a fixed (0: in bytes), the
 * number of symbols or of branches, the branch of an OPTIONAL that is null (-1: none), 1 for an INT
 * that is widened, 1 for a LIST whose items are the entries of a map. `digits`: of a DECIMAL.
 * `next`: behind its subtree. */
struct node {
    int32_t kind, keep, size, digits, next;
};

struct bytes {
    uint8_t *at;
    int64_t size, room;
};

struct column {
    struct bytes valid, data, offsets;
    int64_t valid_mark, data_mark, offsets_mark;
};

struct reading {
    const struct node *nodes;
    int64_t count;
    struct column *columns;
    const uint8_t *end;
    int full;
};

static int room_for(struct reading *r, struct bytes *b, int64_t more)
{
    if (b->room - b->size >= more)
        return 1;
    int64_t room = b->room ? b->room : 256;
    while (room - b->size < more)
        room *= 2;
    uint8_t *at = realloc(b->at, (size_t)room);
    if (at == NULL) {
        r->full = 1;
        return 0;
    }
    b->at = at;
    b->room = room;
    return 1;
}

static int append(struct reading *r, struct bytes *b, const void *from, int64_t size)
{
    if (!room_for(r, b, size))
        return 0;
    if (size)
        memcpy(b->at + b->size, from, (size_t)size);
    b->size += size;
    return 1;
}

static int append_byte(struct reading *r, struct bytes *b, uint8_t byte)
{
    return append(r, b, &byte, 1);
}

static int append_offset(struct reading *r, struct bytes *b, int64_t offset)
{
    int32_t small = (int32_t)offset;
    if (offset > INT32_MAX) {
        r->full = 1;
        return 0;
    }
    return append(r, b, &small, 4);
}

static int64_t rows_of(const struct column *c)
{
    return c->valid.size;
}

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
    struct column *c = &r->columns[i];
    if (!r->nodes[i].keep)
        return 1;
    return append_byte(r, &c->valid, 1) && append(r, &c->data, value, width_of(&r->nodes[i]));
}

static int put_bytes(struct reading *r, int64_t i, const uint8_t *from, int64_t size)
{
    struct column *c = &r->columns[i];
    if (!r->nodes[i].keep)
        return 1;
    return append_byte(r, &c->valid, 1) && append(r, &c->data, from, size)
        && append_offset(r, &c->offsets, c->data.size);
}

static int put_null(struct reading *r, int64_t i)
{
    static const uint8_t zeros[16];
    const struct node *n = &r->nodes[i];
    struct column *c = &r->columns[i];
    int64_t child;
    if (!n->keep)
        return 1;
    switch (n->kind) {
    case OPTIONAL:
        return put_null(r, i + 1);
    case RECORD:
        for (child = i + 1; child < n->next; child = r->nodes[child].next)
            if (!put_null(r, child))
                return 0;
        return append_byte(r, &c->valid, 0);
    case LIST:
        return append_byte(r, &c->valid, 0)
            && append_offset(r, &c->offsets, c->data.size);
    case BYTES: case TEXT: case FIXED:
        return append_byte(r, &c->valid, 0)
            && append_offset(r, &c->offsets, c->data.size);
    default:
        return append_byte(r, &c->valid, 0) && append(r, &c->data, zeros, width_of(n));
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

static int is_text(const uint8_t *p, int64_t size)
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
        int more;
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
        int k;
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
static int decimal_of(const uint8_t *p, int64_t size, int32_t digits, uint8_t *found)
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

/* Whether the texts of a column differ from `first` on; a NULL among them is no key. */
static int are_keys(const struct column *c, int64_t first)
{
    int64_t last = rows_of(c), i, k;
    const int32_t *offsets = (const int32_t *)c->offsets.at;
    for (i = first; i < last; i++) {
        if (!c->valid.at[i])
            return 0;
        int32_t size = offsets[i + 1] - offsets[i];
        for (k = first; k < i; k++)
            if (offsets[k + 1] - offsets[k] == size
                && (size == 0
                    || !memcmp(c->data.at + offsets[k], c->data.at + offsets[i], (size_t)size)))
                return 0;
    }
    return 1;
}

#define KEYS_MAX 1000

static const uint8_t *read_node(struct reading *r, int64_t i, const uint8_t *p);

static const uint8_t *read_list(struct reading *r, int64_t i, const uint8_t *p)
{
    const struct node *n = &r->nodes[i];
    struct column *c = &r->columns[i];
    int64_t item = i + 1, count, size, all = 0;
    /* The items of a map are records; the key is the first of each. */
    int64_t key = item + 1;
    if (n->size && r->nodes[key].kind == OPTIONAL)
        key++;
    int64_t first = n->size && n->keep ? rows_of(&r->columns[key]) : 0;
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
    if (n->size && (all > KEYS_MAX || !are_keys(&r->columns[key], first)))
        return NULL;
    /* The number of items so far is kept where others have bytes. */
    c->data.size += all;
    return append_byte(r, &c->valid, 1) && append_offset(r, &c->offsets, c->data.size) ? p : NULL;
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
    for (; chosen > 0; chosen--)
        child = r->nodes[child].next;
    return read_node(r, child, p);
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
        return !n->keep || append_byte(r, &r->columns[i].valid, 1) ? p : NULL;
    default:
        return read_number(r, i, p);
    }
}

static void mark(struct reading *r)
{
    int64_t i;
    for (i = 0; i < r->count; i++) {
        struct column *c = &r->columns[i];
        c->valid_mark = c->valid.size;
        c->data_mark = c->data.size;
        c->offsets_mark = c->offsets.size;
    }
}

static void take_back(struct reading *r)
{
    int64_t i;
    for (i = 0; i < r->count; i++) {
        struct column *c = &r->columns[i];
        c->valid.size = c->valid_mark;
        c->data.size = c->data_mark;
        c->offsets.size = c->offsets_mark;
    }
}

static int begin(struct reading *r)
{
    int64_t i;
    for (i = 0; i < r->count; i++)
        if (r->nodes[i].keep && !append_offset(r, &r->columns[i].offsets, 0))
            return 0;
    return 1;
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

void ms_avro_free(void *given)
{
    struct reading *r = given;
    int64_t i;
    if (r == NULL)
        return;
    for (i = 0; r->columns != NULL && i < r->count; i++) {
        free(r->columns[i].valid.at);
        free(r->columns[i].data.at);
        free(r->columns[i].offsets.at);
    }
    free(r->columns);
    free(r);
}

/* Read `rows` payloads, each behind `prefix` bytes; `offsets` are those of an array of Arrow. Marks
 * in `odd` the rows that are left to the caller. NULL if there is no memory. `nodes` must live as
 * long as what is returned. */
void *ms_avro_read(const uint8_t *data, const int32_t *offsets, int64_t rows, int64_t prefix,
                   const struct node *nodes, int64_t count, uint8_t *odd)
{
    struct reading *r = calloc(1, sizeof *r);
    int64_t row;
    if (r == NULL)
        return NULL;
    r->nodes = nodes;
    r->count = count;
    r->columns = calloc((size_t)count + 1, sizeof *r->columns);
    if (r->columns == NULL || !begin(r)) {
        ms_avro_free(r);
        return NULL;
    }
    for (row = 0; row < rows; row++) {
        r->end = data + offsets[row + 1];
        odd[row] = 0;
        mark(r);
        if (offsets[row + 1] - offsets[row] < prefix || !read_row(r, data + offsets[row] + prefix)) {
            take_back(r);
            odd[row] = 1;
            if (r->full || !read_nothing(r)) {
                ms_avro_free(r);
                return NULL;
            }
        }
    }
    return r;
}

/* The column of a node: bytes that say which of its values are valid, the values, and offsets; each
 * with its size in bytes. */
void ms_avro_column(const void *given, int64_t i, const uint8_t **at, int64_t *sizes)
{
    const struct column *c = &((const struct reading *)given)->columns[i];
    const struct bytes *all[] = {&c->valid, &c->data, &c->offsets};
    int k;
    for (k = 0; k < 3; k++) {
        at[k] = all[k]->at;
        sizes[k] = all[k]->at == NULL ? 0 : all[k]->size;
    }
}
