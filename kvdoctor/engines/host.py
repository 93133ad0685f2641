"""The host: what our own collectors write, as an adapter like any engine's."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, any_of, labelled

_PROCESS = {
    m.HOST_PROCESS_THREADS: any_of("host_process_threads"),
    m.HOST_RESIDENT: any_of("host_process_resident_bytes"),
    m.HOST_SWAPPED: any_of("host_process_swap_bytes"),
    m.HOST_NODE: any_of("host_process_node"),
    m.HOST_FAULTS: any_of("host_process_major_faults"),
    m.HOST_READ: any_of("host_process_io_read_bytes"),
    m.HOST_WRITTEN: any_of("host_process_io_write_bytes"),
    m.HOST_ASKED: any_of("host_process_io_asked_bytes"),
    m.HOST_THREAD_CPU: any_of("host_thread_cpu_seconds"),
    m.HOST_THREAD_WAIT: any_of("host_thread_wait_seconds"),
    m.HOST_VOLUNTARY: ((labelled("host_thread_switches", kind="voluntary"),),),
    m.HOST_INVOLUNTARY: ((labelled("host_thread_switches", kind="involuntary"),),),
    m.HOST_THREAD_STATE: any_of("host_thread_state_samples"),
    m.HOST_DUMPS: any_of("host_stack_dumps"),
    m.HOST_STACKS: any_of("host_stack_samples"),
    m.HOST_GAP: any_of("host_gap"),
}

_AROUND = {
    m.HOST_QUOTA: any_of("host_cgroup_quota_cpus"),
    m.HOST_PERIODS: any_of("host_cgroup_periods"),
    m.HOST_THROTTLED_PERIODS: any_of("host_cgroup_throttled_periods"),
    m.HOST_THROTTLED: any_of("host_cgroup_throttled_seconds"),
    m.HOST_CGROUP_MEMORY: any_of("host_cgroup_memory_bytes"),
    m.HOST_CGROUP_LIMIT: any_of("host_cgroup_memory_limit_bytes"),
    m.HOST_CGROUP_LIMIT_HITS: any_of("host_cgroup_memory_limit_hits"),
    m.HOST_OOM_KILLS: any_of("host_cgroup_oom_kills"),
    m.HOST_CGROUP_PRESSURE: any_of("host_cgroup_pressure_seconds"),
    m.HOST_PRESSURE: any_of("host_machine_pressure_seconds"),
    m.HOST_CPUS: any_of("host_machine_cpus"),
    m.HOST_CPU: any_of("host_machine_cpu_seconds"),
    m.HOST_SWAP_IN: any_of("host_machine_swap_in_pages"),
    m.HOST_MOUNT: any_of("host_mount"),
    m.HOST_DISK_BYTES: any_of("host_disk_bytes"),
    m.HOST_DISK_OPERATIONS: any_of("host_disk_operations"),
    m.HOST_DISK_IN_FLIGHT: any_of("host_disk_in_flight_seconds"),
    m.HOST_DISK_BUSY: any_of("host_disk_busy_seconds"),
    m.HOST_NETWORK_BYTES: any_of("host_network_bytes"),
    m.HOST_NETWORK_DROPS: any_of("host_network_drops"),
    m.HOST_NETWORK_SPEED: any_of("host_network_speed_bytes"),
    m.HOST_TCP_SEGMENTS: any_of("host_tcp_segments"),
    m.HOST_TCP_RETRANSMITS: any_of("host_tcp_retransmits"),
    m.HOST_INFINIBAND_BYTES: any_of("host_infiniband_bytes"),
    m.HOST_INFINIBAND_SPEED: any_of("host_infiniband_speed_bytes"),
}

_CARDS = {
    m.GPU_INFO: any_of("host_gpu_info"),
    m.GPU_NODE: any_of("host_gpu_node"),
    m.GPU_MISSING: any_of("host_gpu_missing"),
    m.GPU_SETTING: any_of("host_gpu_setting"),
    m.GPU_OCCUPANCY: any_of("host_gpu_time_occupancy_ratio"),
    m.GPU_MEMORY_OCCUPANCY: any_of("host_gpu_memory_time_occupancy_ratio"),
    m.GPU_MEMORY_USED: any_of("host_gpu_memory_used_bytes"),
    m.GPU_MEMORY: any_of("host_gpu_memory_bytes"),
    m.GPU_CLOCK: any_of("host_gpu_clock_hertz"),
    m.GPU_CLOCK_LIMIT: any_of("host_gpu_clock_limit_hertz"),
    m.GPU_C2C_LINKS: any_of("host_gpu_c2c_links"),
    m.GPU_BUS_WIDTH: any_of("host_gpu_bus_bits"),
    m.GPU_ENERGY: any_of("host_gpu_energy_joules"),
    m.GPU_POWER: any_of("host_gpu_power_watts"),
    m.GPU_POWER_LIMIT: any_of("host_gpu_power_limit_watts"),
    m.GPU_THROTTLE: any_of("host_gpu_throttle"),
    m.GPU_THROTTLED: any_of("host_gpu_throttled_seconds"),
    m.GPU_LINK_GENERATION: any_of("host_gpu_link_generation"),
    m.GPU_LINK_GENERATION_LIMIT: any_of("host_gpu_link_generation_limit"),
    m.GPU_LINK_GENERATION_OWN: any_of("host_gpu_link_generation_own"),
    m.GPU_LINK_WIDTH: any_of("host_gpu_link_width"),
    m.GPU_LINK_WIDTH_LIMIT: any_of("host_gpu_link_width_limit"),
    m.GPU_LINK_RATE: any_of("host_gpu_link_bytes_per_second"),
    m.GPU_PCIE_BYTES: any_of("host_gpu_pcie_bytes"),
    m.GPU_LINK_ERRORS: any_of("host_gpu_link_replays"),
    m.GPU_LINK_FAULTS: any_of("host_gpu_link_faults"),
    m.GPU_NVLINK_BYTES: any_of("host_gpu_nvlink_bytes"),
    m.GPU_STATE: any_of("host_gpu_performance_state"),
    m.GPU_ECC: any_of("host_gpu_ecc_errors"),
    m.GPU_REMAPPED: any_of("host_gpu_remapped_rows"),
    m.GPU_XIDS: any_of("host_gpu_xids"),
    m.GPU_PROCESS: any_of("host_gpu_process"),
    m.GPU_PROCESS_BYTES: any_of("host_gpu_process_bytes"),
    m.GPU_PROCESS_OCCUPANCY: any_of("host_gpu_process_occupancy_ratio"),
}

_PCIE, _NVLINK, _C2C = (f"host_gpu_{link}_bytes_per_second" for link in ("pcie", "nvlink", "c2c"))
_COUNTERS = {
    m.DRAM_ACTIVE: any_of("host_gpu_dram_active_ratio"),
    m.SM_ACTIVE: any_of("host_gpu_sm_active_ratio"),
    m.SM_OCCUPANCY: any_of("host_gpu_sm_occupancy_ratio"),
    m.TENSOR_ACTIVE: any_of("host_gpu_tensor_active_ratio"),
    m.ENGINE_ACTIVE: any_of("host_gpu_engine_active_ratio"),
    m.GPU_PCIE_OUT: ((labelled(_PCIE, direction="transmit"),),),
    m.GPU_PCIE_IN: ((labelled(_PCIE, direction="receive"),),),
    m.GPU_NVLINK_OUT: ((labelled(_NVLINK, direction="transmit"),),),
    m.GPU_NVLINK_IN: ((labelled(_NVLINK, direction="receive"),),),
    m.GPU_C2C_OUT: ((labelled(_C2C, direction="transmit"),),),
    m.GPU_C2C_IN: ((labelled(_C2C, direction="receive"),),),
    m.GPU_SWITCHING: any_of("host_gpu_context_switching_ratio"),
    m.COUNTER_SECONDS: any_of("host_gpu_counter_seconds"),
}

ENGINE = Engine(
    name="host",
    prefixes=("host_",),
    signals={**_PROCESS, **_AROUND, **_CARDS, **_COUNTERS},
    rank_label="pid",
)
