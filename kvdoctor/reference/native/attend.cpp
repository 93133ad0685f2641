// Decode attention that reads KV pages where they lie, keys transposed in the page so that a vector is tokens.

#include <vector>

#include <omp.h>

#include "formats.h"

constexpr int MOST_GROUP = 8;  // query heads of one KV head that share a pass over a page
constexpr int MOST_PAGE = 256; // tokens
constexpr int PARTS = 4;       // a thread: enough to even out, few enough to combine

// One layer of a paged cache and the queries on it; library.py has the same fields in the same order.
struct Attention {
    const float* query; // [rows, heads, dim], already scaled
    float* result;      // [rows, heads, dim]
    const uint8_t* memory;
    const int32_t* tables;  // [rows, columns]
    const int32_t* lengths; // [rows]
    int64_t block_bytes, keys, values, key_scales, value_scales; // offsets of the layer within a block
    int32_t rows, columns, heads, kv_heads, dim, page, window, threads;
};

struct Part { // of one query head over some pages; the weighted values lie elsewhere
    float most = -INFINITY, total = 0;
};

struct View { // one KV head of one page: tokens from..to of it are attended to
    const uint8_t *keys, *values, *key_scales, *value_scales;
    int64_t next; // bytes to the same head of the row's next page, which is fetched meanwhile: pages lie anywhere
    int from, to;
};

// A cache line on its way into L2.
static inline void fetch(const uint8_t* from) { __builtin_prefetch(from, 0, 2); }

template <class L, int G>
static void add_values(const uint8_t* from, int64_t next, int width, int tokens, int dim, int page, const float* p,
                       float* acc) {
    for (int d = 0; d < width; d += WIDTH) {
        vec sums[G];
        for (int g = 0; g < G; g++) sums[g] = raw<vec>(acc + g * dim + d);
        for (int t = 0; t < tokens; t++) {
            vec row = L::load(from, (int64_t)t * width + d);
            fetch(from + next + ((int64_t)t * width + d) * L::BYTES);
            for (int g = 0; g < G; g++) sums[g] += row * p[g * page + t];
        }
        for (int g = 0; g < G; g++) std::memcpy(acc + g * dim + d, &sums[g], sizeof(vec));
    }
}

template <class L> struct Whole { // a value an element
    static int64_t bytes(int dim) { return (int64_t)dim * L::BYTES; }
    template <int G>
    static void scores(const uint8_t* keys, int64_t next, const float* q, int dim, int page, int t, vec* s) {
        for (int d = 0; d < dim; d++) {
            vec row = L::load(keys, (int64_t)d * page + t);
            fetch(keys + next + ((int64_t)d * page + t) * L::BYTES);
            for (int g = 0; g < G; g++) s[g] += row * q[g * dim + d];
        }
    }
    template <int G>
    static void values(const uint8_t* from, int64_t next, int tokens, int dim, int page, const float* p, float* acc) {
        add_values<L, G>(from, next, dim, tokens, dim, page, p, acc);
    }
};

struct Packed { // two values a byte
    static int64_t bytes(int dim) { return dim / 2; }
    template <int G>
    static void scores(const uint8_t* keys, int64_t next, const float* q, int dim, int page, int t, vec* s) {
        for (int d = 0; d < dim / 2; d++) {
            fetch(keys + next + (int64_t)d * page + t);
            vec low = Low4::load(keys, (int64_t)d * page + t), high = High4::load(keys, (int64_t)d * page + t);
            for (int g = 0; g < G; g++) s[g] += low * q[g * dim + d] + high * q[g * dim + d + dim / 2];
        }
    }
    template <int G>
    static void values(const uint8_t* from, int64_t next, int tokens, int dim, int page, const float* p, float* acc) {
        add_values<Low4, G>(from, next, dim / 2, tokens, dim, page, p, acc);
        add_values<High4, G>(from, next, dim / 2, tokens, dim, page, p, acc + dim / 2);
    }
};

// What stands beside each token's values: `key` undoes it on scores, `value` on weights, from token t on.
struct Bare {
    static vec key(const uint8_t*, int, vec score, float) { return score; }
    static vec value(const uint8_t*, int, vec weight, vec*) { return weight; }
};
struct Scale { // fp32
    static vec key(const uint8_t* s, int t, vec score, float) { return score * raw<vec>(s + t * 4); }
    static vec value(const uint8_t* s, int t, vec weight, vec*) { return weight * raw<vec>(s + t * 4); }
};
struct ScaleZero { // two fp16
    static vec scale(const uint8_t* s, int t) { return half(raw<ivec>(s + t * 4) & 0xffff); }
    static vec zero(const uint8_t* s, int t) { return half((raw<ivec>(s + t * 4) >> 16) & 0xffff); }
    static vec key(const uint8_t* s, int t, vec score, float q_sum) { return score * scale(s, t) + q_sum * zero(s, t); }
    static vec value(const uint8_t* s, int t, vec weight, vec* zeros) {
        *zeros += weight * zero(s, t);
        return weight * scale(s, t);
    }
};

// Add one page to G query heads: the online softmax, WIDTH tokens at a time. Tokens outside from..to weigh nothing.
template <class K, class S, int G>
static void attend_page(const View& v, int dim, int page, const float* q, const float* q_sum, Part* part, float* acc) {
    float p[G * MOST_PAGE];
    const int first = v.from / WIDTH * WIDTH;
    for (int t = first; t < v.to; t += WIDTH) {
        vec s[G] = {};
        K::template scores<G>(v.keys, v.next, q, dim, page, t, s);
        for (int g = 0; g < G; g++) {
            vec score = S::key(v.key_scales, t, s[g], q_sum[g]);
            for (int i = 0; i < WIDTH && (t < v.from || t + WIDTH > v.to); i++)
                if (t + i < v.from || t + i >= v.to) score[i] = -INFINITY;
            std::memcpy(p + g * page + t, &score, sizeof(vec));
        }
    }
    for (int g = 0; g < G; g++) {
        float *mine = p + g * page, most = part[g].most;
        for (int t = v.from; t < v.to; t++) most = mine[t] > most ? mine[t] : most;
        vec total = {}, zeros = {};
        for (int t = first; t < v.to; t += WIDTH) {
            vec weight = exponential(raw<vec>(mine + t) - most);
            total += weight;
            weight = S::value(v.value_scales, t, weight, &zeros);
            std::memcpy(mine + t, &weight, sizeof(vec));
        }
        float shrink = std::exp(part[g].most - most), zero = sum(zeros);
        part[g].most = most;
        part[g].total = part[g].total * shrink + sum(total);
        for (int d = 0; d < dim; d++) acc[g * dim + d] = acc[g * dim + d] * shrink + zero;
    }
    K::template values<G>(v.values + v.from * K::bytes(dim), v.next, v.to - v.from, dim, page, p + v.from, acc);
}

template <class K, class S, int G = MOST_GROUP>
static void attend_group(int group, const View& v, int dim, int page, const float* q, const float* q_sum, Part* part,
                         float* acc) {
    if (group == G)
        attend_page<K, S, G>(v, dim, page, q, q_sum, part, acc);
    else if constexpr (G > 1)
        attend_group<K, S, G - 1>(group, v, dim, page, q, q_sum, part, acc);
}

// All heads of one row over the pages first..last of its table.
template <class K, class S> static void attend_pages(const Attention& a, int row, int first, int last, Part* parts, float* acc) {
    const int group = a.heads / a.kv_heads, length = a.lengths[row];
    const int begin = a.window && length > a.window ? length - a.window : 0;
    const float* query = a.query + (int64_t)row * a.heads * a.dim;
    std::vector<float> q_sum(a.heads);
    for (int h = 0; h < a.heads; h++)
        for (int d = 0; d < a.dim; d++) q_sum[h] += query[h * a.dim + d];
    for (int index = first; index < last; index++) {
        const int32_t* entry = a.tables + (int64_t)row * a.columns + index;
        const uint8_t* block = a.memory + *entry * a.block_bytes;
        const int64_t next = index + 1 < last ? (entry[1] - *entry) * a.block_bytes : 0;
        int from = begin - index * a.page, to = length - index * a.page;
        from = from < 0 ? 0 : from, to = to > a.page ? a.page : to;
        for (int head = 0; head < a.kv_heads; head++) {
            int64_t at = head * a.page * K::bytes(a.dim), scale = (int64_t)head * a.page * 4;
            View v{block + a.keys + at, block + a.values + at, block + a.key_scales + scale,
                   block + a.value_scales + scale, next, from, to};
            for (int g = 0; g < group; g += MOST_GROUP) {
                int many = group - g < MOST_GROUP ? group - g : MOST_GROUP, h = head * group + g;
                attend_group<K, S>(many, v, a.dim, a.page, query + h * a.dim, &q_sum[h], parts + h, acc + (int64_t)h * a.dim);
            }
        }
    }
}

// Add up the parts of one row by their largest scores. A row without tokens becomes zero.
static void combine(const Attention& a, int row, int many, const Part* parts, const float* acc) {
    for (int h = 0; h < a.heads; h++) {
        float* result = a.result + ((int64_t)row * a.heads + h) * a.dim;
        float most = -INFINITY, total = 0;
        for (int s = 0; s < many; s++) most = std::fmax(most, parts[s * a.heads + h].most);
        std::memset(result, 0, a.dim * sizeof(float));
        for (int s = 0; s < many; s++) {
            const Part& part = parts[s * a.heads + h];
            if (part.total == 0) continue;
            float weight = std::exp(part.most - most);
            total += part.total * weight;
            const float* from = acc + ((int64_t)s * a.heads + h) * a.dim;
            for (int d = 0; d < a.dim; d++) result[d] += from[d] * weight;
        }
        for (int d = 0; d < a.dim && total > 0; d++) result[d] /= total;
    }
}

template <class K, class S> static void attend(const Attention& a) {
    const int many = (PARTS * a.threads + a.rows - 1) / a.rows;
    std::vector<Part> parts((size_t)a.rows * many * a.heads);
    std::vector<float> acc(parts.size() * a.dim);
#pragma omp parallel num_threads(a.threads)
    {
#pragma omp for schedule(dynamic, 1)
        for (int task = 0; task < a.rows * many; task++) {
            int row = task / many, s = task % many, length = a.lengths[row];
            int skipped = a.window && length > a.window ? (length - a.window) / a.page : 0;
            int64_t pages = (length + a.page - 1) / a.page - skipped;
            size_t at = (size_t)task * a.heads;
            attend_pages<K, S>(a, row, skipped + pages * s / many, skipped + pages * (s + 1) / many, &parts[at],
                               &acc[at * a.dim]);
        }
#pragma omp for schedule(static)
        for (int row = 0; row < a.rows; row++) {
            size_t at = (size_t)row * many * a.heads;
            combine(a, row, many, &parts[at], &acc[at * a.dim]);
        }
    }
}

// Formats by number, as library.py names them. Nonzero: not for these sizes.
extern "C" int kv_attend(const Attention* a, int format) {
    if (a->page % WIDTH || a->page > MOST_PAGE || a->dim % (format == 5 ? 2 * WIDTH : WIDTH)) return 1;
    switch (format) {
    case 0: attend<Whole<F32>, Bare>(*a); return 0;
    case 1: attend<Whole<BF16>, Bare>(*a); return 0;
    case 2: attend<Whole<F16>, Bare>(*a); return 0;
    case 3: attend<Whole<I8>, Scale>(*a); return 0;
    case 4: attend<Whole<F8>, Bare>(*a); return 0;
    case 5: attend<Packed, ScaleZero>(*a); return 0;
    }
    return 1;
}
