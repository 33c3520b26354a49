/* What the text of a JSON value may hold as it is. */

#ifndef MILLSTREAM_TEXT_H
#define MILLSTREAM_TEXT_H

#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The first byte from `at` on that ends a text, or cannot stand in one without an escape. */
static inline const uint8_t *text_end(const uint8_t *at, const uint8_t *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), escape = _mm_set1_epi8('\\');
    const __m128i control = _mm_set1_epi8(0x1f);
    while (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, escape));
        found = _mm_or_si128(found, _mm_cmpeq_epi8(_mm_min_epu8(bytes, control), bytes));
        int mask = _mm_movemask_epi8(found);
        if (mask)
            return at + __builtin_ctz((unsigned)mask);
        at += 16;
    }
#endif
    while (at < end && *at >= ' ' && *at != '"' && *at != '\\')
        at++;
    return at;
}

#endif
