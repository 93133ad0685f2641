"""Steps, ridges, collectives, tiers, pools and prefill against worked figures."""

from __future__ import annotations

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import collective, kv, pool, prefill, speculation, tiers, weights
from kvdoctor.roofline.hardware import Gpu, gpu_by_name
from kvdoctor.roofline.presets import preset
from kvdoctor.roofline.quantization import reformatted
from kvdoctor.roofline.ridge import ridges
from kvdoctor.roofline.shape import KvStorage, Layout
from kvdoctor.roofline.step import Load, Machine, decode_step, machine_of, step_bytes

H100 = Machine(3350e9, 989e12, 450e9)


@pytest.mark.parametrize(
    ("gpu", "form", "batch"),
    [
        ("H100", "bf16", 295),
        ("H100", "fp8", 295),
        ("H200", "bf16", 206),
        ("A100", "bf16", 153),
        ("4090", "bf16", 164),
    ],
)
def test_the_compute_ridge_of_a_dense_model(gpu: str, form: str, batch: float) -> None:
    # All weights in the format, so that the ridge is peak / (2 * bandwidth) * bytes a weight.
    shape = reformatted(preset("Llama-2-7B"), weights=form, head=form)
    found = ridges(shape, machine_of(gpu_by_name(gpu), shape), batch=1, context=0)
    assert found.compute_batch == pytest.approx(batch, rel=5e-3)


def test_the_compute_ridge_of_a_moe_is_far_higher() -> None:
    shape = preset("DeepSeek-V3")
    machine = machine_of(gpu_by_name("H100"), shape)
    found = ridges(shape, machine, batch=1, context=0, layout=Layout(tp=8))
    assert found.compute_batch is not None
    assert 10 * 295 < found.compute_batch < 32 * 295


def test_kv_overtakes_weights_at_a_batch_and_at_a_context() -> None:
    shape = preset("Llama-3.1-8B")
    found = ridges(shape, H100, batch=32, context=4096)
    read = weights.read_bytes(shape, tokens=1, layout=Layout()).estimate
    assert found.kv_batch == pytest.approx(read / (131072 * 4096), rel=1e-4)
    assert found.kv_context == pytest.approx(read / (131072 * 32), rel=1e-4)


def test_a_model_without_kv_has_no_kv_ridge() -> None:
    from kvdoctor.roofline.config import shape_from_config

    config = {
        "model_type": "mamba",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "vocab_size": 10,
        "state_size": 4,
    }
    found = ridges(shape_from_config(config), H100, batch=1, context=4096)
    assert (found.kv_batch, found.kv_context) == (None, None)


@pytest.mark.parametrize(
    ("batch", "context", "limit"), [(1, 1024, "weights"), (64, 32768, "kv"), (600, 64, "compute")]
)
def test_the_limit_moves_with_batch_and_context(batch: float, context: float, limit: str) -> None:
    assert decode_step(preset("Llama-3.1-8B"), H100, Load(batch, context)).limit == limit


@pytest.mark.parametrize(
    ("name", "gpus", "rate", "measured_ms", "context"),
    [
        ("DeepSeek-R1", 8, 8000e9, 9.16, 821),
        ("Qwen3-235B-A22B", 8, 8000e9, 10.1, 821),
        ("GLM-4.6", 8, 8000e9, 14.8, 821),
        ("Llama-3.1-70B", 8, 2039e9, 18.6, 821),
        ("Qwen3-Next-80B-A3B", 2, 8000e9, 6.2, 821),
    ],
)
def test_single_stream_measurements_lie_in_the_expected_range(
    name: str, gpus: int, rate: float, measured_ms: float, context: float
) -> None:
    step = decode_step(preset(name), Machine(rate), Load(1, context), Layout(tp=gpus))
    fast, slow = step.seconds_expected
    assert step.seconds_floor < fast <= measured_ms / 1e3 <= slow


def test_a_step_of_nothing_is_refused() -> None:
    for machine, load in ((H100, Load(0, 1)), (Machine(0), Load(1, 1)), (H100, Load(1, -1))):
        with pytest.raises(KvdoctorError):
            decode_step(preset("Llama-3.1-8B"), machine, load)


def test_a_ring_carries_less_and_one_shot_waits_less() -> None:
    message = collective.message_bytes(preset("Llama-3.1-70B"), 32)
    assert message == 512 * 1024
    ring = collective.all_reduce_seconds(message, ranks=8, link=450e9)
    assert ring == pytest.approx(2 * 7 / 8 * message / 450e9)
    assert collective.all_reduce_seconds(message, ranks=8, link=25e9) == pytest.approx(37e-6, rel=0.02)
    assert collective.all_reduce_seconds(1024, ranks=8, link=450e9, alpha=5e-6) == pytest.approx(
        5e-6, rel=0.01
    )
    assert collective.all_reduce_count(preset("Llama-3.1-70B")) == 160


def test_dp_attention_replaces_all_reduces_by_dispatch() -> None:
    shape, layout = preset("DeepSeek-V3"), Layout(tp=8, dp_attention=8)
    assert collective.tp_seconds(shape, tokens=4, layout=layout, link=450e9) == 0
    sent = 4 * 58 * 8 * 7168 * 3 * 7 / 8
    assert collective.ep_seconds(shape, tokens=4, layout=layout, link=450e9) == pytest.approx(sent / 450e9)


@pytest.mark.parametrize(
    ("name", "gpu", "gpus", "gb_s"),
    [
        ("Llama-3.1-8B", "H100", 1, 4.6),
        ("Llama-2-7B", "H100", 1, 20.0),
        ("Llama-3.1-70B", "H100", 8, 9.5),
        ("DeepSeek-R1", "H800", 8, 7.8),
    ],
)
def test_break_even_bandwidths(name: str, gpu: str, gpus: int, gb_s: float) -> None:
    shape = preset(name)
    peak = machine_of(gpu_by_name(gpu), shape).peak
    assert peak
    rate = tiers.break_even_rate(shape, layout=Layout(tp=gpus), peak=peak, efficiency=0.5)
    assert rate / 1e9 == pytest.approx(gb_s, rel=0.01)


def test_a_fast_tier_always_wins_a_slow_one_only_for_long_prefixes() -> None:
    shape = preset("Llama-2-7B")
    found = {
        tier.name: tiers.fetch_or_compute(shape, tier, tokens=8192, peak=989e12, efficiency=0.5)
        for tier in tiers.TIERS
    }
    assert found["CPU memory over PCIe 4.0 x16"].break_even_tokens == 0
    slow = found["network, 10 Gbps"]
    assert slow.break_even_tokens is not None
    assert slow.break_even_tokens > 100_000
    assert slow.fetch_seconds > slow.recompute_seconds
    assert slow.break_even_bytes_per_s == pytest.approx(slow.bytes / slow.recompute_seconds, rel=0.01)


def test_tp_splits_a_fetch_over_links_unless_the_cache_is_a_latent() -> None:
    for name, share in (("Llama-3.1-70B", 8), ("DeepSeek-V3", 1)):
        one, many = (
            tiers.fetched_bytes(
                preset(name), tokens=4096, layout=Layout(tp=tp), storage=KvStorage(), per_rank=True
            )
            for tp in (1, 8)
        )
        assert one / many == share


def test_prefill_flops_and_the_length_where_attention_overtakes() -> None:
    shape = preset("Llama-3.1-8B")
    linear = 2 * prefill.linear_params(shape, head=False)
    head = 2 * 4096 * 128256
    n = 53_251
    attention = prefill.flops(shape, new=n) - linear * n - head
    assert attention == pytest.approx(4 * 32 * 128 * 32 * n * n / 2)
    assert attention == pytest.approx(linear * n, rel=1e-3)


def test_pairs_of_a_window_are_those_of_its_tokens() -> None:
    for new, cached, span in ((10, 0, 4), (10, 3, 4), (3, 10, 4), (5, 2, 20), (7, 0, 0)):
        exact = sum(min(cached + i + 0.5, span or 1e9) for i in range(new))
        assert prefill.pairs(new, cached, span) == pytest.approx(exact, abs=1.0)


def test_a_hit_prefills_faster_and_a_chunk_reads_the_weights_again() -> None:
    shape = preset("Llama-3.1-8B")
    common = {"layout": Layout(), "bandwidth": 3350e9, "peak": 989e12}
    miss = prefill.floor(shape, new=8192, cached=0, **common)  # type: ignore[arg-type]
    hit = prefill.floor(shape, new=192, cached=8000, **common)  # type: ignore[arg-type]
    chunked = prefill.floor(shape, new=8192, cached=0, chunk=512, **common)  # type: ignore[arg-type]
    assert hit.seconds < miss.seconds
    assert chunked.read_seconds > 10 * miss.read_seconds


def test_accepted_tokens_of_a_rate() -> None:
    assert speculation.accepted_tokens(0.5, 3) == 1.875
    assert speculation.accepted_tokens(1, 3) == 4
    with pytest.raises(KvdoctorError):
        speculation.accepted_tokens(1.5, 3)


def test_speculation_can_lose_for_a_moe_and_past_the_ridge() -> None:
    moe = speculation.speculate(
        preset("Qwen3-235B-A22B"),
        Machine(3350e9, 989e12),
        Load(4, 1024),
        drafted=4,
        accepted=1.5,
        layout=Layout(tp=8),
    )
    assert moe.gain < 1
    dense = speculation.speculate(preset("Llama-3.1-8B"), H100, Load(512, 128), drafted=4, accepted=2.0)
    assert dense.gain < 1


def test_the_draft_layer_of_a_checkpoint_costs_its_bytes() -> None:
    size = speculation.draft_step_bytes(preset("DeepSeek-V3"), layout=Layout(tp=8))
    assert 0.1e9 < size < 1e9
    assert speculation.draft_step_bytes(preset("Llama-3.1-8B"), layout=Layout()) == 0


def test_windows_as_engines_keep_them() -> None:
    shape = preset("gpt-oss-120b")
    cache = next(layer.cache for layer in shape.layers if layer.cache and layer.cache.reach == "window")
    kept = {
        policy: kv.kept_tokens(cache, 131072, KvStorage(windows=policy, in_flight=1024))  # type: ignore[arg-type]
        for policy in ("exact", "vllm", "llamacpp", "full")
    }
    assert kept == {"exact": 128, "vllm": 1152, "llamacpp": 1280, "full": 131072}


def test_a_padded_latent_has_640_values_and_one_kept_twice_1088() -> None:
    shape = preset("DeepSeek-R1")
    sizes = [
        kv.growth_bytes(shape, layout=Layout(), storage=KvStorage(latent=layout)) / 61 / 2
        for layout in ("plain", "padded", "both")
    ]
    assert sizes == [576, 640, 1088]


def test_fp8_ds_mla_is_for_mla() -> None:
    with pytest.raises(KvdoctorError, match="MLA"):
        kv.growth_bytes(preset("Llama-3.1-8B"), layout=Layout(), storage=KvStorage(dtype="fp8_ds_mla"))


def test_pools_of_the_two_engines() -> None:
    assert pool.pool_bytes(80, utilization=0.9, weights=16, other=2) == 54
    assert pool.pool_bytes(80, utilization=0.9, weights=16, static=False) == pytest.approx(57.6)
    assert pool.pool_bytes(80, utilization=0.9, weights=100) == 0
    with pytest.raises(KvdoctorError):
        pool.fit(preset("Llama-3.1-8B"), pool_bytes=1e9, context=0, layout=Layout())


def test_the_longest_sequence_fills_the_pool_in_whole_blocks() -> None:
    shape, layout = preset("gemma-3-27b"), Layout()
    longest = pool.longest_sequence(shape, pool_bytes=8e9, layout=layout)
    assert longest % 16 == 0
    held = [
        kv.sequence_bytes(shape, tokens=n, layout=layout, whole_blocks=True) for n in (longest, longest + 16)
    ]
    assert held[0] <= 8e9 < held[1]
    assert pool.longest_sequence(shape, pool_bytes=10, layout=layout) == 0


@pytest.mark.parametrize("layers", [1, 7, 32, 61, 80])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_stages_hold_every_layer_once(layers: int, stages: int) -> None:
    assert sum(weights.stage_sizes(layers, stages)) == layers


def test_dp_attention_holds_all_attention_weights_and_a_share_of_the_sequences() -> None:
    shape, load = preset("DeepSeek-V3"), Load(64, 2048)
    shared, own = step_bytes(shape, load, Layout(tp=8)), step_bytes(shape, load, Layout(tp=8, dp_attention=8))
    assert own.kv == shared.kv / 8
    assert own.weights > shared.weights


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("h100 sxm", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("H100 PCIe", "NVIDIA H100 PCIe"),
        ("A100-80GB", "NVIDIA A100-SXM4-80GB"),
        ("a100 40gb", "NVIDIA A100-SXM4-40GB"),
        ("4090", "NVIDIA GeForce RTX 4090"),
        ("rtx 5090", "NVIDIA GeForce RTX 5090"),
        ("MI300X", "AMD Instinct MI300X"),
        ("mi355x", "AMD Instinct MI355X"),
        ("M2 Ultra", "Apple M2 Ultra"),
        ("DGX Spark", "NVIDIA GB10"),
        ("L40S", "NVIDIA L40S"),
        ("L4", "NVIDIA L4"),
    ],
)
def test_cards_by_the_names_that_people_write(name: str, card: str) -> None:
    assert gpu_by_name(name).name == card


def test_a_name_of_several_cards_gives_a_default_and_says_so() -> None:
    assert "SXM" in gpu_by_name("H100").warning
    assert "SXM" in gpu_by_name("A100").warning
    assert gpu_by_name("H200").warning == ""


def test_an_unknown_card_and_one_without_bandwidth_are_refused() -> None:
    with pytest.raises(KvdoctorError):
        gpu_by_name("zork 9000")
    with pytest.raises(KvdoctorError, match="bandwidth"):
        gpu_by_name("NVIDIA L20").bandwidth()


def test_arithmetic_that_a_card_lacks_runs_at_the_next_wider_peak() -> None:
    a100, b200 = gpu_by_name("A100"), gpu_by_name("B200")
    assert (a100.peak_flops("fp8"), a100.peak_flops("int8")) == (312e12, 624e12)
    assert (b200.peak_flops("fp4"), b200.peak_flops("bf16")) == (9000e12, 2250e12)
    bare = Gpu("x", "y", None, 1.0, None, None, None, None, None)
    assert bare.peak_flops("bf16") is None
