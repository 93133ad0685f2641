/* The yardstick of the memory probe: threads that add up their own memory, once each, and print bytes a second. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static size_t bytes;
static pthread_barrier_t ready;
static uint64_t sink[256];
static double begins[256], ends[256];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void *work(void *number) {
    uint64_t *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(data, bytes, MADV_HUGEPAGE);
    uint64_t x = 88172645463325252ull + (uintptr_t)number;
    for (size_t i = 0; i < bytes / 8; i++) {
        x ^= x << 13; x ^= x >> 7; x ^= x << 17;
        data[i] = x;
    }
    for (int pass = 0; pass < 7; pass++) {
        uint64_t sum = 0;
        pthread_barrier_wait(&ready);
        begins[(uintptr_t)number] = now();
        for (size_t i = 0; i < bytes / 8; i++) sum += data[i];
        sink[(uintptr_t)number] += sum;
        ends[(uintptr_t)number] = now();
        pthread_barrier_wait(&ready);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc == 3 ? atoi(argv[1]) : 0;
    pthread_t all[256];
    if (threads < 1 || threads > 256) return 1;
    bytes = strtoull(argv[2], NULL, 10) / threads / 8 * 8;
    pthread_barrier_init(&ready, NULL, threads + 1);
    for (uintptr_t i = 0; i < (uintptr_t)threads; i++) pthread_create(&all[i], NULL, work, (void *)i);
    for (int pass = 0; pass < 7; pass++) {
        pthread_barrier_wait(&ready);
        pthread_barrier_wait(&ready);
        double begin = begins[0], end = ends[0];
        for (int i = 1; i < threads; i++) {
            if (begins[i] < begin) begin = begins[i];
            if (ends[i] > end) end = ends[i];
        }
        printf("%.0f\n", (double)bytes * threads / (end - begin));
        fflush(stdout);
    }
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
    fprintf(stderr, "%llu\n", (unsigned long long)sink[0]);
    return 0;
}
