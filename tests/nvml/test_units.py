"""One quantity, three spellings: GPM's 0..100 and MiB/s, DCGM's 0..1 and bytes/s, NVML's KB/s are one number here."""

from __future__ import annotations

import pytest
from loads import Page
from nvml import scenes
from nvml.reading import recorded

from kvdoctor import metrics as m
from kvdoctor.engines.dcgm import ENGINE as DCGM
from kvdoctor.engines.host import ENGINE as HOST
from kvdoctor.timeline import Timeline

OLD = {m.DRAM_ACTIVE: "DRAM_ACTIVE", m.SM_ACTIVE: "SM_ACTIVE", m.TENSOR_ACTIVE: "PIPE_TENSOR_ACTIVE",
       m.ENGINE_ACTIVE: "GR_ENGINE_ACTIVE", m.SM_OCCUPANCY: "SM_OCCUPANCY"}  # fmt: skip
NEW = {m.DRAM_ACTIVE: "DRAM_UTIL_RATIO", m.SM_ACTIVE: "SM_UTIL_RATIO", m.TENSOR_ACTIVE: "TENSOR_UTIL_RATIO",
       m.ENGINE_ACTIVE: "GR_ENGINE_UTIL_RATIO", m.SM_OCCUPANCY: "SM_OCCUPANCY_RATIO"}  # fmt: skip
SHARES = {
    m.DRAM_ACTIVE: 0.80,
    m.SM_ACTIVE: 0.96,
    m.TENSOR_ACTIVE: 0.05,
    m.ENGINE_ACTIVE: 0.99,
    m.SM_OCCUPANCY: 0.3,
}
"""What `scenes.BANDWIDTH_BOUND` plays."""


def exported(**families):
    page = Page(3.0, 4, "http://127.0.0.1:9400/metrics", {"gpu": "0", "UUID": "GPU-00000000"})
    for name, value in families.items():
        page.series(f"DCGM_FI_PROF_{name}", value)
    return Timeline(page.source(), DCGM, 0, 3)


@pytest.fixture
def sampled(watch, stage):
    """What the host's source says of a card that plays these lines."""

    def run(*lines):
        return Timeline(recorded(watch(*lines), stage, 3), HOST, 0, 3)

    return run


def last(timeline, quantity):
    gauge = timeline.gauge(quantity)
    assert gauge is not None
    return gauge.last


@pytest.mark.parametrize("spelling", [OLD, NEW], ids=["old names", "names of DCGM 4.6"])
def test_shares_of_gpm_and_of_both_generations_of_dcgm_agree(sampled, spelling):
    gpm = sampled()
    dcgm = exported(**{spelling[quantity]: share for quantity, share in SHARES.items()})
    for quantity, share in SHARES.items():
        assert last(gpm, quantity) == pytest.approx(share)
        assert last(dcgm, quantity) == pytest.approx(share)


def test_pcie_and_nvlink_rates_agree_and_keep_their_directions(sampled):
    gpm = sampled("0 gpm.20 0 1000", "0 gpm.21 0 2000", "0 gpm.60 0 3000", "0 gpm.61 0 4000")
    mib = 2.0**20
    dcgm = exported(
        PCIE_TX_BYTES=1000 * mib, PCIE_RX_BYTES=2000 * mib, NVLINK_RX_BYTES=3000 * mib, NVLINK_TX_BYTES=4000 * mib
    )  # fmt: skip
    for quantity in (m.GPU_PCIE_OUT, m.GPU_PCIE_IN, m.GPU_NVLINK_IN, m.GPU_NVLINK_OUT):
        assert last(gpm, quantity) == last(dcgm, quantity)


def test_nvmls_windows_and_totals_are_bytes_too(sampled):
    lines = ("0 pcie.receive 0 2e9", "0 pcie.transmit 0 1e9", "0 rate.198 0 2e9", "0 field.198 0 !3")
    old = sampled(*scenes.BEFORE_HOPPER, *lines)
    assert last(old, m.GPU_LINK_RATE) == pytest.approx(3e9)  # both directions, each its own series
    assert old.series(m.GPU_PCIE_BYTES)[-1] == (3.0, 6e9)
