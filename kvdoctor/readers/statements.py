"""What reports say in words: what is the slowest, who blocks whom, that nothing is asked, where weights lie."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.quantity import Quantity
from kvdoctor.readers.rows import normal

MAX_WORDS = 400
"""Characters of a row in which such words are looked for."""
_SETTINGS = ("flag", "config", "env", "hardware", "os", "model")
_PART = re.compile(
    r"\b(\d{1,2}(?:\.\d{1,3})?) ?(?:%|percent) (?:of )?(?:the |all |total |each |a |own |self )?"
    r"(?:samples|time|step|wall|cpu time|gpu time|trace|profile|decode step|iteration)"
)
MUCH = 40.0
"""Percent of a profile from which one function is most of what can be changed."""
_COUNTING = ("log", "metric", "benchmark", "nvml", *lm.PROFILES)
"""Kinds of rows that count who waits, and do not say why."""
_GUESS = re.compile(
    r"\b(guess\w*|suspect\w*|suspicion|hypothes\w*|theory|theories|speculat\w* (that|about)|maybe|might|may|could|"
    r"would|probably|perhaps|possibly|unclear|if|expected|ruled out|first (idea|thought)|"
    r"in (general|theory|principle)|generally|typically|usually)\b"
)
"""Words of a guess, or of what is denied."""
_DENIED = re.compile(r"\b(no|not|never|without|none|nothing|isn't|wasn't|longer|false)\b")
_SLOWEST = re.compile(
    r"\b(bottle ?necks?|hot ?spots?|hottest|slowest|dominant|top (frame|function|kernel|entry|symbol|stack)|"
    r"most (of the )?(time|samples)|(time|samples) (is|are|was|were) spent|dominated by|dominates|limiting factor|"
    r"culprit|bottlenecked)\b"
)
_SEEN = re.compile(
    r"\b(profil\w*|trac(e|es|ed|ing)|py spy|nsys|nsight|flame ?graphs?|perf|stacks?|timed|measured)\b"
)
"""How a user knows; a bare opinion of users is often wrong."""
_WHERE = re.compile(
    r"\b(samples|where (the )?time (goes|is spent)|(main )?(thread|process) (is|sits|spends)( \w+)? in|self time|"
    r"(stacks?|frames?|threads?) (show\w*|in|at|of)|spends)\b"
)
"""Names of a profile's rows whose value is a place in the code."""
_NOTHING_ASKED = re.compile(
    r"\b(without|no|zero) (any |a single )?(inference|requests?|traffic|load|prompts?|clients?|calls?|queries)\b"
    r"|\b(while|when|at) idle\b|\b(idle|idling) (server|engine|service|instance)\b"
)
_ASKED = re.compile(r"\b(inference|requests?|traffic|load|prompts?|clients?|calls?|queries)\b")
_OTHER_COUNTS = re.compile(
    r"\b(wait\w*|queue\w*|running|fail\w*|errors?|timed|preempt\w*|pending|unfinished|dropped|swapped|hits?|completed|"
    r"rejected|cache\w*|aborted|shared?|images?|rate)\b"
)
_NONE = re.compile(r"^(none|no|nothing|0|zero|never|idle)\b(?! \w)(?!\.\d)")
_HANGS = re.compile(
    r"\b(hangs?|hung|hanging|stuck|dead ?locks?|no response|unresponsive|never (returns?|answers?|ends?))\b"
)
_PREFILL = re.compile(r"\b(prefill\w*|prompts? (process\w*|eval\w*|comput\w*)|long prompts?)\b")
_DECODES = re.compile(
    r"\b(generations?|generating|decod\w*|(running|other|active|ongoing|in flight) (requests?|sequences|streams?)|"
    r"tokens? (stream\w*|output)|streams?|streaming)\b"
)
_HELD = r"(blocks?|blocked|blocking|stalls?|stalled|pauses?|paused|freezes?|frozen|froze|halts?|halted|stops?|stopped)"
_STOPPED = re.compile(rf"\b{_HELD}\b")
_LOADS = re.compile(
    r"\b(loads?|loading|loaded|fetch\w*|retriev\w*|restor\w*|onboard\w*|prefetch\w*|swap ins?|reload\w*|reads)\b"
)
_SERIAL = re.compile(
    r"\b(one (at a time|by one|after (the |an)?other)|seriali[sz]\w*|serially|sequential(ly)?|convoy\w*|in turn|"
    r"head of line|(behind|after) (each|one) (other|another)|single threaded)\b"
)
_WEIGHTS = re.compile(
    r"\b(weights?|layers|experts?|parameters)\b.{0,60}\b(on|in|to|from|into)( the)? "
    r"(cpu|host|system|main|pinned|unified|d?ram|disk|ssd|nvme)\b"
    r"|\bcpu offload( \w+)?\b.{0,20}\b(gb|percent|ratio)|\bn cpu moe\b|\bcpu moe\b|\bweights? (off ?load|stream)\w*"
)
_OTHER_USE = re.compile(
    r"\b(load(ing)? time|start ?up|checkpoint|download\w*|cold start|kv|cache|"
    r"stored|loaded (in|at|within)|at start\w*)\b"
)
_RESERVES = re.compile(
    r"\bguaranteed no evict\b|\bworst case\b|\b(reserv\w*|pre ?allocat\w*|set aside)\b.{0,60}\b(max|full|longest|"
    r"completion|whole)\b|\b(big|large|high|huge|long|generous) max (output |new |completion )?tokens\b"
)
_OTHERS_HELD = re.compile(
    r"\b(requests?|sequences?|users?|others?|clients?)\b.{0,40}\b(blocked|wait|waits|waiting|held|queued?|"
    r"not scheduled|refused|seriali[sz]ed|rejected|starv\w*)\b"
)
_PREEMPTED = re.compile(
    r"\b(requests?|sequences?|seqs?)\b.{0,20}\b(are|were|is|was|get|gets|got|being|keep being|constantly) "
    r"(\w+ )?(preempted|retracted|evicted and recomputed)\b"
)
_AGAIN = re.compile(
    r"\b(unnecessar\w*|redundant\w*|needless\w*|wasted|duplicate) (re ?)?(prefill\w*|(re)?comput\w*|process\w*)\b"
    r"|\b(re ?)?(prefill\w*|comput\w*|process\w*) (again|anew|a second time|twice)\b.{0,40}\balready\b"
)
_NO_PEER = re.compile(
    r"\bno (common )?(pcie |peer )?(bridge|switch|p2p|peer to peer|peer access|nvlinks?)\b"
    r"|\b(connected|attached|goes|routed) (\w+ )?(to|through|via|over) (the )?"
    r"(cpu|root complex|host bridge|qpi|upi) only\b"
    r"|\bonly (through|via|over) (the )?(cpu|root complex|host bridge|qpi|upi)\b"
    r"|\bsoftware emulation\b|\bemulated\b|\bstaged through (the )?host\b|\bbounce buffers?\b"
)
_SEVERAL_CARDS = re.compile(
    r"\b(both|two|all|each of the|four|eight|[2-8]) (gpus|cards|devices)\b|\bx ?[2-9]\b"
)
_NO_HITS = re.compile(r"^(none|no hits?|never|zero|no|nothing)\b")


def statements(kind: str, name: str, value: str) -> Iterable[tuple[Quantity, float]]:
    """Return what a row says in words: `name` in lower case with blanks between its words, `value` as written."""
    name = re.sub(r"\breqs\b", "requests", name)
    words = re.sub(r"\breqs\b", "requests", normal(value[:MAX_WORDS]))
    told = f"{name} {words}"[:MAX_WORDS]
    if kind == "maintainer" or kind == "user" or kind == "statement":
        told = "" if _GUESS.search(told) else told
    yield from _places(kind, name, words, told)
    if _idle(kind, name, words, told):
        yield lm.NOTHING_ASKED, 1.0
    if not told or kind in _SETTINGS:
        return
    part = _PART.search(words) if kind in lm.PROFILES else None
    most = part is not None and float(part[1]) >= MUCH
    placed = kind in lm.PROFILES and _WHERE.search(name) and re.match(r"[a-z]{2}", words)
    seen = kind not in ("user", "client") or _SEEN.search(told)
    if (most or placed or (seen and _SLOWEST.search(told))) and not _DENIED.search(told):
        yield lm.SLOWEST, 1.0
    yield from _held(kind, name, words, told)


def _places(kind: str, name: str, words: str, told: str) -> Iterable[tuple[Quantity, float]]:
    """Where weights lie, and how cards are joined."""
    zero = _NONE.match(words) or words in ("false", "off", "0.0", "default", "unset", "not set")
    if _WEIGHTS.search(told) and not zero and not _OTHER_USE.search(told) and not _DENIED.search(told):
        yield lm.WEIGHTS_OUTSIDE, 1.0
    shut = "p2p disable" in name and words in ("1", "true", "yes", "set", "on")
    if shut or (kind != "model" and _NO_PEER.search(told)):
        yield lm.FAST_PATH_OFF, 1.0
    if kind in ("hardware", "nvml") and "gpu" in name and _SEVERAL_CARDS.search(told):
        yield lm.CARDS, 2.0


def _idle(kind: str, name: str, words: str, told: str) -> bool:
    """Say whether a row says that nothing is asked of the engine."""
    if _HANGS.search(told):
        return False
    if kind in ("process", "os", "nvml", "hardware") and _NOTHING_ASKED.search(name):
        return True
    asked = kind in ("workload", "statement", "client", "user") and _ASKED.search(name)
    return bool(asked) and not _OTHER_COUNTS.search(name) and bool(_NONE.match(words))


def _held(kind: str, name: str, words: str, told: str) -> Iterable[tuple[Quantity, float]]:
    """Who is held by what."""
    if _PREFILL.search(told) and _DECODES.search(told) and _STOPPED.search(told) and not _DENIED.search(told):
        yield lm.PREFILL_BLOCKS, 1.0
    if _LOADS.search(told) and _SERIAL.search(told) and not _OTHER_USE.search(told):
        yield lm.SERIAL_LOADS, 1.0
    if _RESERVES.search(told):
        yield lm.RESERVES, 1.0
    if kind not in _COUNTING and _OTHERS_HELD.search(told) and not _DENIED.search(told):
        yield lm.OTHERS_HELD, 1.0
    if kind != "log" and _PREEMPTED.search(told) and not _DENIED.search(told):
        yield m.PREEMPTIONS, 1.0
    if _AGAIN.search(told) and not _DENIED.search(told):
        yield lm.COMPUTED_AGAIN, 1.0
    if re.search(r"\b(prefix|kv)? ?cache hits?\b", name) and _NO_HITS.match(words):
        yield m.HITS_RATE_GAUGE, 0.0
