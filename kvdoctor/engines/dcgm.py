"""dcgm-exporter: the cards' counters, for the host that its cards are in."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Era, Select, any_of

_PERCENT = 0.01
_BLANK = 2.0**62
"""DCGM writes what a card does not support as numbers near 2^63."""

# PROF families are 0..1 although older help texts say percent; GPU_UTIL is 0..100 also under its name in _RATIO.
ENGINE = Engine(
    name="dcgm",
    prefixes=("DCGM_FI_",),
    signals={
        m.DRAM_ACTIVE: any_of("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO"),
        m.SM_ACTIVE: any_of("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO"),
        m.SM_OCCUPANCY: any_of("DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO"),
        m.TENSOR_ACTIVE: any_of("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO"),
        m.ENGINE_ACTIVE: (
            (Select("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),),
            (Select("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),),
            (Select("DCGM_FI_DEV_GPU_UTIL", scale=_PERCENT),),
            (Select("DCGM_FI_DEV_GPU_UTIL_RATIO", scale=_PERCENT),),
        ),
        m.GPU_PCIE_OUT: any_of("DCGM_FI_PROF_PCIE_TX_BYTES"),
        m.GPU_PCIE_IN: any_of("DCGM_FI_PROF_PCIE_RX_BYTES"),
        m.GPU_NVLINK_OUT: any_of("DCGM_FI_PROF_NVLINK_TX_BYTES"),
        m.GPU_NVLINK_IN: any_of("DCGM_FI_PROF_NVLINK_RX_BYTES"),
        m.GPU_LINK_ERRORS: any_of("DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
    },
    eras=(Era("DCGM_FI_DEV_GPU_UTIL_RATIO", since="4.6"),),
    default_port=9400,
    layer=True,
    parts=("GPU_I_PROFILE", "GPU_I_ID"),
    blank_above=_BLANK,
    gauge_period=30.0,
)
