// y[n, out] += x[n, in] . w[out, in]: a product with few rows, that streams the weights once.

#include <vector>

#include <omp.h>

#include "formats.h"

#if defined(__AVX512F__)
constexpr int COLUMNS = 8;
#else
constexpr int COLUMNS = 4;
#endif
constexpr int STRIP = 4; // weight rows that one pass over all columns reads
// Bytes to fetch ahead into L2. With several columns the loads are too far apart for the hardware to run ahead of
// them, and prefetches into L1 are too few at a time: measured on Zen 4 at 8 columns 10 GB/s, with this 18.
constexpr int AHEAD = 8192;

// R rows of w times N columns, the columns interleaved by vectors: [in / WIDTH, N, WIDTH].
template <class W, int R, int N>
static void tile(const float* x, const uint8_t* w, float* y, int64_t in, int64_t out) {
    vec acc[R][N] = {};
    for (int64_t i = 0; i < in; i += WIDTH) {
        vec row[R];
        for (int r = 0; r < R; r++) {
            row[r] = W::load(w, r * in + i);
            __builtin_prefetch(w + (r * in + i) * W::BYTES + AHEAD, 0, 2);
        }
        for (int n = 0; n < N; n++) {
            vec column = raw<vec>(x + i * N + n * WIDTH);
            for (int r = 0; r < R; r++) acc[r][n] += row[r] * column;
        }
    }
    for (int r = 0; r < R; r++)
        for (int n = 0; n < N; n++) y[n * out + r] += sum(acc[r][n]);
}

// A strip of `many` rows times N columns: as many rows at once as leave their sums in registers.
template <class W, int N>
static void rows(const float* x, const uint8_t* w, float* y, int64_t in, int64_t out, int64_t many) {
    constexpr int R = N > COLUMNS / 2 ? 2 : 4;
    int64_t r = 0;
    for (; r + R <= many; r += R) tile<W, R, N>(x, w + r * in * W::BYTES, y + r, in, out);
    for (; r < many; r++) tile<W, 1, N>(x, w + r * in * W::BYTES, y + r, in, out);
}

// All columns, in groups of COLUMNS, then of one less, and so on down to what is left.
template <class W, int N>
static void strip(const float* x, const uint8_t* w, float* y, int64_t n, int64_t in, int64_t out, int64_t many) {
    for (; n >= N; n -= N, x += N * in, y += N * out) rows<W, N>(x, w, y, in, out, many);
    if constexpr (N > 1)
        if (n > 0) strip<W, N - 1>(x, w, y, n, in, out, many);
}

// Interleave the columns in the groups in which `strip` takes them.
static void interleave(const float* x, float* to, int64_t n, int64_t in) {
    for (int64_t group = COLUMNS; n > 0; group--)
        for (; n >= group; n -= group, x += group * in, to += group * in)
            for (int64_t i = 0; i < in; i += WIDTH)
                for (int64_t c = 0; c < group; c++)
                    std::memcpy(to + i * group + c * WIDTH, x + c * in + i, WIDTH * sizeof(float));
}

// One column is a plain stream, which the hardware follows best alone: row by row, nothing fetched ahead.
template <class W> static void stream(const float* x, const uint8_t* w, float* y, int64_t in, int64_t many) {
    for (int64_t r = 0; r < many; r++, w += in * W::BYTES) {
        vec acc = {};
        for (int64_t i = 0; i < in; i += WIDTH) acc += W::load(w, i) * raw<vec>(x + i);
        y[r] += sum(acc);
    }
}

template <class W>
static void product(const float* x, const uint8_t* w, float* y, int64_t n, int64_t in, int64_t out, int threads) {
    std::vector<float> mixed(n > 1 ? n * in : 0);
    if (n > 1) interleave(x, mixed.data(), n, in);
#pragma omp parallel num_threads(threads)
    {
        int64_t all = omp_get_num_threads(), me = omp_get_thread_num();
        int64_t first = out * me / all, last = out * (me + 1) / all;
        if (n == 1) stream<W>(x, w + first * in * W::BYTES, y + first, in, last - first);
        for (int64_t o = first; n > 1 && o < last; o += STRIP) {
            int64_t many = last - o < STRIP ? last - o : STRIP;
            strip<W, COLUMNS>(mixed.data(), w + o * in * W::BYTES, y + o, n, in, out, many);
        }
    }
}

// Adds to y. Formats by number, as library.py names them: 0 fp32, 1 bf16, 2 fp16. Nonzero: not for these sizes.
extern "C" int kv_product(const float* x, const uint8_t* w, float* y, int64_t n, int64_t in, int64_t out,
                          int format, int threads) {
    if (in % WIDTH) return 1;
    switch (format) {
    case 0: product<F32>(x, w, y, n, in, out, threads); return 0;
    case 1: product<BF16>(x, w, y, n, in, out, threads); return 0;
    case 2: product<F16>(x, w, y, n, in, out, threads); return 0;
    }
    return 1;
}

// Reads every byte once with all threads and returns the sum: the plain read that the rest is held against.
extern "C" double kv_read(const float* from, int64_t count, int threads) {
    constexpr int CHUNK = 4096;
    double total = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : total) schedule(static)
    for (int64_t chunk = 0; chunk < count / CHUNK; chunk++) {
        vec acc[4] = {};
        for (int i = 0; i < CHUNK; i += 4 * WIDTH)
            for (int k = 0; k < 4; k++) acc[k] += raw<vec>(from + chunk * CHUNK + i + k * WIDTH);
        total += sum(acc[0] + acc[1] + acc[2] + acc[3]);
    }
    return total;
}
