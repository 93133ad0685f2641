// Vectors of the machine's width, and how each storage format becomes floats.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int WIDTH = 16;
#else
constexpr int WIDTH = 8;
#endif

typedef float vec __attribute__((vector_size(WIDTH * 4)));
typedef int32_t ivec __attribute__((vector_size(WIDTH * 4)));
typedef uint16_t u16vec __attribute__((vector_size(WIDTH * 2)));

template <class T> static inline T raw(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

static inline vec bits(ivec value) { return raw<vec>(&value); }

// WIDTH bytes, zero- or sign-extended. GCC makes single moves of the generic conversion of bytes.
static inline ivec widen(const uint8_t* p) {
#if defined(__AVX512F__)
    return (ivec)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
#elif defined(__AVX2__)
    return (ivec)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
#else
    int32_t wide[WIDTH];
    for (int i = 0; i < WIDTH; i++) wide[i] = p[i];
    return raw<ivec>(wide);
#endif
}
static inline ivec widen_signed(const uint8_t* p) { return widen(p) << 24 >> 24; }

static inline float sum(vec v) {
    float total = 0;
    for (int i = 0; i < WIDTH; i++) total += v[i];
    return total;
}

// e^x for x <= 0, zero where x is -infinity: 2^n by the exponent's bits times a polynomial of degree 5, within 2e-7.
static inline vec exponential(vec x) {
    vec scaled = x * 1.44269504f; // log2(e)
    scaled = scaled < -126.0f ? vec{} - 126.0f : scaled;
    ivec whole = __builtin_convertvector(scaled - 0.5f, ivec); // rounds towards zero, so to nearest for what is negative
    vec f = (scaled - __builtin_convertvector(whole, vec)) * 0.693147181f;
    vec p = 1.0f / 720 * f + 1.0f / 120;
    p = p * f + 1.0f / 24;
    p = p * f + 1.0f / 6;
    p = p * f + 0.5f;
    p = p * f + 1.0f;
    p = p * f + 1.0f;
    vec result = p * bits((whole + 127) << 23);
    return x < -87.0f ? vec{} : result;
}

// Half precision in integer arithmetic, exact for every finite value: rebias by a product, subnormals included.
static inline vec half(ivec x) { return bits(((x & 0x8000) << 16) | ((x & 0x7fff) << 13)) * 0x1p112f; }

// `load` gives WIDTH values from element `at` on.
struct F32 {
    static constexpr int BYTES = 4;
    static vec load(const uint8_t* p, int64_t at) { return raw<vec>(p + at * 4); }
};
struct BF16 {
    static constexpr int BYTES = 2;
    static vec load(const uint8_t* p, int64_t at) {
        return bits(__builtin_convertvector(raw<u16vec>(p + at * 2), ivec) << 16);
    }
};
struct F16 {
    static constexpr int BYTES = 2;
    static vec load(const uint8_t* p, int64_t at) {
        return half(__builtin_convertvector(raw<u16vec>(p + at * 2), ivec));
    }
};
struct I8 {
    static constexpr int BYTES = 1;
    static vec load(const uint8_t* p, int64_t at) {
        return __builtin_convertvector(widen_signed(p + at), vec);
    }
};
struct F8 { // e4m3: shifted into a float whose exponent is 120 too small
    static constexpr int BYTES = 1;
    static vec load(const uint8_t* p, int64_t at) {
        ivec x = widen(p + at);
        return bits(((x & 0x80) << 24) | ((x & 0x7f) << 20)) * 0x1p120f;
    }
};
// Two values a byte: number i in the low half, i + dim/2 in the high one.
struct Low4 {
    static constexpr int BYTES = 1;
    static vec load(const uint8_t* p, int64_t at) {
        return __builtin_convertvector(widen(p + at) & 15, vec);
    }
};
struct High4 {
    static constexpr int BYTES = 1;
    static vec load(const uint8_t* p, int64_t at) {
        return __builtin_convertvector(widen(p + at) >> 4, vec);
    }
};
