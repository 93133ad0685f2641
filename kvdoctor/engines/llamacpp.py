"""The llama.cpp server: no labels, no histograms, prompt tokens without the cached ones."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Era, Select, any_of

_PROMPT, _CACHED = "llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"

# The two tokens/s gauges are of the time since somebody's last scrape, and `n_tokens_max` is a high-water mark
# that calls itself a counter: none of them is read.
ENGINE = Engine(
    name="llamacpp",
    prefixes=("llamacpp:",),
    signals={
        m.KV_CACHE_USAGE: any_of("llamacpp:kv_cache_usage_ratio"),
        m.KV_USED: any_of("llamacpp:kv_cache_tokens"),
        m.RUNNING: any_of("llamacpp:requests_processing"),
        m.WAITING: any_of("llamacpp:requests_deferred"),
        m.PREFIX_QUERIES: ((Select(_PROMPT, beside=_CACHED), Select(_CACHED)),),
        m.PREFIX_HITS: any_of(_CACHED),
        m.PROMPT_TOKENS: ((Select(_PROMPT, beside=_CACHED), Select(_CACHED)),),
        m.PROMPT_COMPUTED: any_of(_PROMPT),
        m.PROMPT_SECONDS: any_of("llamacpp:prompt_seconds"),
        m.GENERATED: any_of("llamacpp:tokens_predicted"),
        m.OUTPUT_SECONDS: any_of("llamacpp:tokens_predicted_seconds"),
        m.STEPS: any_of("llamacpp:n_decode"),
        m.SPEC_DRAFT_TOKENS: any_of("llamacpp:spec_decode_num_draft_tokens"),
        m.SPEC_ACCEPTED: any_of("llamacpp:spec_decode_num_accepted_tokens"),
    },
    eras=(Era("llamacpp:kv_cache_usage_ratio", until="2025"),),
    default_port=8080,
)
