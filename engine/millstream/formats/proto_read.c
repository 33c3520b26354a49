/* Reads payloads in Protobuf's binary encoding into columns.
 *
 * What a message has is a tree of nodes in preorder. A payload that is not such a message, has a
 * value that its column cannot have, or is written in a way that is seldom, is left to the caller
 * as a whole: its row is marked, and its columns are NULL there.
 */

#include "columns.h"

enum kind {
    INT32, UINT32, INT64, SINT32, SINT64, BOOLEAN, FLOAT, DOUBLE, ENUM, FIXED32, SFIXED32, FIXED64,
    TEXT, BYTES, DATE, TIME, STAMP, DECIMAL, LIST, MESSAGE, SKIPPED
};

enum wire { VARINT, WIRE64, LENGTH, WIRE32 = 5, NONE = -1 };

/* `keep`: its values are wanted. `number`: of its field. `optional`: it is NULL where it is absent.
 * `wrapped`: in a message of its own. `choice`: which of its message's alternatives it belongs to;
 * 0: to none. `size`: 1 for a 32-bit number that is widened, and for a LIST whose items are the
 * entries of a map; the scale of a DECIMAL. `digits`: of a DECIMAL. `first` and `fields`: a
 * MESSAGE's fields in the list of all. `next`: behind its subtree. */
struct node {
    int32_t kind, keep, number, optional, wrapped, choice, size, digits, first, fields, next;
};

/* A field of a message; those of each are in the order of their numbers. */
struct field {
    int32_t number, node;
};

/* What the wire has for a field: the last value, or how many items and where the keys of a map
 * begin. */
struct slot {
    const uint8_t *at;
    uint64_t number;
    int64_t size, items, keys;
    int wire;
};

struct reading {
    const struct node *nodes;
    const struct field *fields;
    struct slot *slots;
    struct columns *columns;
};

#define MICROS_OF_DAY 86400000000

/* The values of a node have this many bytes; 0: they have offsets. */
static int64_t width_of(const struct node *n)
{
    switch (n->kind) {
    case BOOLEAN:
        return 1;
    case INT32: case SINT32: case SFIXED32:
        return n->size ? 8 : 4;
    case ENUM: case DATE:
        return 4;
    case DECIMAL:
        return 16;
    case TEXT: case BYTES: case LIST: case MESSAGE:
        return 0;
    default:
        return 8;
    }
}

static int put(struct reading *r, int64_t i, const void *value)
{
    return !r->nodes[i].keep || put_value(r->columns, i, value, width_of(&r->nodes[i]));
}

static int put_null(struct reading *r, int64_t i)
{
    const struct node *n = &r->nodes[i];
    int64_t child;
    if (!n->keep)
        return 1;
    if (n->kind != MESSAGE)
        return put_absent(r->columns, i, width_of(n));
    for (child = i + 1; child < n->next; child = r->nodes[child].next)
        if (!put_null(r, child))
            return 0;
    return append_byte(r->columns, &r->columns->all[i].valid, 0);
}

/* What a field has that is not on the wire. */
static int put_default(struct reading *r, int64_t i)
{
    static const uint8_t zeros[16];
    const struct node *n = &r->nodes[i];
    if (n->optional || n->wrapped || n->kind == MESSAGE || (n->kind >= DATE && n->kind <= DECIMAL))
        return put_null(r, i);
    if (!n->keep)
        return 1;
    if (n->kind == TEXT || n->kind == BYTES)
        return put_text(r->columns, i, zeros, 0);
    return put_value(r->columns, i, zeros, width_of(n));
}

static const uint8_t *read_varint(const uint8_t *p, const uint8_t *end, uint64_t *found)
{
    uint64_t number = 0;
    int shift;
    for (shift = 0; shift < 70 && p < end; shift += 7) {
        uint8_t byte = *p++;
        if (shift < 64)
            number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *found = number;
            return p;
        }
    }
    return NULL;
}

/* The next field of a message: its number, and its value. */
static const uint8_t *read_field(const uint8_t *p, const uint8_t *end, uint64_t *number,
                                 struct slot *found)
{
    uint64_t head, size;
    uint32_t small;
    p = read_varint(p, end, &head);
    if (p == NULL || head >> 3 == 0)
        return NULL;
    *number = head >> 3;
    found->wire = (int)(head & 7);
    switch (found->wire) {
    case VARINT:
        return read_varint(p, end, &found->number);
    case LENGTH:
        p = read_varint(p, end, &size);
        if (p == NULL || size > (uint64_t)(end - p))
            return NULL;
        found->at = p;
        found->size = (int64_t)size;
        return p + size;
    case WIRE64:
        if (end - p < 8)
            return NULL;
        memcpy(&found->number, p, 8);
        return p + 8;
    case WIRE32:
        if (end - p < 4)
            return NULL;
        memcpy(&small, p, 4);
        found->number = small;
        return p + 4;
    default:
        return NULL;
    }
}

/* The values of the first fields of a message, by their numbers less 1. */
static int read_parts(const struct slot *s, struct slot *parts, uint64_t count)
{
    const uint8_t *p = s->at, *end = s->at + s->size;
    struct slot found = {0};
    uint64_t number, k;
    for (k = 0; k < count; k++)
        parts[k] = (struct slot){.wire = NONE};
    if (s->wire != LENGTH)
        return 0;
    while (p < end) {
        p = read_field(p, end, &number, &found);
        if (p == NULL)
            return 0;
        if (number <= count)
            parts[number - 1] = found;
    }
    return 1;
}

static int64_t floor_divided(int64_t number, int64_t by)
{
    return number / by - (number % by < 0);
}

static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = floor_divided(year, 400), of_era = year - era * 400;
    int64_t of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int put_date(struct reading *r, int64_t i, const int32_t *parts)
{
    int64_t month = parts[1] ? parts[1] : 1, day = parts[2] ? parts[2] : 1;
    if (month < 1 || month > 12 || day < 1 || day > 31)
        return 0;
    int64_t days = days_of(parts[0], month, day);
    int32_t small = (int32_t)days;
    return small == days && put(r, i, &small);
}

static int put_time(struct reading *r, int64_t i, const int32_t *parts)
{
    int64_t seconds = ((int64_t)parts[0] * 60 + parts[1]) * 60 + parts[2];
    int64_t micros = seconds * 1000000 + floor_divided(parts[3], 1000);
    return micros >= 0 && micros < MICROS_OF_DAY && put(r, i, &micros);
}

static int put_decimal(struct reading *r, int64_t i, const struct slot *digits, int32_t scale)
{
    const struct node *n = &r->nodes[i];
    int64_t size = digits->wire == LENGTH ? digits->size : 0;
    uint8_t found[16];
    if (scale != n->size || (digits->wire != LENGTH && digits->wire != NONE))
        return 0;
    return decimal_of(digits->at, size, n->digits, found) && put(r, i, found);
}

/* Messages that are one value. */
static int read_known(struct reading *r, int64_t i, const struct slot *s)
{
    struct slot parts[4];
    int32_t numbers[4];
    int k, kind = r->nodes[i].kind, count = kind == TIME ? 4 : kind == STAMP ? 2 : 3;
    if (!read_parts(s, parts, 4))
        return 0;
    for (k = 0; k < 4; k++) {
        /* The digits of a decimal are bytes. */
        if (k < count && parts[k].wire == LENGTH && !(kind == DECIMAL && k < 2))
            return 0;
        numbers[k] = parts[k].wire == NONE ? 0 : (int32_t)(uint32_t)parts[k].number;
    }
    switch (kind) {
    case DATE:
        return put_date(r, i, numbers);
    case TIME:
        return put_time(r, i, numbers);
    case DECIMAL:
        return put_decimal(r, i, &parts[0], numbers[2]);
    default:
        break;
    }
    __int128 micros = parts[0].wire == NONE ? 0 : (int64_t)parts[0].number;
    micros = micros * 1000000 + floor_divided(numbers[1], 1000);
    int64_t small = (int64_t)micros;
    return small == micros && put(r, i, &small);
}

static int put_number(struct reading *r, int64_t i, uint64_t number)
{
    const struct node *n = &r->nodes[i];
    uint32_t low = (uint32_t)number;
    int32_t small = (int32_t)low;
    int64_t wide = (int64_t)number;
    double real;
    float single;
    uint8_t flag = number != 0;
    switch (n->kind) {
    case BOOLEAN:
        return put(r, i, &flag);
    case SINT32:
        small = (int32_t)(low >> 1) ^ -(int32_t)(low & 1);
        break;
    case INT32: case SFIXED32: case ENUM:
        break;
    case UINT32: case FIXED32:
        wide = low;
        return put(r, i, &wide);
    case SINT64:
        wide = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
        return put(r, i, &wide);
    case FLOAT:
        memcpy(&single, &low, 4);
        real = single;
        return put(r, i, &real);
    default:
        return put(r, i, &number);
    }
    wide = small;
    return n->size ? put(r, i, &wide) : put(r, i, &small);
}

static int read_message(struct reading *r, int64_t i, const uint8_t *p, const uint8_t *end);

static int read_value(struct reading *r, int64_t i, const struct slot *s)
{
    const struct node *n = &r->nodes[i];
    struct slot inner;
    if (n->kind == SKIPPED)
        return 1;
    if (n->kind >= DATE && n->kind <= DECIMAL)
        return read_known(r, i, s);
    if (n->wrapped) {
        if (!read_parts(s, &inner, 1))
            return 0;
        if (inner.wire == NONE)
            inner = (struct slot){.wire = n->kind == TEXT || n->kind == BYTES ? LENGTH : VARINT};
        s = &inner;
    }
    if (n->kind < TEXT)
        return s->wire != LENGTH && put_number(r, i, s->number);
    if (s->wire != LENGTH)
        return 0;
    if (n->kind == MESSAGE)
        return read_message(r, i, s->at, s->at + s->size);
    if (n->kind == TEXT && !is_text(s->at, s->size))
        return 0;
    return !n->keep || put_text(r->columns, i, s->at, s->size);
}

/* The numbers of a field that has several of them; how many, -1 for what are none. */
static int64_t read_packed(struct reading *r, int64_t i, const struct slot *s)
{
    const uint8_t *p = s->at, *end = s->at + s->size;
    int kind = r->nodes[i].kind;
    int64_t count = 0, width = kind == FIXED64 || kind == DOUBLE ? 8 : 4;
    uint64_t number = 0;
    for (; p < end; count++) {
        if (kind == FIXED32 || kind == SFIXED32 || kind == FIXED64 || kind == FLOAT
            || kind == DOUBLE) {
            if (end - p < width)
                return -1;
            memcpy(&number, p, (size_t)width);
            p += width;
        } else {
            p = read_varint(p, end, &number);
            if (p == NULL)
                return -1;
        }
        if (!put_number(r, i, number))
            return -1;
    }
    return count;
}

static int read_items(struct reading *r, int64_t list, const struct slot *found, struct slot *all)
{
    int64_t item = list + 1, count = 1;
    const struct node *n = &r->nodes[item];
    if (n->kind < TEXT && !n->wrapped && found->wire == LENGTH)
        count = read_packed(r, item, found);
    else if (!read_value(r, item, found))
        return 0;
    all->items += count;
    return count >= 0;
}

/* The place of a field among those of a message; -1 if it has none with this number. `likely`: where
 * it is if they are written in their order. */
static int64_t place_of(const struct field *fields, int64_t count, int64_t likely, uint64_t number)
{
    int64_t low = 0, high = count;
    if (likely < count && (uint64_t)fields[likely].number == number)
        return likely;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if ((uint64_t)fields[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && (uint64_t)fields[low].number == number ? low : -1;
}

/* The key of the entries of a map: the first field of what is repeated. */
static int64_t key_of(int64_t list)
{
    return list + 2;
}

static int read_wire(struct reading *r, const struct node *n, const uint8_t *p, const uint8_t *end)
{
    const struct field *fields = r->fields + n->first;
    struct slot *slots = r->slots + n->first, found = {0};
    int64_t k, likely = 0;
    uint64_t number;
    for (k = 0; k < n->fields; k++) {
        int64_t child = fields[k].node;
        slots[k] = (struct slot){.wire = NONE};
        if (r->nodes[child].kind == LIST && r->nodes[child].size)
            slots[k].keys = r->columns->all[key_of(child)].valid.size;
    }
    while (p < end) {
        p = read_field(p, end, &number, &found);
        if (p == NULL)
            return 0;
        k = place_of(fields, n->fields, likely, number);
        if (k < 0)
            continue;
        const struct node *child = &r->nodes[fields[k].node];
        /* The next one may be of the same list. */
        likely = child->kind == LIST ? k : k + 1;
        if (child->kind == LIST) {
            if (!read_items(r, fields[k].node, &found, &slots[k]))
                return 0;
            continue;
        }
        /* Messages that are there twice would have to be merged. */
        if (slots[k].wire != NONE && (child->kind >= DATE || child->wrapped))
            return 0;
        slots[k] = found;
    }
    return 1;
}

static int put_field(struct reading *r, int64_t i, const struct slot *s)
{
    const struct node *n = &r->nodes[i];
    if (n->kind != LIST)
        return s->wire == NONE ? put_default(r, i) : read_value(r, i, s);
    if (!n->keep)
        return 1;
    if (n->size) {
        int64_t key = key_of(i);
        if (!are_keys(&r->columns->all[key], width_of(&r->nodes[key]), s->keys))
            return 0;
    }
    return put_list(r->columns, i, s->items);
}

static int read_message(struct reading *r, int64_t i, const uint8_t *p, const uint8_t *end)
{
    const struct node *n = &r->nodes[i];
    const struct field *fields = r->fields + n->first;
    const struct slot *slots = r->slots + n->first;
    uint64_t chosen = 0;
    int64_t k;
    if (!read_wire(r, n, p, end))
        return 0;
    for (k = 0; k < n->fields; k++) {
        int choice = r->nodes[fields[k].node].choice;
        if (choice && slots[k].wire != NONE) {
            /* Of alternatives that are both there the last one counts. */
            if (chosen >> choice & 1)
                return 0;
            chosen |= (uint64_t)1 << choice;
        }
        if (!put_field(r, fields[k].node, &slots[k]))
            return 0;
    }
    return !n->keep || append_byte(r->columns, &r->columns->all[i].valid, 1);
}

/* Read `rows` payloads as the message of the first node; `offsets` are those of an array of Arrow.
 * Each has `skip` bytes first and then those of `lead`. Marks in `odd` the rows that are left to the
 * caller. NULL if there is no memory. */
struct columns *ms_proto_read(const uint8_t *data, const int32_t *offsets, int64_t rows,
                              int64_t skip, const uint8_t *lead, int64_t lead_size,
                              const struct node *nodes, int64_t count, const struct field *fields,
                              int64_t fields_count, uint8_t *odd)
{
    struct reading r = {nodes, fields, NULL, ms_columns_new(count)};
    int64_t row;
    r.slots = calloc((size_t)fields_count + 1, sizeof *r.slots);
    if (r.slots == NULL) {
        ms_columns_free(r.columns);
        r.columns = NULL;
    }
    for (row = 0; row < rows && r.columns != NULL; row++) {
        const uint8_t *begin = data + offsets[row], *end = data + offsets[row + 1];
        odd[row] = 0;
        mark(r.columns);
        if (end - begin >= skip + lead_size && !memcmp(begin + skip, lead, (size_t)lead_size)
            && read_message(&r, 0, begin + skip + lead_size, end))
            continue;
        take_back(r.columns);
        odd[row] = 1;
        if (r.columns->full || !put_null(&r, 0)) {
            ms_columns_free(r.columns);
            r.columns = NULL;
        }
    }
    free(r.slots);
    return r.columns;
}
