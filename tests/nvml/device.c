/* The calls of NVML on one card. What is not here is absent, as from an old driver. */
#include "mock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double WINDOW_SECONDS = 0.02;

int mock_whole(const Card *card, const char *key, double scale, unsigned long long *value)
{
    double number = 0.0;
    int code = scenario_number(card, key, &number);
    if (!code)
        *value = (unsigned long long)llround(number * scale);
    return code;
}

int mock_small(const Card *card, const char *key, double scale, unsigned *value)
{
    unsigned long long number = 0;
    int code = mock_whole(card, key, scale, &number);
    if (!code)
        *value = (unsigned)number;
    return code;
}

int mock_text(const Card *card, const char *key, char *buffer, unsigned size)
{
    const char *found = scenario_text(card, key);
    if (!found)
        return NOT_SUPPORTED;
    snprintf(buffer, size, "%s", found);
    return SUCCESS;
}

#define TEXTUAL(call, key)                                                                                     \
    int call(const Card *card, char *buffer, unsigned size)                                                    \
    {                                                                                                          \
        ASK(card);                                                                                             \
        return mock_text(card, key, buffer, size);                                                                  \
    }
#define SMALL(call, key, scale)                                                                                \
    int call(const Card *card, unsigned *value)                                                                \
    {                                                                                                          \
        ASK(card);                                                                                             \
        return mock_small(card, key, scale, value);                                                                 \
    }
#define LARGE(call, key, scale)                                                                                \
    int call(const Card *card, unsigned long long *value)                                                      \
    {                                                                                                          \
        ASK(card);                                                                                             \
        return mock_whole(card, key, scale, value);                                                                 \
    }
#define BY_KIND(call, key)                                                                                     \
    int call(const Card *card, unsigned kind, unsigned *value)                                                 \
    {                                                                                                          \
        char name[32];                                                                                         \
        ASK(card);                                                                                             \
        snprintf(name, sizeof name, key ".%u", kind);                                                          \
        return mock_small(card, name, 1, value);                                                                    \
    }

TEXTUAL(nvmlDeviceGetName, "name")
TEXTUAL(nvmlDeviceGetUUID, "uuid")
SMALL(nvmlDeviceGetMemoryBusWidth, "bus.width", 1)
SMALL(nvmlDeviceGetPowerUsage, "power", 1e3)
SMALL(nvmlDeviceGetEnforcedPowerLimit, "power.limit", 1e3)
SMALL(nvmlDeviceGetCurrPcieLinkGeneration, "link.generation", 1)
SMALL(nvmlDeviceGetMaxPcieLinkGeneration, "link.generation.slot", 1)
SMALL(nvmlDeviceGetGpuMaxPcieLinkGeneration, "link.generation.card", 1)
SMALL(nvmlDeviceGetCurrPcieLinkWidth, "link.width", 1)
SMALL(nvmlDeviceGetMaxPcieLinkWidth, "link.width.slot", 1)
SMALL(nvmlDeviceGetPcieReplayCounter, "replays", 1)
SMALL(nvmlDeviceGetPerformanceState, "pstate", 1)
SMALL(nvmlDeviceGetMaxMigDeviceCount, "mig.most", 1)
SMALL(nvmlDeviceGetComputeMode, "mode", 1)
LARGE(nvmlDeviceGetVirtualizationMode, "virtualization", 1)
LARGE(nvmlDeviceGetCurrentClocksEventReasons, "reasons", 1)
LARGE(nvmlDeviceGetCurrentClocksThrottleReasons, "reasons", 1)
BY_KIND(nvmlDeviceGetClockInfo, "clock")
BY_KIND(nvmlDeviceGetMaxClockInfo, "clock.limit")
BY_KIND(nvmlDeviceGetTemperature, "temperature")

int nvmlDeviceGetIndex(const Card *card, unsigned *index)
{
    ASK(card);
    *index = (unsigned)card->gpu;
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(const Card *card, unsigned *minor)
{
    return nvmlDeviceGetIndex(card, minor);
}

int nvmlDeviceGetTotalEnergyConsumption(const Card *card, unsigned long long *millijoules)
{
    double joules = 0.0;
    ASK(card);
    int code = scenario_integral(card, "power", scenario_now(), &joules);
    *millijoules = (unsigned long long)llround(joules * 1e3);
    return code;
}

typedef struct {
    char old[16];
    unsigned numbers[5];
    char bus[32];
} Place;

int nvmlDeviceGetPciInfo_v3(const Card *card, Place *info)
{
    ASK(card);
    memset(info, 0, sizeof *info);
    return mock_text(card, "bus", info->bus, sizeof info->bus);
}

int nvmlDeviceGetUtilizationRates(const Card *card, unsigned rates[2])
{
    ASK(card);
    int code = mock_small(card, "occupancy", 1, &rates[0]);
    return code ? code : mock_small(card, "occupancy.memory", 1, &rates[1]);
}

int nvmlDeviceGetMemoryInfo(const Card *card, unsigned long long sizes[3])
{
    ASK(card);
    int code = mock_whole(card, "memory", 1, &sizes[0]);
    code = code ? code : mock_whole(card, "memory.used", 1, &sizes[2]);
    sizes[1] = sizes[0] - sizes[2];
    return code;
}

int nvmlDeviceGetPcieThroughput(const Card *card, unsigned receives, unsigned *kilobytes)
{
    ASK(card);
    double seconds = WINDOW_SECONDS;
    scenario_number(&library, "window", &seconds);
    usleep((useconds_t)(seconds * 1e6));
    return mock_small(card, receives ? "pcie.receive" : "pcie.transmit", 1e-3, kilobytes);
}

int nvmlDeviceGetTotalEccErrors(const Card *card, unsigned kind, unsigned counter, unsigned long long *value)
{
    (void)counter;
    ASK(card);
    return mock_whole(card, kind ? "ecc.uncorrected" : "ecc.corrected", 1, value);
}

int nvmlDeviceGetRemappedRows(const Card *card, unsigned *right, unsigned *wrong, unsigned *waits, unsigned *fails)
{
    ASK(card);
    *right = *wrong = *fails = 0;
    return mock_small(card, "rows.pending", 1, waits);
}

/* -- MIG ---------------------------------------------------------------------------------------------------- */

int nvmlDeviceGetMigMode(const Card *card, unsigned *now, unsigned *pending)
{
    ASK(card);
    int code = mock_small(card, "mig", 1, now);
    *pending = *now;
    return code;
}

int nvmlDeviceGetMigDeviceHandleByIndex(const Card *card, unsigned index, Card **found)
{
    ASK(card);
    if (index > 7 || !scenario_find(card->gpu, (int)index, "uuid", scenario_now()))
        return NOT_FOUND;
    *found = card_at(card->gpu, (int)index);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(const Card *card, unsigned *id)
{
    ASK(card);
    *id = (unsigned)card->instance;
    return card->instance == WHOLE ? NOT_SUPPORTED : SUCCESS;
}
