"""Which device a file system lies on, and the most that its link carries."""

from __future__ import annotations

from pathlib import Path

from kvdoctor.probes.timing import Ceiling

# Bytes/s of one lane in one direction after line coding, by the transfer rate that sysfs names in GT/s.
LANE = {2.5: 250e6, 5.0: 500e6, 8.0: 985e6, 16.0: 1969e6, 32.0: 3938e6, 64.0: 7563e6}


def lane_rate(speed: str) -> float | None:
    """Return the bytes/s of a lane for sysfs's `16.0 GT/s PCIe`."""
    number = speed.split()[0] if speed else ""
    return LANE.get(float(number)) if number.replace(".", "", 1).isdigit() else None


def link(folder: Path, which: str = "current") -> tuple[float, int] | None:
    """Return (bytes/s of one direction, lanes) of a PCI device's link; None where sysfs does not tell."""
    speed, width = _text(folder / f"{which}_link_speed"), _text(folder / f"{which}_link_width")
    rate = lane_rate(speed)
    if rate is None or not width.isdigit() or not int(width):
        return None
    return rate * int(width), int(width)


def device(numbers: str, sys: str = "/sys") -> dict[str, str]:
    """Return what sysfs tells of `major:minor`: name, model, scheduler, whether it is made of other devices."""
    node = Path(sys, "dev/block", numbers)
    if not numbers or not node.exists():
        return {}
    place = node.resolve()
    disk = place.parent if (place / "partition").exists() else place
    found = {
        "name": disk.name,
        "model": _text(disk / "device/model"),
        "scheduler": _text(disk / "queue/scheduler"),
        "requests": _text(disk / "queue/nr_requests"),
        "rotational": _text(disk / "queue/rotational"),
        "over": ", ".join(sorted(p.name for p in (disk / "slaves").glob("*"))),
    }
    return {key: value for key, value in found.items() if value}


def ceiling(numbers: str, sys: str = "/sys") -> Ceiling:
    """Return what the PCIe link of an NVMe drive carries; no ceiling for what is no single drive."""
    node = Path(sys, "dev/block", numbers)
    if numbers and node.exists():
        for place in (node.resolve(), *node.resolve().parents):
            if not place.name.startswith("virtio") and (found := link(place)) is not None:
                return Ceiling(found[0], f"PCIe link of the drive, {found[1]} lanes")
    return Ceiling(None, "the device tells no link of its own")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
