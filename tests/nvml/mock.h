/* A mock of libnvidia-ml.so.1 whose cards are played from a scenario file. Layouts are those of nvml.h. */
#ifndef MOCK_H
#define MOCK_H

#include <stddef.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    VERSION_MISMATCH = 25
};

enum { WHOLE = -1, EVERY = -1, LIBRARY = -2 };

/* What a device handle points to. */
typedef struct {
    int gpu;
    int instance; /* WHOLE, or the number of a MIG instance */
} Card;

typedef enum { NUMBER, TEXT, FAILS, HANGS } Kind;

/* One line of a scenario: from `at` on, a key of a card has this value. */
typedef struct {
    int gpu, instance;
    char key[56];
    double at;
    Kind kind;
    double number; /* a number, an error's code, or the seconds of a hang */
    char text[256];
} Line;

int scenario_load(void);
double scenario_now(void);
const Line *scenario_find(int gpu, int instance, const char *key, double now);
/* A number, or the code of an error: NOT_SUPPORTED where the scenario is silent. */
int scenario_number(const Card *card, const char *key, double *value);
/* The integral of a number over time, from 0 to `until`. */
int scenario_integral(const Card *card, const char *key, double until, double *value);
const char *scenario_text(const Card *card, const char *key);
/* The next line of a key after line `*place` whose time has come, NULL for none. */
const Line *scenario_next(const char *key, double now, int *place);

/* What a call answers before it looks at anything: the library's state, a lost card, an error of this call. */
int refusal(const Card *card, const char *call);

#define ASK(card)                                                                                              \
    do {                                                                                                       \
        int code_ = refusal(card, __func__);                                                                   \
        if (code_)                                                                                             \
            return code_;                                                                                      \
    } while (0)

extern const Card library;
Card *card_at(int gpu, int instance);

/* A number or a text of a card in the width of a call; the code of an error where there is none. */
int mock_whole(const Card *card, const char *key, double scale, unsigned long long *value);
int mock_small(const Card *card, const char *key, double scale, unsigned *value);
int mock_text(const Card *card, const char *key, char *buffer, unsigned size);

#endif
