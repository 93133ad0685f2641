"""A run that another one has started ends with it, however that ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping

PARENT = "KVDOCTOR_DEMO_PARENT"
"""Environment variable with the pid of the run that has started this one."""
_PERIOD_S = 0.5


def followed(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a run that ends with this process."""
    return {**environment, PARENT: str(os.getpid())}


def follow(environment: Mapping[str, str]) -> None:
    """From now on, send ourselves SIGTERM when the run that started us is gone."""
    told = environment.get(PARENT, "")
    if told.isdigit():
        threading.Thread(target=_watch, args=(int(told),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PERIOD_S)
    os.kill(os.getpid(), signal.SIGTERM)
