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
    from kvdoctor.target.permission import of_host, of_process, situation

    seen = look()
    found = seen.all()
    lines: list[str] = [] if found else [*nothing(seen.is_inside), ""]
    for target in found:
        lines += [*target_lines(target), "  may we read it?"]
        lines += [*permission_lines(of_process(situation(seen.host.proc, target.family))), ""]
    lines.append("On this host")
    first = found[0].family if found else None
    lines += permission_lines(of_host(situation(seen.host.proc, first), seen.host.devices, seen.programs))
    for gap in seen.scan.gaps:
        lines += gap_lines(gap)
    sys.stdout.write("\n".join(lines) + "\n")


def nothing(is_inside: bool) -> tuple[str, ...]:
    """Say that there is no inference process, and where else one may be."""
    from kvdoctor.target.elsewhere import outside_line

    first = "No inference process is visible here."
    if not is_inside:
        return (first, "  -> kvdoctor diagnose --url http://HOST:PORT")
    return (first, "This is a container: processes outside it cannot be seen.", f"  -> {outside_line()}")
