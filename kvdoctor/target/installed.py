"""Which release of a package a process runs, from its own Python's folders; nothing is imported or run."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from kvdoctor.errors import Unavailable
from kvdoctor.target.rooted import View, exists, names
from kvdoctor.target.words import Command

DISTRIBUTIONS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt_llm": "tensorrt_llm",
    "tgi": "text_generation_server",
    "lmdeploy": "lmdeploy",
    "lmcache": "lmcache",
    "dynamo": "ai_dynamo",
    "transformers": "transformers",
}
_PYTHON = re.compile(r"^python3\.\d+$")


def prefixes(words: Command | None, environment: Mapping[str, str], exe: str) -> tuple[str, ...]:
    """Return the folders that a process's Python may be installed in, best first."""
    called = [path for path in (words.path, words.python) if path.startswith("/")] if words else []
    found = [posixpath.dirname(posixpath.dirname(path)) for path in called if "/bin/" in path]
    found += [environment[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environment.get(name)]
    found += [posixpath.dirname(posixpath.dirname(exe))] if exe else []
    return tuple(dict.fromkeys((*found, "/usr/local", "/usr")))


def package_folders(view: View, where: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders under these prefixes in which Python packages lie."""
    found: list[str] = []
    for prefix in where:
        try:
            versions = [name for name in names(view, f"{prefix}/lib") if _PYTHON.match(name)]
        except Unavailable:
            versions = []
        for version in sorted(versions):
            for name in ("site-packages", "dist-packages"):
                folder = f"{prefix}/lib/{version}/{name}"
                found += [folder] if exists(view, folder) else []
        if prefix == "/usr":
            found.append("/usr/lib/python3/dist-packages")
    return tuple(found)


def release(view: View, folders: tuple[str, ...], distribution: str) -> str | None:
    """Return a package's version by the name of its .dist-info folder, None where it is in none of these folders."""
    pattern = re.compile(rf"^{re.escape(distribution)}-(?P<version>[^-]+)\.dist-info$", re.IGNORECASE)
    for folder in folders:
        try:
            entries = names(view, folder)
        except Unavailable:
            continue
        for entry in entries:
            found = pattern.match(entry)
            if found:
                return found["version"]
    return None
