"""The command that looks around: inference processes here, and what we may read of them."""

from __future__ import annotations

import sys


def targets() -> None:
    """List the inference processes of this host, and which permissions a diagnosis of each would have.

    Only looks: nothing is connected to, stopped or changed.

    \b
    kvdoctor targets
    sudo kvdoctor targets
    """
    from kvdoctor.commands.listing import gap_lines, permission_lines, target_lines
    from kvdoctor.target.look import look
    from kvdoctor.target.permission import permissions, situation

    seen = look()
    found = seen.all()
    lines: list[str] = []
    for target in found:
        lines += [*target_lines(target), ""]
        rows = permissions(situation(seen.host.proc, target.family), seen.host.devices, seen.programs)
        lines += ["  what may be read", *permission_lines(rows), ""]
    if not found:
        lines += [*nothing(seen.is_inside), ""]
        rows = permissions(situation(seen.host.proc), seen.host.devices, seen.programs)
        lines += ["  what may be read", *permission_lines(rows), ""]
    for gap in seen.scan.gaps:
        lines += gap_lines(gap, "")
    sys.stdout.write("\n".join(lines).rstrip() + "\n")


def nothing(is_inside: bool) -> tuple[str, ...]:
    """Say that there is no inference process, and where else one may be."""
    from kvdoctor.target.elsewhere import outside_line

    first = "No inference process is visible here."
    if not is_inside:
        return (first, "  -> kvdoctor diagnose --url http://HOST:PORT")
    return (first, "This is a container: processes outside it cannot be seen.", f"  -> {outside_line()}")
