"""How people name what they measured: from the name of a figure in a report to a quantity."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.quantity import Quantity

PLAIN = ("", "req", "reqs", "requests", "request", "tok", "token", "tokens", "x")
"""Units of what is counted."""
TIME, RATE, BYTES, BYTE_RATE, SHARE = ("seconds",), ("tokens/s", ""), ("bytes",), ("bytes/s",), ("ratio", "")


@dataclass(frozen=True, slots=True)
class Name:
    """A way to name a quantity."""

    quantity: Quantity
    pattern: re.Pattern[str]
    kinds: tuple[str, ...]
    """Kinds of figures that it may be."""
    unless: re.Pattern[str] | None = None


def _name(quantity: Quantity, pattern: str, kinds: tuple[str, ...], unless: str = "") -> Name:
    return Name(quantity, re.compile(pattern), kinds, re.compile(unless) if unless else None)


NAMES: tuple[Name, ...] = (
    _name(m.SWAPPED, r"\bswapped\b", PLAIN),
    _name(m.KV_CACHE_USAGE, r"\b(kv|token|gpu cache|block pool)\b.*\b(usage|utili[sz]ation|use|full)\b", SHARE,
          r"cpu kv|hit|memory util"),
    _name(lm.EXTERNAL_HIT_RATE, r"external.*hit rate", SHARE),
    _name(lm.BATCH_HIT_RATE, r"^sglang cache hit rate", SHARE),
    _name(m.HITS_RATE_GAUGE, r"hit (rate|ratio)|cache hits?$|hit %", SHARE),
    _name(lm.QUERIES, r"prefix cache queries|queried tokens", PLAIN, "external"),
    _name(lm.HITS, r"prefix cache hits|prefix hits", PLAIN, "external|lmcache"),
    _name(lm.TIER_TOTAL, r"^total( to load| tokens?)?$", PLAIN),
    _name(lm.TIER_HIT, r"^hits?( to load| tokens?)?$|lmcache hit", PLAIN),
    _name(lm.TIER_NEED, r"need to load", PLAIN),
    _name(m.RUNNING, r"\brunning\b|running req|active requests", PLAIN, "time"),
    _name(lm.QUEUED, r"queue.*time|time in queue|waiting time|queue (latency|delay)", TIME),
    _name(m.WAITING, r"\b(waiting|pending|queued)\b|queue (length|size|depth|req)|^queue$|num queue|in (the )?queue",
          PLAIN, "time"),
    _name(m.PREEMPTIONS, r"preempt|retract", PLAIN),
    _name(lm.NO_SPACE, r"(no|find) (free )?space.*kv|kv.*(no|out of) space", PLAIN),
    _name(lm.PREFILL_TIME, r"^prompt (eval|processing)( time)?\b|prefill (time|took|duration|latency)", TIME, "chunk"),
    _name(lm.DECODE_TIME, r"^(eval|decode|generation) (time|took|duration)\b", TIME),
    _name(lm.PREFILL_RATE, r"prefill (rate|throughput|speed)|prompt eval (rate|speed)|prefill tok/s", RATE),
    _name(lm.PROMPT_RATE, r"(prompt|input) throughput", RATE),
    _name(lm.GENERATION_RATE, r"(generation|gen|output|decode) throughput|^throughput", RATE),
    _name(lm.OFFERED, r"(request|arrival|offered) (rate|load)|\bqps\b", PLAIN),
    _name(lm.SERVED, r"request throughput|requests? (per second|served)|completed requests per", PLAIN),
    _name(lm.DECODE_RATE, r"decode|generation (rate|speed)|single stream|eval rate|tok/s|tokens per second", RATE,
          "time|ms"),
    _name(lm.TTFT, r"\bttft\b|first token|time to first", TIME, r"\bsum\b|count"),
    _name(lm.ITL, r"\b(itl|tpot)\b|inter token|per output token|per token", TIME, r"\bsum\b|count"),
    _name(lm.TRANSFER_SETUP, r"(init|post|setup|bootstrap|handshake).*(transfer|xfer)|(transfer|xfer).*(init|post)",
          TIME),
    _name(lm.TRANSFER_TIME, r"transfer|xfer|time for (write|read)|hand ?over|kv (send|recv|receive)", TIME),
    _name(lm.TRANSFER_RATE, r"transfer|xfer|nixl|network|rdma|inter ?node|link (rate|speed)", BYTE_RATE),
    _name(lm.STORE_TIME, r"\b(storing|store (time|cost|latency|duration|per|of|to)|save|saving|put|backup|offload|"
          r"swap out)\b|^store( \d.*)?$", TIME, r"\bhits?\b|\brun\b|total|request|wall"),
    _name(lm.STORE_RATE, r"\b(store|save|put|backup|offload)\b", BYTE_RATE),
    _name(lm.LOAD_TIME, r"retriev|\b(load|fetch|prefetch|onboard|get|swap in)\b", TIME, "model|weight"),
    _name(lm.LOAD_RATE, r"retriev|\b(load|fetch|prefetch|onboard|get|swap in)\b", BYTE_RATE, "model|weight"),
    _name(lm.SKIPPED, r"skip leading", PLAIN),
    _name(lm.COMMON_PREFIX, r"\blcp\b|common prefix", PLAIN),
    _name(lm.SHARED_PREFIX, r"shared (prefix|prompt|tokens)|identical prefix", PLAIN),
    _name(lm.BATCH_SEQUENCES, r"new seq", PLAIN),
    _name(lm.BATCH_NEW, r"new[- ]?tokens?\b", PLAIN),
    _name(lm.BATCH_CACHED, r"cached[- ]?(prefix )?tokens?\b", PLAIN),
    _name(lm.PROMPT_TOKENS, r"(prompt|input) (length|len|tokens|size)|isl", PLAIN),
    _name(lm.STEP_TOKENS, r"max num batched tokens|chunked prefill size|ubatch", PLAIN),
    _name(lm.PREFILL_TOKENS, r"max prefill tokens", PLAIN),
    _name(lm.BLOCK, r"block size|page size|chunk size|tokens per block", PLAIN),
    _name(lm.MAX_RUNNING, r"max num seqs|max running req|max concurrent req|max batch size", PLAIN),
    _name(lm.MAX_LENGTH, r"max model len|context length|context len|max seq", PLAIN),
    _name(lm.FULL_LENGTH, r"maximum concurrency|max concurrency", PLAIN),
    _name(lm.POOL_TOKENS, r"kv cache size|kv pool|kv capacity|max total num tokens|paged kv cache", PLAIN),
    _name(lm.DRAM_ACTIVE, r"dram active|\bmbu\b|bandwidth util|hbm util|dram util", SHARE),
    _name(lm.GPU_BUSY, r"\b(gpu|sm|nvidia smi)\b.*\b(util\w*|usage|busy|active|load|activity)\b", SHARE,
          "memory|cache"),
    _name(lm.CPU_BUSY, r"\bcpu\b", ("ratio",), "kv|cache|memory|offload|gpu"),
    _name(lm.CONCURRENCY, r"concurren|clients|users|parallel requests|at once|simultaneous", PLAIN, "max"),
    _name(lm.REACHED, r"(reached|achieved|measured|effective|actual|observed).*|bandwidth (reached|used)", BYTE_RATE,
          r"pcie|nvlink|link|disk|ssd|nvme|network"),
    _name(lm.REACHABLE, r"bandwidth|achievable|peak|theoretical|ceiling|stream", BYTE_RATE,
          r"pcie|nvlink|link|disk|ssd|nvme|network"),
    _name(lm.WEIGHTS, r"weight", BYTES),
    _name(lm.WALL, r"wall|total time|elapsed|duration|run time|\b(first|second|third|cold|warm) run\b", TIME),
    _name(lm.REQUEST_TIME, r"latency|response time|e2e|end to end", TIME),
    _name(lm.NETWORK_SHARE, r"all ?reduce|nccl|collective|all ?(to|2) ?all|all ?gather", ("ratio",)),
    _name(lm.HOST_SHARE, r"schedul|tokeniz|python|\bgil\b|\bcpu\b|hash|serial|process|event loop|look ?up|"
          r"idle gap|host gap|launch", ("ratio",), r"cache|memory|hit|usage"),
)  # fmt: skip

PROFILED: tuple[Name, ...] = (
    _name(lm.HOST_TIME, r"schedul|tokeniz|python|\bcpu\b|hash|serial|preprocess|postprocess|event loop|look ?up|"
          r"idle gap|gap between|launch|bubble", TIME),
    _name(lm.GPU_TIME, r"forward|kernel|\bgpu\b|model exec|graph exec|attention|decode step", TIME),
)  # fmt: skip
"""Times in rows of a profile."""

ASKED: tuple[Name, ...] = (_name(lm.CONCURRENCY, r"max(imum)? (request )?concurrency|^concurrency", PLAIN),)
"""What clients were told to do; an engine says of its own pool how many requests of full length fit at most."""
_BY_KIND = {"profile": PROFILED, "trace": PROFILED, "flag": ASKED, "workload": ASKED, "benchmark": ASKED}
_REPEATS = re.compile(
    r"\b(identical|repeated|exact same|same) (prompts?|requests?|prefix|messages?|system|documents?|context|questions?)"
)
_ANEW = re.compile(r"full prompt re ?process|re ?process\w* (of )?the (full|whole|entire) prompt")
_DIFFER = re.compile(r"\b(differ\w*|mismatch\w*|not (equal|the same|identical)|unequal)\b")
_FRONT = re.compile(
    r"system (prompt|message)|(front|beginning|start|head) of (the|each|every) prompt|prompt prefix"
)
_CHANGES = re.compile(
    r"\b(time ?stamp|date ?time|clock|time of day|uuid|nonce|salt|session id|request id|random|counter)\b.*"
    r"\b(every|each|per) (request|turn|call|second|minute)|\b(changes|differs|is new|is different)\b.*"
    r"\b(every|each|per|between) (request|turn|call|second|minute)"
)
MAX_WORDS = 400
"""Characters of a row's name and value in which such words are looked for."""
_ON_PURPOSE = re.compile(r"\b(bust\w*|avoid\w*|prevent\w*|defeat\w*|on purpose|never hit|no reuse)\b")
_KEY = re.compile(r"hash|\bkeys?\b|token ids?|template")
_TRANSPORT = re.compile(r"\b(ucx\w*|nixl|transport|rdma|nccl|lanes?|mooncake|infiniband|roce|ibv?)\b")
_TCP = re.compile(r"\brma\w*\(tcp|\bno rdma\b|fall\w* ?back to tcp|\btcp only|net/socket|no ib\b|^tcp$")
_OFF = re.compile(r"(disabled|not (supported|available|found)|no nvlinks?)")
_YES = re.compile(r"^(true|set|yes|on|1|enabled)?$")
_NO = re.compile(r"^(false|off|no|0|disabled)$")


def normal(text: str) -> str:
    """Return a name in lower case with blanks between its words."""
    return re.sub(r"[\s_:,#-]+", " ", text.lower()).strip()


def quantity_of(name: str, kind: str, row: str = "") -> Quantity | None:
    """Return the quantity that a name, the kind of its figure and the kind of its row stand for."""
    for known in (*_BY_KIND.get(row, ()), *NAMES):
        unless = known.unless
        if kind in known.kinds and known.pattern.search(name) and not (unless and unless.search(name)):
            return known.quantity
    return None


def named(name: str, kinds: Collection[str]) -> frozenset[Quantity]:
    """Return every quantity that a name may stand for with figures of these kinds."""
    return frozenset(q for kind in kinds if (q := quantity_of(name, kind)) is not None)


def facts(kind: str, name: str, value: str) -> Iterable[tuple[Quantity, float]]:
    """Return what a row says in words rather than in figures."""
    words = normal(value)
    if _KEY.search(name) and _DIFFER.search(words):
        yield lm.KEYS_DIFFER, 1.0
    if _TRANSPORT.search(name):
        if _TCP.search(value.lower()):
            yield lm.TCP, 1.0
        elif _OFF.search(words):
            yield lm.FAST_PATH_OFF, 1.0
    if kind in ("workload", "benchmark", "config", "log") and _REPEATS.search(f"{name} {words}"):
        yield lm.REPEATED, 1.0
    told = f"{name} {words}"[:MAX_WORDS]
    if _FRONT.search(told) and _CHANGES.search(told) and not _ON_PURPOSE.search(told):
        yield lm.VOLATILE, 1.0
    if _ANEW.search(told) and not _NO.match(words):
        yield lm.REPROCESSED, 1.0
    if "prefix caching" in name and "no enable" not in name:
        yield from (
            ((lm.CACHING, 1.0),) if _YES.match(words) else ((lm.CACHING, 0.0),) if _NO.match(words) else ()
        )
    elif re.search(r"no enable prefix caching|disable radix cache", name) and _YES.match(words):
        yield lm.CACHING, 0.0
    if kind in ("log", "metric") and re.search(r"preempt|retract", name) and not re.search(r"\d", value):
        yield m.PREEMPTIONS, 1.0
        if "swap" in words:
            yield lm.SWAPS, 1.0
