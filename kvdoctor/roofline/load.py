"""A model's config by path or by preset name, for those who keep the config itself."""

from __future__ import annotations

from pathlib import Path

from kvdoctor.roofline.checkpoint import load_config
from kvdoctor.roofline.presets import preset_config


def load_model(name: str) -> tuple[dict[str, object], dict[str, object] | None]:
    """The config, and the side file where there is one, of a path or a preset.

    Raises KvdoctorError where neither exists, with near preset names.
    """
    path = Path(name).expanduser()
    if path.exists() or name.endswith(".json") or name.startswith((".", "~", "/")):
        return load_config(path)
    return preset_config(name), None
