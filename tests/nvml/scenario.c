/* Reads `card key seconds value` lines: NVML_MOCK_SCENARIO names the file, NVML_MOCK_CLOCK one with the time.
 *
 * card: a GPU's number, GPU.INSTANCE for MIG, * for all, lib for the library itself
 * value: a number, text, nan, none, !CODE for an NVML error, hang:SECONDS for a call that blocks
 */
#include "mock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096 };

static Line lines[MOST];
static int count;
static double began;

static double monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double scenario_now(void)
{
    const char *path = getenv("NVML_MOCK_CLOCK");
    double now = 0.0;
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        return monotonic() - began;
    if (fscanf(file, "%lf", &now) != 1)
        now = 0.0;
    fclose(file);
    return now;
}

static void read_card(const char *word, Line *line)
{
    line->gpu = EVERY;
    line->instance = WHOLE;
    if (!strcmp(word, "lib"))
        line->gpu = LIBRARY;
    else if (strcmp(word, "*"))
        sscanf(word, "%d.%d", &line->gpu, &line->instance);
}

static void read_value(const char *word, Line *line)
{
    char *end = NULL;
    snprintf(line->text, sizeof line->text, "%s", word);
    line->kind = TEXT;
    if (word[0] == '!') {
        line->kind = FAILS;
        line->number = atof(word + 1);
    } else if (!strncmp(word, "hang:", 5)) {
        line->kind = HANGS;
        line->number = atof(word + 5);
    } else {
        double number = strtod(word, &end);
        if (end != word && *end == '\0') {
            line->kind = NUMBER;
            line->number = number;
        }
    }
}

int scenario_load(void)
{
    const char *path = getenv("NVML_MOCK_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    char text[512], card[24], value[256];
    count = 0;
    began = monotonic();
    while (file && count < MOST && fgets(text, sizeof text, file)) {
        Line *line = &lines[count];
        if (sscanf(text, "%23s %55s %lf %255[^\n]", card, line->key, &line->at, value) != 4 || card[0] == '#')
            continue;
        read_card(card, line);
        read_value(value, line);
        count++;
    }
    if (file)
        fclose(file);
    return file != NULL;
}

static int speaks_of(const Line *line, int gpu, int instance)
{
    if (line->gpu == LIBRARY || gpu == LIBRARY)
        return line->gpu == gpu;
    return (line->gpu == EVERY || line->gpu == gpu) && line->instance == instance;
}

const Line *scenario_find(int gpu, int instance, const char *key, double now)
{
    const Line *all = NULL, *own = NULL;
    for (int i = 0; i < count; i++) {
        if (lines[i].at > now || strcmp(lines[i].key, key) || !speaks_of(&lines[i], gpu, instance))
            continue;
        if (lines[i].gpu == gpu)
            own = &lines[i];
        else
            all = &lines[i];
    }
    return own ? own : all;
}

static int as_number(const Line *line, double *value)
{
    if (!line)
        return NOT_SUPPORTED;
    if (line->kind == FAILS)
        return (int)line->number;
    *value = line->kind == NUMBER ? line->number : NAN;
    return SUCCESS;
}

int scenario_number(const Card *card, const char *key, double *value)
{
    return as_number(scenario_find(card->gpu, card->instance, key, scenario_now()), value);
}

int scenario_integral(const Card *card, const char *key, double until, double *value)
{
    double sum = 0.0, since = 0.0, number = 0.0;
    const Line *last = scenario_find(card->gpu, card->instance, key, until);
    int code = as_number(last, value);
    if (code)
        return code;
    for (int i = 0; i < count && lines[i].at <= until; i++) {
        if (strcmp(lines[i].key, key) || lines[i].gpu != last->gpu || lines[i].instance != last->instance)
            continue;
        sum += number * (lines[i].at - since);
        since = lines[i].at;
        if (as_number(&lines[i], &number))
            number = 0.0;
    }
    *value = sum + number * (until - since);
    return SUCCESS;
}

const char *scenario_text(const Card *card, const char *key)
{
    const Line *line = scenario_find(card->gpu, card->instance, key, scenario_now());
    return line ? line->text : NULL;
}

const Line *scenario_next(const char *key, double now, int *place)
{
    for (int i = *place + 1; i < count; i++)
        if (lines[i].at <= now && !strcmp(lines[i].key, key)) {
            *place = i;
            return &lines[i];
        }
    return NULL;
}
