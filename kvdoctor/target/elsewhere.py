"""The line that takes us from inside a container to where the engine's processes can be seen."""

from __future__ import annotations

import os
import shlex
import socket


def outside_line() -> str:
    """Return the line for Kubernetes where we are in a pod, else the one for Docker.

    A pod's host name is the pod's own name, unless it was started with another one.
    """
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        pod = shlex.quote(socket.gethostname())
        return (
            f"kubectl debug -it {pod} --image=python:3.12 --profile=sysadmin --target=CONTAINER -- "
            "sh -c 'pip install kvdoctor && kvdoctor targets'"
        )
    return (
        "on the host: kvdoctor targets; or docker run --rm -it --pid=host --cap-add SYS_PTRACE "
        "python:3.12 sh -c 'pip install kvdoctor && kvdoctor targets'"
    )
