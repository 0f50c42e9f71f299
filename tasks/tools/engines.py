"""The container engines of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from tasks.tools.containers import ContainerError, Docker, Engine, EngineName, Podman
from tasks.tools.hpc_engines import Apptainer, Charliecloud, Singularity

_ENGINES: dict[EngineName, type[Engine]] = {
    engine.name: engine for engine in (Podman, Docker, Apptainer, Singularity, Charliecloud)
}


def installed_engines() -> Iterator[Engine]:
    """Those that are in PATH, in the order in which they are looked for."""
    for name in EngineName:
        engine = _ENGINES[name]
        if executable := shutil.which(engine.program or name):
            yield engine(executable)


def find_engine(configured: EngineName | None = None) -> Engine:
    """The configured engine, else the first that is installed.

    Raises:
        ContainerError: none is; the message says how to install each.
    """
    for engine in installed_engines():
        if configured in (None, engine.name):
            return engine
    raise ContainerError(no_engine(*([configured] if configured else [])))


def no_engine(*names: EngineName) -> str:
    """That none of these is here, of all without names, and how to install each."""
    names = names or tuple(EngineName)
    hints = "; ".join(_ENGINES[name].installation for name in names)
    return f"no container engine: looked for {', '.join(names)} in PATH. To install one: {hints}"
