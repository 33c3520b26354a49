/* Payloads that a format writes from columns, row by row. */

#include "payloads.h"

int64_t ms_source_size(void)
{
    return sizeof(struct source);
}

/* The payloads are to be freed by the caller. NULL if there is no memory, or more than an array of
 * Arrow can have. */
uint8_t *ms_payloads(write_row *write, const struct source *nodes, int64_t count, int64_t rows,
                     const uint8_t *prefix, int64_t prefix_size, int32_t *offsets, uint8_t *odd)
{
    struct output out = {malloc(4096), 0, 4096, 0};
    int64_t row;
    if (out.at == NULL)
        return NULL;
    offsets[0] = 0;
    for (row = 0; row < rows; row++) {
        int64_t begin = out.size;
        int good = put(&out, prefix, prefix_size) && write(&out, nodes, count, row);
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

void ms_payloads_free(uint8_t *at)
{
    free(at);
}
