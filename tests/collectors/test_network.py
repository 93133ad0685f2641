"""Network: the engine's own namespace, link speed only where it is ours, InfiniBand in words of four bytes."""

from __future__ import annotations

import os

import pytest
from hosts import PID, captured, values, write

from kvdoctor.collectors.network import Network
from kvdoctor.errors import Unavailable


def tree(root, *, ours: bool = True) -> dict[str, str]:
    write(
        root,
        {
            f"proc/{PID}/net/dev": captured("net_dev"),
            f"proc/{PID}/net/snmp": captured("net_snmp"),
            "sys/class/net/eth0/speed": "100000\n",
            "sys/class/net/lo/speed": "-1\n",
            "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": "1000\n",
            "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": "500\n",
            "sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence": "3\n",
            "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
            "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
        },
    )
    for who, inode in (("self", 1), (str(PID), 1 if ours else 2)):
        folder = root / f"proc/{who}/ns"
        folder.mkdir(parents=True)
        os.symlink(f"net:[{inode}]", folder / "net")
    return {"proc": str(root / "proc"), "sys": str(root / "sys")}


def test_bytes_speed_and_retransmissions_are_read(tmp_path):
    found = values(Network(PID, **tree(tmp_path)).read().text)
    numbers = next(line for line in captured("net_dev").splitlines() if "eth0" in line).split()
    assert found['host_network_bytes_total{interface="eth0",direction="receive"}'] == float(numbers[1])
    assert found['host_network_bytes_total{interface="eth0",direction="transmit"}'] == float(numbers[9])
    assert found['host_network_speed_bytes{interface="eth0"}'] == 12.5e9
    assert 'host_network_speed_bytes{interface="lo"}' not in found
    assert found["host_tcp_retransmits_total"] >= 1


def test_infiniband_counts_words_of_four_bytes(tmp_path):
    found = values(Network(PID, **tree(tmp_path)).read().text)
    port = 'device="mlx5_0",port="1"'
    assert found[f'host_infiniband_bytes_total{{{port},direction="receive"}}'] == 4000
    assert found[f"host_infiniband_speed_bytes{{{port}}}"] == 50e9
    assert found[f"host_infiniband_active{{{port}}}"] == 1
    assert found[f'host_infiniband_errors_total{{{port},kind="out_of_sequence"}}'] == 3


def test_another_namespace_gives_its_bytes_and_a_gap_with_the_command(tmp_path):
    found = values(Network(PID, **tree(tmp_path, ours=False)).read().text)
    assert any(f"nsenter -t {PID} -n" in key for key in found if key.startswith("host_gap"))
    assert 'host_network_speed_bytes{interface="eth0"}' not in found
    assert 'host_network_bytes_total{interface="eth0",direction="receive"}' in found


def test_an_ended_process_is_unavailable(tmp_path):
    with pytest.raises(Unavailable):
        Network(PID, proc=str(tmp_path)).read()
