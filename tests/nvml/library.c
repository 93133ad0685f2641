/* The calls of NVML on the library itself, and what every call looks at first. */
#include "mock.h"

#include <string.h>
#include <stdio.h>
#include <unistd.h>

enum { GPUS = 16, INSTANCES = 8 };

static int users;
static Card cards[GPUS], instances[GPUS][INSTANCES];
const Card library = {LIBRARY, WHOLE};

Card *card_at(int gpu, int instance)
{
    return instance == WHOLE ? &cards[gpu] : &instances[gpu][instance];
}

static int known(const Card *card)
{
    return card == &library || (card >= cards && card < cards + GPUS) ||
           (card >= instances[0] && card < instances[0] + GPUS * INSTANCES);
}

int refusal(const Card *card, const char *call)
{
    if (!users)
        return UNINITIALIZED;
    if (!known(card))
        return INVALID_ARGUMENT;
    double now = scenario_now();
    const char *keys[] = {"card", call};
    for (int i = 0; i < 2; i++) {
        const Line *line = scenario_find(card->gpu, i ? card->instance : WHOLE, keys[i], now);
        if (line && line->kind == HANGS)
            usleep((useconds_t)(line->number * 1e6));
        if (line && line->kind == FAILS)
            return (int)line->number;
    }
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    if (!users) {
        if (!scenario_load())
            return 9;
        for (int i = 0; i < GPUS; i++) {
            cards[i] = (Card){i, WHOLE};
            for (int k = 0; k < INSTANCES; k++)
                instances[i][k] = (Card){i, k};
        }
    }
    users++;
    int code = refusal(&library, __func__);
    if (code)
        users--;
    return code;
}

int nvmlShutdown(void)
{
    if (!users)
        return UNINITIALIZED;
    users--;
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    static char words[32];
    snprintf(words, sizeof words, "mocked error %d", code);
    return words;
}

int nvmlSystemGetDriverVersion(char *buffer, unsigned size)
{
    ASK(&library);
    return mock_text(&library, "driver", buffer, size);
}

int nvmlSystemGetConfComputeState(unsigned state[3])
{
    ASK(&library);
    memset(state, 0, 3 * sizeof *state);
    return mock_small(&library, "confidential", 1, &state[1]);
}

int nvmlDeviceGetCount_v2(unsigned *value)
{
    ASK(&library);
    return mock_small(&library, "count", 1, value);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Card **card)
{
    unsigned number = 0;
    ASK(&library);
    if (mock_small(&library, "count", 1, &number) || index >= number)
        return INVALID_ARGUMENT;
    *card = &cards[index];
    ASK(*card);
    return SUCCESS;
}
