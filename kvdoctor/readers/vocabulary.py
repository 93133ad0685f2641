"""The words people measure with: which name, with which kind of figure, stands for which quantity."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.quantity import Quantity

PLAIN = ("", "req", "reqs", "requests", "request", "tok", "token", "tokens", "x")
"""Units of what is counted."""
TIME, RATE, BYTES, BYTE_RATE, SHARE = ("seconds",), ("tokens/s", ""), ("bytes",), ("bytes/s",), ("ratio", "")
RATIO, PER_SECOND = ("ratio",), (*PLAIN, "req/s")
SETUP = ("flag", "workload", "config", "env", "hardware", "model", "os")
"""Kinds of rows that tell what was set up: no time in them was measured."""
_PART = (
    r"(?=.*\b(share|part|portion|fraction|percent\w*|of (the |a |each |total |mean )?"
    r"(ttft|step|request|latency|wall|time|iteration|e2e|first token|gpu time|samples|profile))\b)"
)
"""A look ahead for words that make a ratio one of a whole time."""
_LINKS = r"\bnics?\b|mlx\d|\bhca\b|rdma|network|infiniband|\bib\b|ethernet|nccl|nvlink|interconnect|inter ?node|\blink"


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
    _name(lm.BYTES_A_TOKEN, r"", ("bytes/token",)),
    _name(lm.REQUEST_BYTES, r"\b(kv|bytes|size|data)\b.*\b(per|a|each|one|of a) (request|prompt|load|hit|transfer)\b"
          r"|\b(loaded|moved|sent|fetched|transferred) (per|a|each) request\b", BYTES, "weight"),
    _name(lm.POOL_BLOCKS, r"\b(max|total|num(ber)?( of)?|gpu) (\w+ )?(kv )?(cache )?blocks\b", PLAIN,
          r"used|free|cpu|\bper\b|batch|\bsize\b"),
    _name(lm.IN_FLIGHT, r"\bactive requests? count\b|\bin ?flight requests?\b|\brequests? in ?flight\b", PLAIN, "max"),
    _name(lm.QUEUED_STEPS, r"\b(steps|time|samples|scrapes|intervals|iterations) (with|that have|in which) (a |any )?"
          r"(queue\w*|waiting|requests? wait\w*)", RATIO),
    _name(lm.LINK_SHARE, r"\b(line|link|wire|nic) (rate|speed|bandwidth|util\w*)\b", RATIO),
    _name(lm.PIECES, r"\bdescriptors?\b|\bwork requests\b|\b(transfer|rdma|copy|io|read|write)s? (ops|operations|"
          r"segments|pieces)\b|\b(pieces|segments|copies|memcpys) (per|a|each) (\w+ )?(transfer|request|step|layer)\b",
          PLAIN, "file"),
    _name(lm.FAILED, r"\bfailed (requests|calls)\b|\b(request )?failures\b", PLAIN),
    _name(m.SWAPPED, r"\bswapped\b", PLAIN),
    _name(lm.QUEUE_SHARE, rf"^{_PART}(?=.*\b(queue|waiting|queued|queueing)\b)", RATIO),
    _name(lm.PREFILL_SHARE, rf"^{_PART}(?=.*\bprefill)", RATIO, r"cache|hit|served|transfer|util"),
    _name(m.PREEMPTIONS, r"preempt|retract", PLAIN),
    _name(m.KV_CACHE_USAGE, r"\b(kv|token|gpu cache|block pool)\b.*\b(usage|utili[sz]ation|use|full|occup\w+)\b", SHARE,
          r"cpu kv|hit|memory util"),
    _name(lm.EXTERNAL_HIT_RATE, r"external.*hit rate|\b(served|found|hit|loaded|read) (from|by|in) (the |a )?(\w+ )?"
          r"(store|storage|l[23]|tier|cpu|disk|ssd|host)\b", SHARE),
    _name(lm.BATCH_HIT_RATE, r"^sglang cache hit rate", SHARE),
    _name(lm.EXPECTED_HIT_RATE, r"(expected|theoretical|ideal|possible|potential|achievable|best case|should).*"
          r"(hit (rate|ratio)|reuse)", SHARE),
    _name(m.HITS_RATE_GAUGE, r"hit (rate|ratio)|cache hits?$|hit %|cache reuse (rate|ratio)", SHARE),
    _name(lm.QUERIES, r"prefix cache queries|queried tokens", PLAIN, "external"),
    _name(lm.HITS, r"prefix cache hits|prefix hits", PLAIN, "external|lmcache"),
    _name(lm.TIER_TOTAL, r"^total( to load| tokens?)?$", PLAIN),
    _name(lm.TIER_HIT, r"^hits?( to load| tokens?)?$|lmcache hit", PLAIN),
    _name(lm.TIER_NEED, r"need to load", PLAIN),
    _name(m.WAITING, r"\b(waiting|pending|queued)\b.* running ?=", PLAIN),
    _name(m.RUNNING, r"\brunning\b|running req|(active|processing) requests|requests processing", PLAIN,
          r"time|\bmax"),
    _name(lm.QUEUED, r"queue.*time|time .*\bqueue|in (the )?queue|wait(ing)? time|queue (latency|delay|wait)|"
          r"\bwaits? (in|before|of)\b",
          TIME),
    _name(m.WAITING, r"\b(waiting|pending|queued|deferred)\b|queue (length|size|depth|req)|^queue$|num queue|"
          r"in (the )?queue",
          PLAIN, "time"),
    _name(lm.NO_SPACE, r"(no|find) (free )?space.*kv|kv.*(no|out of) space", PLAIN),
    _name(lm.STALL_BESIDE, r"\b(itl|tpot|tbt)\b.*\b(while|during|when|beside|under)\b.*\bprefill|"
          r"\b(froze|frozen|freez\w*|stall\w*|blocked|blocking|paus\w*|gaps?)\b.*\bprefill|"
          r"\bprefill.*\b(froze|frozen|freez\w*|stall\w*|blocked|blocking|paus\w*)\b", TIME, "block size"),
    _name(lm.PREFILL_TIME, r"^prompt (eval|processing)( time)?\b|prefill (time|took|duration|latency)|"
          r"^prefill( of [\w ]+)?$", TIME, "chunk"),
    _name(lm.DECODE_TIME, r"^(eval|decode|generation) (time|took|duration)\b|^decode( of [\w ]+)?$", TIME),
    _name(lm.PREFILL_RATE, r"prefill (rate|throughput|speed)|prompt eval (rate|speed)|prefill tok/s|"
          r"prompt processing( speed| rate)?$|\bpp ?\d+\b", RATE),
    _name(lm.OFFERED, r"(request|arrival|offered|send\w*) (rate|load)|\bqps\b|offered|arriv\w+|\brps\b", PER_SECOND,
          r"served|throughput|achieved|\b(with|without|on|off)\b"),
    _name(lm.OFFERED, r"\bsen[dt]\b|submitted|incoming", ("req/s",)),
    _name(lm.SERVED, r"request throughput|requests? (per second|served)|completed requests per", PER_SECOND),
    _name(lm.SERVED, r"throughput|served|completed|finished|processing speed|achieved|processed", ("req/s",)),
    _name(lm.PROMPT_RATE, r"(prompt|input) (throughput|tokens? (per second|throughput|rate|/ ?s)|tok/s|tps)", RATE),
    _name(lm.LOAD_TOKEN_RATE, r"\b(store|storage|tier|l[23]|disk|ssd|cpu|host|lmcache) (read|load|fetch|retriev\w*)|"
          r"retriev\w* (rate|throughput|speed)", ("tokens/s",), "write"),
    _name(lm.GENERATION_RATE, r"(generation|gen|output|decode|total|aggregate|system|overall|token) "
          r"(token )?throughput|output tokens? per second|^throughput|end to end (token )?(rate|speed)", RATE),
    _name(lm.DECODE_RATE, r"decode|generation (rate|speed)|single stream|eval rate|tok/s|tokens? (per|a) second|"
          r"^(generation|speed|tps|tok s|t/s)\b|token rate|\btg ?\d+\b", RATE,
          "time|ms|prompt|input|prefill (rate|speed)"),
    _name(lm.GENERATION_RATE, r"throughput", RATE, "request|prompt|input|prefill|transfer|read|write|load|stor"),
    _name(lm.TTFT, r"\bttft\b|first token|time to first", TIME, r"\bsum\b|count|histogram|bucket"),
    _name(lm.ITL, r"\b(itl|tpot|tbt)\b|inter token|per output token|per token|token time|time (per|of a|a) token|"
          r"between tokens|decode (step )?latency", TIME, r"\bsum\b|count|histogram|bucket"),
    _name(lm.ITL, r"^(time per (decode )?(step|iteration)|(decode )?(step|iteration) (time|latency))\b", TIME,
          r"prefill|cpu|gpu|host|kernel"),
    _name(lm.TRANSFER_SETUP, r"(init|post|setup|bootstrap|handshake).*(transfer|xfer)|(transfer|xfer).*(init|post)",
          TIME),
    _name(lm.TRANSFER_TIME, r"transfer|xfer|time for (write|read)|hand ?(over|off)|kv (send|recv|receive|migrat\w*)",
          TIME),
    _name(lm.LINK_RATED, r"^(?=.*\b(rated|expected|line rate|theoretical|nominal|peak|spec\w*|max\w*)\b)"
          rf"(?=.*({_LINKS}))", BYTE_RATE),
    _name(lm.TRANSFER_RATE, r"transfer|xfer|nixl|network (bandwidth|bw|speed|rate)|rdma|inter ?node|"
          r"link (rate|speed)|nccl|bus ?bw|bus bandwidth|"
          r"all ?reduce|\bnics?\b|mlx\d|\bhca\b|\bmr\b|memory region|"
          r"\b(destination|dst|src)\b|ethernet|infiniband|iperf|hand ?(over|off)", BYTE_RATE),
    _name(lm.STORE_TIME, r"\b(storing|store (time|cost|latency|duration|per|of|to)|save|saving|put|backup|offload|"
          r"swap out)\b|^store( \d.*)?$", TIME, r"\bhits?\b|\brun\b|total|request|wall"),
    _name(lm.STORE_RATE, r"\b(store|save|put|backup|offload)\b", BYTE_RATE, r"\bread\b"),
    _name(lm.RECOMPUTE_TIME, r"recomput|\bre ?prefill|computing (it|them|the same)|prefill\w* (it|them|"
          r"the same|instead|from scratch)", TIME, "preempt"),
    _name(lm.LOAD_TIME, r"retriev|\b(load|loading|loaded|fetch|fetching|prefetch|onboard|get|swap in|load ?back|"
          r"restore|restoring|reload)\b", TIME, r"model|weight|average|(under|at|high|low) load|start"),
    _name(lm.LOAD_RATE, r"retriev|\b(load|fetch|prefetch|onboard|get|swap in|load ?back|restore|reload)\b|"
          r"\b(disk|ssd|nvme|storage|store|tier|host|cpu) read\b", BYTE_RATE, "model|weight"),
    _name(lm.ACCEPT_LENGTH, r"accept\w* (length|len)\b", PLAIN),
    _name(lm.SKIPPED, r"skip leading", PLAIN),
    _name(lm.COMMON_PREFIX, r"\blcp\b|common prefix", PLAIN),
    _name(lm.SHARED_PREFIX, r"\b(shared|identical) (system |\w+ )?(prefix|prompt|tokens)|identical prefix", PLAIN),
    _name(lm.BATCH_SEQUENCES, r"new seq", PLAIN),
    _name(lm.BATCH_NEW, r"new[- ]?tokens?\b", PLAIN),
    _name(lm.BATCH_CACHED, r"cached[- ]?(prefix |prompt )?tokens?\b|^cache n$|tokens? (cached|reused|from cache)|"
          r"reused tokens|\b(slot|cache|prefix) reuse\b|cache read", PLAIN),
    _name(lm.PROMPT_TOKENS, r"(prompt|input) (length|len|tokens|size)|isl", PLAIN),
    _name(lm.PROMPT_TOKENS, r"^(prompt|input|context)$", ("tok", "token", "tokens")),
    _name(lm.CARDS, r"(tensor|pipeline) parallel( size)?$|^(tp|pp)( size)?$|^(num(ber)?( of)? )?(gpus?|cards?|nodes?)$",
          PLAIN),
    _name(lm.STEP_TOKENS, r"max num batched tokens|chunked prefill size|ubatch", PLAIN),
    _name(lm.PREFILL_TOKENS, r"max prefill tokens", PLAIN),
    _name(lm.BLOCK, r"block size|page size|chunk size|tokens per block", PLAIN, r"\bmax\b"),
    _name(lm.MAX_RUNNING, r"max num seqs|max running req|max concurrent req|max batch size|"
          r"max (running|concurrent) (requests|sequences|seqs)|num parallel|^(n )?parallel$", PLAIN),
    _name(lm.MAX_LENGTH, r"max model len|context length|context len|max seq", PLAIN),
    _name(lm.FULL_LENGTH, r"maximum concurrency|max concurrency", PLAIN),
    _name(lm.POOL_TOKENS, r"kv cache (size|capacity|tokens)|kv pool|kv capacity|max total num tokens|paged kv cache",
          PLAIN),
    _name(lm.DRAM_ACTIVE, r"dram (active|throughput)|\bmbu\b|(bandwidth|hbm|dram) util|hbm throughput|"
          r"(achieved|effective|measured) (hbm |memory |dram )?bandwidth", SHARE),
    _name(lm.TENSOR_ACTIVE, r"\b(tensor (core|pipe)?s? ?(active|util\w*|busy)|tensor (active|cores?|pipe)|mfu)\b",
          SHARE),
    _name(lm.GPU_IDLE, r"\bgpus?\b.*\b(idle|starv\w*|wait\w*|bubbles?)\b|\b(idle|bubbles?)\b.*\bgpus?\b", RATIO),
    _name(lm.GPU_BUSY, r"\b(gpus?|sm|nvidia smi)\b.*\b(util\w*|usage|busy|active|load|activity)\b", SHARE,
          r"mem|cache|frac"),
    _name(lm.CPU_BUSY, r"\bcpu\b", RATIO, r"kv|cache|memory|offload|gpu|share of|of (a |the )?step|whole|cpu\(s\)"),
    _name(lm.CONCURRENCY, r"concurren|clients|users|parallel requests|at once|simultaneous|^batch( size)?$", PLAIN,
          "max"),
    _name(lm.REACHED, r"(reached|achieved|measured|effective|actual|observed).*|bandwidth (reached|used)", BYTE_RATE,
          rf"pcie|disk|ssd|nvme|{_LINKS}"),
    _name(lm.REACHABLE, r"bandwidth|achievable|peak|theoretical|ceiling|stream|\b(hbm|vram|d?ram)\b", BYTE_RATE,
          rf"pcie|disk|ssd|nvme|{_LINKS}"),
    _name(lm.WEIGHTS, r"weight|model size|size on disk|checkpoint|model file", BYTES, "cache|host memory"),
    _name(lm.WALL, r"wall|total time|elapsed|duration|run time|\b(first|second|third|cold|warm) run\b", TIME),
    _name(lm.REQUEST_TIME, r"latency|response time|e2e|end to end", TIME),
    _name(lm.MOVE_SHARE, r"mem ?cpy|\b(d2h|h2d|dtoh|htod)\b|(device to host|host to device|offload|swap|kv) (cop\w+|"
          r"load\w*)|swap (in|out)|"
          r"transfers? (to|from|between) (the )?(cpu|host|disk|gpu)|offload transfers?", RATIO,
          "hit|usage|faster|slower"),
    _name(lm.NETWORK_SHARE, r"all ?reduce|nccl|collective|communicat|\bcomms?\b|all ?(to|2) ?all|all ?gather|"
          r"kv (transfer|hand ?(over|off))|nixl|rdma", RATIO,
          "regress|slower|faster|util|hit|usage"),
    _name(lm.HOST_SHARE, r"schedul|tokeniz|python|\bgil\b|\bcpu\b|hash|serial|process|event loop|look ?up|"
          r"idle gap|host gap|launch|grammar|bitmask", RATIO,
          r"cache|memory|hit|usage|of (the )?cpu|cpu\(s\)|faster|slower"),
    _name(lm.KERNEL_SHARE, r"kernel|attention|gemm|\bmoe\b|expert|dequant|marlin|flash", RATIO,
          "hit|usage|bandwidth|util|faster|slower"),
)  # fmt: skip

_COLLECTIVE = _name(
    lm.NETWORK_TIME, r"all ?reduce|nccl|collective|all ?(to|2) ?all|all ?gather", TIME, r"\bcpu\b"
)
PROFILED: tuple[Name, ...] = (
    _COLLECTIVE,
    _name(lm.HOST_TIME, r"schedul|tokeniz|python|\bcpu\b|hash|serial|preprocess|postprocess|event loop|look ?up|"
          r"\bidle\b|gap between|between (two |the )?(steps|iterations)|launch|bubble|grammar|bitmask|allocat|"
          r"cache ?manager|token producer|chat template|vocab|\b(un)?pickl|zmq|\bipc\b|json|\block\b|mutex",
          TIME, r"memory allocat|cuda ?malloc|cuda ?ipc"),
    _name(lm.GPU_TIME, r"forward|kernel|\bgpu\b|model exec|execute model|run model|graph exec|"
          r"attention|decode step|gemm|matmul", TIME),
)  # fmt: skip
"""Times in rows of a profile."""
LATE: tuple[Name, ...] = (
    _COLLECTIVE,
    _name(lm.HOST_TIME, r"event loop (lag|block\w*|stall\w*|delay)|schedul\w* (time|overhead|latency|step)|tokeniz\w*|"
          r"time (to|for|in|spent (in|on)) (de)?(tokeniz|schedul|preprocess)\w*|"
          r"(image|video|audio|frame|multimodal) (pre ?process|decod)\w*|pre ?process\w*|bitmask|"
          r"grammar (compil|mask)\w*", TIME, r"\binit|start|load|download"),
    _name(lm.GPU_TIME, r"model forward|forward pass|^forward|kernel time|gpu time|model exec|graph replay", TIME),
)  # fmt: skip
"""The same, more narrowly, in any row whose name stands for nothing else."""

UNIT_ALONE: tuple[Name, ...] = (
    _name(lm.SERVED, r"", ("req/s",)),
    _name(
        lm.GENERATION_RATE,
        r"",
        ("tokens/s",),
        r"prompt|input|prefill|\bread|write|\bload|\bstor|retriev|transfer|\bpp\b",
    ),
)
"""What a unit stands for where the name tells only of which run the figure is."""
ASKED: tuple[Name, ...] = (_name(lm.CONCURRENCY, r"max(imum)? (request )?concurrency|^concurrency", PLAIN),)
"""What clients were told to do; an engine says of its own pool how many requests of full length fit at most."""
RATED: tuple[Name, ...] = (_name(lm.LINK_RATED, _LINKS, BYTE_RATE, r"measured|achieved|reached"),)
"""What a sheet says of a link."""
BY_KIND = {
    **dict.fromkeys(lm.PROFILES, PROFILED),
    **dict.fromkeys(("flag", "workload", "benchmark"), ASKED),
    "hardware": RATED,
}
