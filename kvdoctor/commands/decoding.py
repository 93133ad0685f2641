"""What `kvdoctor probe decode` decodes: a config, a known model, or what a running engine has loaded and runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvdoctor.errors import KvdoctorError, Misuse


def decode_options(
    model: str | None, pid: int | None, batch: int | None, context: str | None
) -> dict[str, Any]:
    """Options of the probe: the config as JSON has it, the batch and the context.

    Empty without a model: the probe then has a small one of its own. Raises KvdoctorError for what is not known,
    Misuse for a step of nothing.
    """
    from kvdoctor.roofline.quantity import token_count

    found: dict[str, Any] = {}
    if model is not None:
        found = {"config": _config(model), "model": Path(model).name if "/" in model else model}
    elif pid is not None:
        found = _of_process(pid)
    if batch is not None:
        found["batch"] = batch
    if context is not None:
        found["context"] = token_count(context)
    if found.get("batch", 1) < 1 or found.get("context", 1) < 1:
        raise Misuse("a step needs a batch and a context of at least one", "--batch 1 --context 1024")
    return found


def _config(model: str) -> dict[str, object]:
    """The config of a path or of a preset."""
    from kvdoctor.roofline.checkpoint import load_config
    from kvdoctor.roofline.presets import preset_config

    path = Path(model).expanduser()
    return load_config(path)[0] if path.exists() else preset_config(model)


def _of_process(pid: int) -> dict[str, Any]:
    """What a process has loaded, and the batch and context it runs at; empty where its files are closed to us."""
    from kvdoctor.commands.running import running

    found = running(pid)
    text = found.facts.get("model_config")
    if not text:
        raise KvdoctorError(f"process {pid} does not tell its model's config", "--model CONFIG")
    told: dict[str, Any] = {"config": json.loads(text), "model": Path(found.facts.get("model", "")).name}
    if found.batch:
        told["batch"] = max(1, round(found.batch))
    if found.context:
        told["context"] = max(1, round(found.context))
    return told
