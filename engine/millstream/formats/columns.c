/* Columns that a format reads values into, as its caller has them. */

#include "columns.h"

void ms_columns_free(struct columns *cs)
{
    int64_t i;
    if (cs == NULL)
        return;
    for (i = 0; cs->all != NULL && i < cs->count; i++) {
        free(cs->all[i].valid.at);
        free(cs->all[i].data.at);
        free(cs->all[i].offsets.at);
    }
    free(cs->all);
    free(cs);
}

/* Columns without values, whose offsets begin with 0; NULL if there is no memory. */
struct columns *ms_columns_new(int64_t count)
{
    struct columns *cs = calloc(1, sizeof *cs);
    int64_t i;
    if (cs == NULL)
        return NULL;
    cs->count = count;
    cs->all = calloc((size_t)count + 1, sizeof *cs->all);
    for (i = 0; i < count && cs->all != NULL; i++)
        if (!append_offset(cs, &cs->all[i].offsets, 0))
            break;
    if (cs->all == NULL || cs->full) {
        ms_columns_free(cs);
        return NULL;
    }
    return cs;
}

/* The column of a node: bytes that say which of its values are valid, the values, and offsets; each
 * with its size in bytes. */
void ms_column(const struct columns *cs, int64_t i, const uint8_t **at, int64_t *sizes)
{
    const struct column *c = &cs->all[i];
    const struct bytes *all[] = {&c->valid, &c->data, &c->offsets};
    int k;
    for (k = 0; k < 3; k++) {
        at[k] = all[k]->at;
        sizes[k] = all[k]->at == NULL ? 0 : all[k]->size;
    }
}
