"""The model that a process serves: its own config.json, found as the process would find it."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.model import Gap
from kvdoctor.secrets import clean, mask_argv
from kvdoctor.target.rooted import View, exists, names, read_file
from kvdoctor.target.words import Options

MOST_BYTES = 2**20
"""Size of a config that is read. The largest published ones have some 100 KiB."""
SIDE = "hf_quant_config.json"
_REVISION = re.compile(r"^[0-9a-f]{40}$")
_CACHES = (
    ("HF_HUB_CACHE", ""),
    ("HUGGINGFACE_HUB_CACHE", ""),
    ("HF_HOME", "hub"),
    ("XDG_CACHE_HOME", "huggingface/hub"),
    ("HOME", ".cache/huggingface/hub"),
)
"""Where the hub's library looks, in its order: variable, folder below it."""


@dataclass(frozen=True, slots=True)
class Served:
    """A model as its process sees it."""

    name: str
    """As the command line gives it."""
    folder: str = ""
    """Its folder in the process's own file system; empty where none was found."""
    facts: tuple[tuple[str, str], ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Sight:
    """What is needed to find a model's files."""

    view: View | None
    """None where the process's root may not be read."""
    options: Options
    environment: Mapping[str, str]
    cwd: str
    closed: str = ""
    """The line that would open the process's root to us."""


def served(name: str, sight: Sight) -> Served:
    """Find and read the config of a model. What stands in the way is a gap; a preset of that name may help."""
    if sight.view is None:
        gap = Gap("model", f"the files of {name} are closed to this user", sight.closed)
        return _by_name(Served(name, gaps=(gap,)))
    try:
        folder = _folder(name, sight, sight.view)
        config = _object(read_file(sight.view, f"{folder}/config.json", MOST_BYTES))
    except Unavailable as error:
        gap = Gap("model", f"no config.json of {name}: {error.reason}", "give it: --model PATH")
        return _by_name(Served(name, gaps=(gap,)))
    return _checked(name, folder, config, _side(sight.view, folder))


def _folder(name: str, sight: Sight, view: View) -> str:
    """Return the model's folder in the process's own file system; Unavailable where it is in none of the usual."""
    own = sight.options.value("hf-config-path")
    path = posixpath.normpath(posixpath.join(sight.cwd or "/", own or name))
    if exists(view, f"{path}/config.json"):
        return path
    if path.startswith("/") and (own or name).startswith(("/", ".", "~")):
        raise Unavailable(f"there is no {path}/config.json")
    for cache in _caches(sight):
        found = _snapshot(view, cache, name, sight.options.value("revision") or "main")
        if found:
            return found
    raise Unavailable("it is in no cache of the hub that this process would use")


def _caches(sight: Sight) -> tuple[str, ...]:
    chosen = sight.options.value("download-dir", "huggingface-hub-cache")
    found = [chosen] if chosen else []
    for variable, below in _CACHES:
        value = sight.environment.get(variable)
        if value:
            found.append(posixpath.join(value, below))
    return tuple(posixpath.normpath(posixpath.join(sight.cwd or "/", path)) for path in found)


def _snapshot(view: View, cache: str, name: str, revision: str) -> str:
    """Return the folder of a revision in a hub cache; of the only one there is where the name leads to none."""
    base = f"{cache}/models--{name.replace('/', '--')}"
    try:
        commit = read_file(view, f"{base}/refs/{revision}", 200).decode("ascii", "replace").strip()
    except Unavailable:
        commit = revision
    if _REVISION.match(commit) and exists(view, f"{base}/snapshots/{commit}/config.json"):
        return f"{base}/snapshots/{commit}"
    try:
        snapshots = [entry for entry in names(view, f"{base}/snapshots") if _REVISION.match(entry)]
    except Unavailable:
        return ""
    found = [s for s in snapshots if exists(view, f"{base}/snapshots/{s}/config.json")]
    return f"{base}/snapshots/{found[0]}" if len(found) == 1 else ""


def _side(view: View, folder: str) -> dict[str, object] | None:
    """Return the quantization file beside the config, None without one."""
    try:
        return _object(read_file(view, f"{folder}/{SIDE}", MOST_BYTES))
    except Unavailable:
        return None


def _object(text: bytes) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Unavailable("it is not JSON") from None
    if not isinstance(found, dict):
        raise Unavailable("it is not a JSON object")
    return {str(key): _masked(str(key), value) for key, value in found.items()}


def _masked(key: str, value: object) -> object:
    """Mask what a key or a URL says is a secret; a model's config has no business with one."""
    if isinstance(value, str):
        return mask_argv((f"{key}={value}",))[0].partition("=")[2] if "=" not in key else value
    if isinstance(value, dict):
        return {str(name): _masked(str(name), inner) for name, inner in value.items()}
    return [_masked(key, inner) for inner in value] if isinstance(value, list) else value


def _checked(name: str, folder: str, config: dict[str, object], side: dict[str, object] | None) -> Served:
    from kvdoctor.roofline.config import shape_from_config

    try:
        shape_from_config(config, side=side, name=name)
    except KvdoctorError as error:
        return Served(name, folder, gaps=(Gap("model", error.message, error.hint),))
    facts = {"model": clean(name), "model_config": json.dumps(config)}
    if side is not None:
        facts["model_side"] = json.dumps(side)
    return Served(name, folder, tuple(facts.items()))


def _by_name(found: Served) -> Served:
    """Take a preset where one has exactly this name, and say so."""
    from kvdoctor.roofline.presets import preset_config

    try:
        config = preset_config(found.name)
    except KvdoctorError:
        return found
    note = Gap("model", f"the shape of {found.name} was taken by its name", "--model PATH of its config.json")
    facts = (("model", clean(found.name)), ("model_config", json.dumps(config)))
    return Served(found.name, found.folder, facts, (*found.gaps, note))
