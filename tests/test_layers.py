"""The architecture: who may import whom. Imports point down; a new module must find its place here."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvdoctor.causes import CAUSES

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "kvdoctor"

# Vocabulary and nouns. `errors` and the version in `kvdoctor` itself are open to all.
NOUNS = "metrics model quantity recording service units"
# What was seen, as signals and sums: no opinion yet.
SEEN = "course histogram hostview joined ledger machine queue_wait steps timeline traffic waiting"

MAY_IMPORT: dict[str, str] = {
    # vocabulary and nouns
    "": "",
    "clock": "",
    "errors": "",
    "frames": "",
    "metrics": "quantity",
    "model": "service",
    "probes": "reference",
    "quantity": "",
    "reference": "",
    "lab": "reference",
    "recording": "model",
    "secrets": "",
    "service": "",
    "standalone": "",
    "stackclass": "",
    "told": "model",
    "units": "",
    # observe: from a machine to a recording
    "address": "secrets",
    "collectors": "address model record secrets target wire",
    "crew": "",
    "record": "clock crew model recording session store",
    "session": "exposition frames model recording store textline",
    "target": "model roofline secrets service",
    "wire": "address wire_failure",
    "wire_failure": "address",
    # keep: from a recording to a file, and back
    "export": "recording store textline",
    "exposition": "model recording secrets textline",
    "logmetrics": "metrics quantity",
    "readers": "address export exposition frames logmetrics metrics model quantity recording restore secrets wire",
    "restore": "frames model recording",
    "store": "frames model recording",
    "textline": "recording",
    # arithmetic of models and cards
    "machine": "model roofline units",
    "roofline": "units",
    # think: from a recording to signals
    "engines": "logmetrics metrics quantity",
    "histogram": "service",
    "spread": "histogram service",
    "cardview": "",
    "hostactivity": "hostseries hostview metrics quantity",
    "hostcards": "hostactivity hostseries hostview metrics model quantity",
    "hostnotes": "hostview stackclass units",
    "hostread": "hostcards hostseries hostview metrics model quantity recording stackclass",
    "hostseries": "engines metrics quantity recording timeline",
    "hostview": "cardview model stackclass",
    "course": "",
    "joined": "course engines histogram metrics quantity recording segment timeline",
    "pace": "histogram metrics timeline",
    "models": "engines metrics recording timeline",
    "pick": "engines recording",
    "segment": "engines recording",
    "picked": "engines pick quantity recording",
    "timeline": "course engines histogram pick picked quantity recording",
    "traffic": "course histogram metrics pace quantity timeline",
    "queue_wait": "model traffic",
    "steps": "traffic",
    "ranks": "case metrics model",
    "waiting": "metrics timeline traffic",
    "logview": "course logmetrics metrics model quantity recording timeline traffic waiting",
    # think: from signals to opinions
    "around": f"case engines ranks {SEEN} metrics model units",
    "case": f"{SEEN} metrics model quantity service",
    "causes": f"case freeze {SEEN} logmetrics logview metrics model quantity service stackclass units",
    "ledger": "histogram machine model queue_wait steps traffic units",
    "silence": "histogram metrics timeline",
    "halt": "metrics recording silence timeline",
    "freeze": "halt histogram metrics silence timeline",
    "health": "case freeze halt histogram ledger metrics model units",
    "naming": "case health model steps",
    "judge": "case freeze halt health metrics model naming silence",
    "confidence": "around case halt judge ledger model queue_wait service units",
    "story": "case halt judge ledger model units",
    "logstates": "logmetrics logview service",
    "logjudge": "causes judge logmetrics logstates logview metrics model service story units",
    "overview": "case causes histogram metrics model quantity service units",
    "logdiagnose": "engines judge logjudge logmetrics logview metrics model overview quantity recording segment "
    "service timeline traffic",
    "unmetered": "case causes engines hostread judge machine model recording service timeline",
    "described": "case engines hostread metrics overview service timeline",
    "judged": "case causes engines hostread joined judge machine metrics model models recording segment service "
    "timeline unmetered",
    "diagnose": "around case confidence described hostnotes judge judged logdiagnose model naming overview recording "
    "service spread story told",
    "fleet": "diagnose model recording",
    # show
    "render": "model roofline service units",
}
# The command line knows everybody.
COMMAND_LINE = {
    "commands": "",
    "roofline.__main__": "cli",
    "__main__": "cli",
    "roofline.command": "commands",
    "cli": "commands roofline.command",
}
BELOW = " ".join(MAY_IMPORT)
MAY_IMPORT |= {row: f"{BELOW} {others}" for row, others in COMMAND_LINE.items()}

OPEN_TO_ALL = {"", "errors"}

# Third-party packages: where they may be imported at all, and whether only inside a function.
ANYWHERE, INSIDE = False, True
MAY_USE: dict[str, tuple[str, bool]] = {
    "torch": ("lab.model probes reference", ANYWHERE),
    "triton": ("probes reference", ANYWHERE),
    "prometheus_client": ("lab", ANYWHERE),
    "setproctitle": ("lab", INSIDE),
    "starlette": ("lab", ANYWHERE),
    "uvicorn": ("lab", INSIDE),
    "pynvml": ("collectors roofline.machine target", INSIDE),
    "matplotlib": ("render", INSIDE),
    "jinja2": ("render", INSIDE),
    "rich": ("commands render", ANYWHERE),
    "typer": ("cli commands roofline.command", ANYWHERE),
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package with its tree; `` is the package itself."""
    for path in sorted(PACKAGE.rglob("*.py")) + sorted((ROOT / "probes").rglob("*.py")):
        inside = path.relative_to(ROOT if path.is_relative_to(ROOT / "probes") else PACKAGE)
        parts = inside.with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), ast.parse(path.read_text())


MODULES = dict(sources())


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    """Full names that a module imports, `kvdoctor.model` for `from kvdoctor import model`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)


def own(name: str) -> str | None:
    """The module of ours that an imported name lies in; None for others'."""
    parts = name.split(".")
    if parts[0] != "kvdoctor":
        return None
    parts = parts[1:]
    while parts and ".".join(parts) not in MODULES:
        parts.pop()
    return ".".join(parts)


def place(module: str) -> str:
    """The row of the table that a module belongs to: its own, else its folder's."""
    return module if module in MAY_IMPORT else module.partition(".")[0]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_lies_below_it(module):
    row = place(module)
    assert row in MAY_IMPORT, f"{module} has no place in the table"
    allowed = OPEN_TO_ALL | {row} | set(MAY_IMPORT[row].split())
    found = {target for name, _ in imports(MODULES[module]) if (target := own(name)) is not None}
    assert {target for target in found if target.partition(".")[0] not in allowed} == set()


@pytest.mark.parametrize("row", MAY_IMPORT)
def test_every_row_of_the_table_has_a_module(row):
    assert any(place(module) == row for module in MODULES)
    assert not set(MAY_IMPORT[row].split()) - set(MAY_IMPORT)


def reaches(start: str) -> set[str]:
    """Rows that a row may import, directly or through others."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for row in MAY_IMPORT[ahead.pop()].split():
            if row not in found:
                found.add(row)
                ahead.append(row)
    return found


@pytest.mark.parametrize("row", [r for r in MAY_IMPORT if "." not in r])
def test_the_table_has_no_circle(row):
    assert row not in reaches(row)


APART = ("causes", "collectors", "probes", "readers", "render")


@pytest.mark.parametrize("one", APART)
def test_those_that_observe_think_and_show_never_import_one_another(one):
    assert not reaches(one) & (set(APART) - {one})


def test_causes_share_helpers_and_never_import_one_another():
    causes = {cause.__module__.removeprefix("kvdoctor.") for cause in CAUSES}
    assert len(causes) == len(CAUSES)
    for module in causes:
        found = {own(name) for name, _ in imports(MODULES[module])}
        assert not found & causes, module


def test_causes_read_no_engines_names():
    for module, tree in MODULES.items():
        if place(module) in ("causes", "ledger", "judge", "health", "traffic", "waiting", "case"):
            texts = [
                n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
            ]
            assert not [text for text in texts if text.startswith(("vllm:", "sglang:", "trtllm_"))], module


def outside_functions(tree: ast.Module) -> set[ast.stmt]:
    """Imports that run when the module is imported: neither in a function nor for type checkers only."""
    found: set[ast.stmt] = set()
    ahead: list[ast.AST] = [tree]
    while ahead:
        for node in ast.iter_child_nodes(ahead.pop()):
            lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if lazy or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
                continue
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.add(node)
            ahead.append(node)
    return found


@pytest.mark.parametrize("package", MAY_USE)
def test_a_heavy_package_is_imported_only_where_it_is_needed(package):
    folders, inside = MAY_USE[package]
    for module, tree in MODULES.items():
        at_import = outside_functions(tree)
        uses = [node for name, node in imports(tree) if name.partition(".")[0] == package]
        at_home = {module, module.partition(".")[0]} & set(folders.split())
        assert not uses or at_home, f"{module} imports {package}"
        assert not inside or not at_import & set(uses), f"{module} imports {package} outside a function"


def test_a_diagnosis_on_a_terminal_loads_nothing_heavy():
    code = (
        "import sys, loads, kvdoctor.readers, kvdoctor.render.terminal\n"
        "from kvdoctor.diagnose import diagnose\n"
        "diagnose(loads.load(facts={'gpu': 'H100 SXM'}))\n"
        "print(*sorted({'torch', 'pynvml', 'matplotlib', 'jinja2'} & set(sys.modules)))"
    )
    paths = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests')!r}]\n"
    done = subprocess.run([sys.executable, "-c", paths + code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
