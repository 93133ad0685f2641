"""Lines of KV layers: LMCache's loads and stores, NIXL's and Mooncake's transfers, UCX's choice of transport."""

from __future__ import annotations

from kvdoctor import logmetrics as lm
from kvdoctor.readers.logs.line import GIB, MIB, MS, Line, event, number, said

_COST = rb"cost:? "

LINES = (
    Line(
        "lmcache",
        b"LMCache hit tokens",
        (
            number(lm.TIER_TOTAL, rb"Total tokens:? "),
            number(lm.TIER_HIT, rb"LMCache hit tokens: "),
            number(lm.TIER_NEED, rb"need to load: "),
        ),
    ),
    Line(
        "lmcache",
        b"Retrieved ",
        (
            number(lm.LOADED, rb"Retrieved "),
            number(lm.LOAD_TIME, _COST, rb" ms", MS),
            number(lm.LOAD_RATE, rb"throughput:? ", rb" GB/s", GIB),
        ),
        needs=b" out of ",
    ),
    Line(
        "lmcache",
        b"Stored ",
        (
            number(lm.STORED, rb"Stored "),
            number(lm.STORE_TIME, _COST, rb" ms", MS),
            number(lm.STORE_RATE, rb"throughput:? ", rb" GB/s", GIB),
        ),
        needs=b" out of ",
    ),
    # Up to 0.2, and from the blender: chunks, their tokens behind them, and seconds.
    Line(
        "lmcache",
        b" chunks (",
        (
            number(lm.LOADED, rb"chunks \(", rb" tokens in total\)"),
            number(lm.LOAD_TIME, rb"elapsed time:? "),
        ),
        needs=b"Retrieved ",
    ),
    Line("lmcache", b"Failed to allocate memory", (event(lm.TIER_FULL),), needs=b"no memory is available"),
    Line("lmcache", b"skip_leading_tokens=", (number(lm.SKIPPED, rb"skip_leading_tokens="),)),
    Line("nixl", b"Time to init xfer", (number(lm.TRANSFER_SETUP, rb"init xfer: ", rb" ms", MS),)),
    Line("nixl", b"Total time for write", (number(lm.TRANSFER_TIME, rb"for write: ", rb" ms", MS),)),
    Line("nixl", b"Total time for read", (number(lm.TRANSFER_TIME, rb"for read: ", rb" ms", MS),)),
    # UCX prints its lanes; `rma` carries bulk reads and writes. See nixl's and UCX's own words.
    Line("ucx", b" rma", (said(lm.TCP, rb"\brma(?:_am|_bw)?\(tcp/"),), needs=b"cfg#"),
    Line("ucx", b"get zcopy disabled", (event(lm.FAST_PATH_OFF),)),
    # Mooncake's own benchmark, in GB/s whether it says so or not.
    Line("mooncake", b"Test completed: duration", (number(lm.TRANSFER_RATE, rb"throughput ", scale=1e9),)),
    Line(
        "mooncake",
        b"Transfer Engine Stats",
        (number(lm.TRANSFER_RATE, rb"Throughput: ", rb" MB/s", MIB),),
    ),
)
