/* The calls of NVML that answer with lists: fields, processes, events. */
#include "mock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- fields ------------------------------------------------------------------------------------------------- */

typedef struct {
    unsigned id, scope;
    long long microseconds, latency;
    unsigned type;
    int code;
    union {
        double as_double;
        unsigned as_unsigned;
        unsigned long long as_long;
    } value;
} Field;

static void fill(const Card *card, Field *field)
{
    char key[40];
    double number = 0.0, bits = 0.0, type = 3.0;
    snprintf(key, sizeof key, "field.%u", field->id);
    field->code = scenario_number(card, key, &number);
    if (field->code == NOT_SUPPORTED) {
        snprintf(key, sizeof key, "rate.%u", field->id);
        field->code = scenario_integral(card, key, scenario_now(), &number);
    }
    snprintf(key, sizeof key, "bits.%u", field->id);
    if (!scenario_number(card, key, &bits) && bits > 0)
        number = fmod(number, exp2(bits));
    snprintf(key, sizeof key, "type.%u", field->id);
    scenario_number(card, key, &type);
    field->microseconds = (long long)(scenario_now() * 1e6);
    field->type = (unsigned)type;
    field->value.as_long = ~0ULL;
    if (field->code)
        return;
    if (field->type == 0)
        field->value.as_double = number;
    else if (field->type == 1)
        field->value.as_unsigned = (unsigned)number;
    else
        field->value.as_long = (unsigned long long)number;
}

int nvmlDeviceGetFieldValues(const Card *card, int number, Field *fields)
{
    ASK(card);
    for (int i = 0; i < number; i++)
        fill(card, &fields[i]);
    return SUCCESS;
}

/* -- processes ---------------------------------------------------------------------------------------------- */

typedef struct {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} Process;

typedef struct {
    unsigned pid;
    unsigned long long microseconds;
    unsigned sm, memory, encoder, decoder;
} Busy;

/* Walk `pid:number,pid:none`; returns how many there are. */
static unsigned pairs(const char *list, unsigned pids[], double numbers[], unsigned most)
{
    unsigned n = 0;
    for (const char *at = list; at && *at && n < most; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (sscanf(at, "%u:", &pids[n]) != 1)
            break;
        numbers[n] = NAN;
        sscanf(strchr(at, ':') + 1, "%lf", &numbers[n]);
        n++;
    }
    return n;
}

static int processes(const Card *card, unsigned *count, Process *list)
{
    unsigned pids[64];
    double bytes[64];
    unsigned n = pairs(scenario_text(card, "processes"), pids, bytes, 64);
    unsigned room = *count;
    *count = n;
    if (n > room || (n && !list))
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < n; i++)
        list[i] = (Process){pids[i], isnan(bytes[i]) ? ~0ULL : (unsigned long long)bytes[i],
                            card->instance == WHOLE ? ~0U : (unsigned)card->instance, ~0U};
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(const Card *card, unsigned *count, Process *list)
{
    ASK(card);
    return processes(card, count, list);
}

int nvmlDeviceGetComputeRunningProcesses_v2(const Card *card, unsigned *count, Process *list)
{
    ASK(card);
    return processes(card, count, list);
}

int nvmlDeviceGetProcessUtilization(const Card *card, Busy *list, unsigned *count, unsigned long long since)
{
    unsigned pids[64];
    double shares[64];
    ASK(card);
    const char *known_ones = scenario_text(card, "process.occupancy");
    unsigned long long now = (unsigned long long)(scenario_now() * 1e6) + 1;
    unsigned n = pairs(known_ones, pids, shares, 64);
    if (!known_ones || now <= since)
        return NOT_FOUND;
    *count = n;
    if (n && !list)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < n; i++)
        list[i] = (Busy){pids[i], now, (unsigned)shares[i], 0, 0, 0};
    return SUCCESS;
}

/* -- events: `xid` lines, each told once ---------------------------------------------------------------------- */

typedef struct {
    Card *card;
    unsigned long long kind, xid;
    unsigned gpu_instance, compute_instance;
} Event;

static int last_event;

int nvmlEventSetCreate(void **set)
{
    ASK(&library);
    last_event = -1;
    *set = &last_event;
    return SUCCESS;
}

int nvmlEventSetFree(void *set)
{
    (void)set;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(const Card *card, unsigned long long kinds, void *set)
{
    (void)kinds, (void)set;
    ASK(card);
    return SUCCESS;
}

int nvmlEventSetWait_v2(void *set, Event *event, unsigned milliseconds)
{
    (void)set, (void)milliseconds;
    ASK(&library);
    const Line *line = scenario_next("xid", scenario_now(), &last_event);
    if (!line)
        return TIMEOUT;
    *event = (Event){card_at(line->gpu, WHOLE), 8, (unsigned long long)line->number, ~0U, ~0U};
    return SUCCESS;
}
