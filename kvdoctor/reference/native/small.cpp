// What lies between the products of a layer: norms, the rotary turn, storing keys and values, the gate.

#include <omp.h>

#include "formats.h"

// Rows below this are not worth waking the threads.
constexpr int64_t MANY = 8;

static void norm(const float* x, const float* weight, float* y, int64_t width, float epsilon) {
    float total = 0;
    for (int64_t i = 0; i < width; i++) total += x[i] * x[i];
    const float scale = 1.0f / std::sqrt(total / width + epsilon);
    for (int64_t i = 0; i < width; i++) y[i] = x[i] * scale * weight[i];
}

extern "C" void kv_norm(const float* x, const float* weight, float* y, int64_t rows, int64_t width, float epsilon,
                        int threads) {
#pragma omp parallel for num_threads(threads) if (rows >= MANY)
    for (int64_t r = 0; r < rows; r++) norm(x + r * width, weight, y + r * width, width, epsilon);
}

// y = silu(gate) * up, from [rows, 2 * width] to [rows, width].
extern "C" void kv_gate(const float* x, float* y, int64_t rows, int64_t width, int threads) {
#pragma omp parallel for num_threads(threads) if (rows >= MANY)
    for (int64_t r = 0; r < rows; r++) {
        const float *gate = x + r * 2 * width, *up = gate + width;
        for (int64_t i = 0; i + WIDTH <= width; i += WIDTH) {
            vec g = raw<vec>(gate + i);
            vec e = exponential(g < 0.0f ? g : -g);
            vec result = g * (g < 0.0f ? e : vec{} + 1.0f) / (1.0f + e) * raw<vec>(up + i);
            std::memcpy(y + r * width + i, &result, sizeof(vec));
        }
        for (int64_t i = width / WIDTH * WIDTH; i < width; i++) y[r * width + i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    }
}

// The projected rows of a layer, [tokens, heads + 2 * kv_heads, dim]; library.py has the same fields in the same order.
struct Heads {
    float* projected;
    const float *cosine, *sine; // [tokens, dim / 2]
    const float *q_norm, *k_norm; // [dim], or null
    uint8_t* memory;
    const int64_t *blocks, *offsets; // [tokens]
    int64_t block_bytes, keys, values; // offsets of the layer within a block
    int32_t tokens, heads, kv_heads, dim, page, format, threads;
    float epsilon;
};

static void turn(float* x, const float* cosine, const float* sine, int half) {
    for (int i = 0; i < half; i++) {
        float first = x[i], second = x[i + half];
        x[i] = first * cosine[i] - second * sine[i];
        x[i + half] = second * cosine[i] + first * sine[i];
    }
}

static inline void put(uint8_t* to, int64_t at, float value, int format) {
    if (format == 0) {
        std::memcpy(to + at * 4, &value, 4);
        return;
    }
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    uint16_t narrow = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16; // bf16, to nearest even
    std::memcpy(to + at * 2, &narrow, 2);
}

static void store(const Heads& a, int token, int head, const float* key, const float* value) {
    uint8_t* block = a.memory + a.blocks[token] * a.block_bytes;
    const int64_t start = (int64_t)head * a.page * a.dim, at = a.offsets[token];
    for (int d = 0; d < a.dim; d++) {
        put(block + a.keys, start + d * a.page + at, key[d], a.format);
        put(block + a.values, start + at * a.dim + d, value[d], a.format);
    }
}

// Norm and turn queries and keys in place, and store keys and values where the format is 0 (fp32) or 1 (bf16).
extern "C" void kv_heads(const Heads* arguments) {
    const Heads& a = *arguments;
    const int stride = a.heads + 2 * a.kv_heads;
#pragma omp parallel for num_threads(a.threads) if (a.tokens >= MANY)
    for (int token = 0; token < a.tokens; token++) {
        float* row = a.projected + (int64_t)token * stride * a.dim;
        for (int h = 0; h < a.heads + a.kv_heads; h++) {
            float* x = row + h * a.dim;
            const float* weight = h < a.heads ? a.q_norm : a.k_norm;
            if (weight) norm(x, weight, x, a.dim, a.epsilon);
            turn(x, a.cosine + (int64_t)token * (a.dim / 2), a.sine + (int64_t)token * (a.dim / 2), a.dim / 2);
        }
        const float* keys = row + a.heads * a.dim;
        for (int head = 0; head < a.kv_heads && a.format >= 0 && a.format <= 1; head++)
            store(a, token, head, keys + head * a.dim, keys + (a.kv_heads + head) * a.dim);
    }
}
