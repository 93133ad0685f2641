/* GPM: opaque samples hold a moment; a metric is the scenario's mean between two of them. */
#include "mock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    Card card;
    double at;
} Sample;

typedef struct {
    unsigned id;
    int code;
    double value;
    const char *names[3];
} Metric;

typedef struct {
    unsigned version, number;
    Sample *first, *second;
    Metric metrics[];
} Request;

typedef struct {
    unsigned version, supported;
} Support;

static const double SHORTEST = 0.1, GARBAGE = 1.797e308;

int nvmlGpmQueryDeviceSupport(const Card *card, Support *support)
{
    double value = 0.0;
    int code = refusal(card, __func__);
    if (code)
        return code;
    if (support->version != 1)
        return VERSION_MISMATCH;
    code = scenario_number(card, "gpm", &value);
    support->supported = !code && value > 0;
    return code == NOT_SUPPORTED ? SUCCESS : code;
}

int nvmlGpmSampleAlloc(Sample **sample)
{
    *sample = calloc(1, sizeof **sample);
    return *sample ? SUCCESS : 20;
}

int nvmlGpmSampleFree(Sample *sample)
{
    free(sample);
    return SUCCESS;
}

static int take(const Card *card, int instance, Sample *sample, const char *call)
{
    int code = refusal(card, call);
    if (code)
        return code;
    sample->card = (Card){card->gpu, instance};
    sample->at = scenario_now();
    return SUCCESS;
}

int nvmlGpmSampleGet(const Card *card, Sample *sample)
{
    return take(card, card->instance, sample, __func__);
}

int nvmlGpmMigSampleGet(const Card *card, unsigned instance, Sample *sample)
{
    return take(card, (int)instance, sample, __func__);
}

static void work_out(const Sample *first, const Sample *second, Metric *metric)
{
    char key[24];
    double before = 0.0, after = 0.0, seconds = second->at - first->at;
    snprintf(key, sizeof key, "gpm.%u", metric->id);
    metric->value = GARBAGE;
    metric->code = scenario_integral(&second->card, key, second->at, &after);
    if (metric->code || seconds < SHORTEST)
        return;
    scenario_integral(&first->card, key, first->at, &before);
    metric->value = (after - before) / seconds;
}

int nvmlGpmMetricsGet(Request *request)
{
    if (request->version != 1)
        return VERSION_MISMATCH;
    if (!request->first || !request->second)
        return INVALID_ARGUMENT;
    for (unsigned i = 0; i < request->number; i++)
        work_out(request->first, request->second, &request->metrics[i]);
    return SUCCESS;
}
