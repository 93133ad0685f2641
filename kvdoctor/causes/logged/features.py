"""What runs of a report may differ in, and which bound each of it speaks for."""

from __future__ import annotations

import re

from kvdoctor.model import Bound

REMOTE = re.compile(r"redis|remote|mooncake|nixl|p2p|peer|s3\b|rdma|network|tcp|valkey")
TIER = re.compile(
    r"lmcache|offload|hicache|hierarchical cache|kvbm|\bl[23]\b|swap|\btier|\bssd|disk|nvme|"
    r"\bnfs\b|lustre|\bceph|object store|host cache|kv connector|" + REMOTE.pattern
)
FEATURES: tuple[tuple[str, Bound, str | None, bool], ...] = (
    (r"tokeniz", Bound.HOST, "tokenizer", True),
    (r"\b(two|2|multi|several|separate) ?(node|machine|server|host)s?\b|disaggregat|cross node|inter node|"
     r"prefill and decode on", Bound.NETWORK, "handover", True),
    (r"rdma|\bib\b|infiniband|nvlink|\btcp\b|nccl|\bp2p\b|\bucx", Bound.NETWORK, "used_badly", False),
    (r"\b\d{1,3} ?gbe\b|\bethernet|\bwi ?fi\b|thunderbolt|\brpc\b", Bound.NETWORK, "slow_link", True),
    (r"tensor parallel", Bound.NETWORK, "tensor_parallel", True),
    (TIER.pattern, Bound.OFFLOAD, "slow_tier", True),
    (r"max num seqs|max (running|concurrent) req|max batch size|n(um)? parallel|max loras|(parallel|lora) slots",
     Bound.QUEUEING, "admission_limit", False),
    (r"overlap schedul|async schedul|scheduler|api server|\bgil\b|numa|\bcpus?\b|threads", Bound.HOST, "scheduler",
     False),
    (r"grammar|structured|guided|json|constrained|logits? processor|penalt|logprob", Bound.HOST, "structured_output",
     True),
    (r"max utili[sz]ation|no evict|watermark|gpu memory utili[sz]ation|mem(ory)? fraction|kv cache (size|dtype)",
     Bound.CAPACITY, "preemption", False),
    (r"cuda graph|eager", Bound.HOST, "launch_bound", False),
    (r"chunk|batched tokens|prefill", Bound.COMPUTE, "interference", False),
    (r"\bmtp\b|\bspec\b|speculat|draft|eagle", Bound.COMPUTE, "speculation", True),
    (r"\b(attention|attn|decode|prefill|moe|gemm|mla|sampling) backends?\b|\bkernels?\b|"
     r"flash ?infer|flash ?attn|flash ?attention|\bfa[23]\b|triton|marlin|cutlass|xformers|"
     r"sdpa", Bound.COMPUTE, None, False),
)  # fmt: skip
"""What runs may differ in, which bound it speaks for, and whether it does so only where it makes things worse."""


def feature_of(text: str) -> tuple[Bound, str | None] | None:
    """Name what a text speaks of changing; None for nothing known."""
    for pattern, bound, subclass, _ in FEATURES:
        if re.search(pattern, text):
            return bound, subclass
    return None
