"""Small trees of /proc and /sys, and pages of host collectors, that tests are masters of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kvdoctor.exposition import Parser
from kvdoctor.hostview import CardView, HostView
from kvdoctor.recording import Source, add_reading
from kvdoctor.target.family import Member

FIXTURES = Path(__file__).parent / "fixtures"
PID = 31004
START = 359440
"""Start of the process in the captured text, in clock ticks."""
ENGINE = Member(PID, 1, 0, "engine_core", START, "VLLM::EngineCore", PID)


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write texts into a tree."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def captured(name: str) -> str:
    """Return a captured file of /proc."""
    return (FIXTURES / "host" / name).read_text()


def process(root: Path, pid: int = PID, *, run: int = 10**9, wait: int = 10**8) -> str:
    """Write one process with its main thread; return the tree's /proc."""
    stat, status = captured("process_stat"), captured("process_status")
    write(
        root,
        {
            f"proc/{pid}/stat": stat,
            f"proc/{pid}/status": status,
            f"proc/{pid}/io": captured("process_io"),
            f"proc/{pid}/task/{pid}/schedstat": f"{run} {wait} 5\n",
            f"proc/{pid}/task/{pid}/status": status,
            f"proc/{pid}/task/{pid}/stat": stat,
        },
    )
    return str(root / "proc")


def values(text: bytes) -> dict[str, float]:
    """Read a page as series to value."""
    rows = (line.rpartition(" ") for line in text.decode().splitlines() if not line.startswith("#"))
    return {key: float(value) for key, _, value in rows}


def source(pages: Sequence[bytes], *, name: str = "processes", texts: dict[str, str] | None = None) -> Source:
    """Return a host source that read these pages a second apart."""
    found = Source(name, "host", 0.0, texts=texts or {})
    parser = Parser(found.columns)
    for at, page in enumerate(pages):
        change = parser.read(page)
        add_reading(found, at=float(at), took=0.0, size=len(page), ids=change.ids, values=change.values)
    return found


def view(**fields: object) -> HostView:
    """Return a view of ten seconds with these fields."""
    base = {"root": PID, "engine": "vllm", "seconds": 10.0, "roles": ((PID, "engine_core"),)}
    return HostView(**{**base, **fields})  # type: ignore[arg-type]


CARD = CardView(
    index=0, name="NVIDIA H200", occupancy=0.98, used=1e11, total=1.5e11, sm_clock=1.0, memory_clock=1.0,
    reasons=(), loaded=10, generation=(5.0, 5.0), width=(16.0, 16.0), uncorrected=0.0, pending_rows=0.0,
    xids=(), foreign=(), node=None,
)  # fmt: skip
"""A healthy card under load."""
