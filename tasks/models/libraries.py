"""The one place that imports torchvision and OpenVINO, because both need care; nothing else in ``tasks/`` imports them.

**torchvision** may not match the installed torch. PyPI's wheel is built against CUDA torch. Beside a CPU build of
torch its compiled operators cannot be loaded, and ``import torchvision`` dies with ``operator torchvision::nms does not
exist``: its Python code registers "fake" kernels for operators that were never defined. Declaring those two operators
first makes the import work. Everything that is plain Python (models, transforms, weights) is then complete; only the
compiled operators (NMS, RoIAlign) are missing. ``has_compiled_operators`` says whether they are. It also imports
torch's compiler, for one function that is called where RoIAlign runs on a GPU, and that costs each process a
CPU-second: it is imported when that function is called.

**OpenVINO** reports to Google Analytics: ``import openvino`` and ``openvino.convert_model`` send events through the
package ``openvino_telemetry``, unasked, and leave an identifier in ``~/intel``. Where that package cannot be imported,
OpenVINO uses a silent replacement of its own; so here it cannot be imported.

**Making a network** needs care as well, whichever library makes it: :func:`loading`.

torch is imported inside the functions: planning imports this module through others, and must not wait for torch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from packaging.requirements import Requirement

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_importing = threading.Lock()
_process_lock = threading.RLock()  # reentrant: a network is tried while it is made
_declared: list[object] = []


@contextmanager
def loading() -> Iterator[None]:
    """Around the making of a network, for any device: no other thread makes one meanwhile, or starts kernels on a GPU.

    Libraries change what is the whole process's while they make one: torch's default type, how weights are drawn, and
    what a traced module is called.
    """
    with _process_lock:
        yield


def import_torchvision() -> ModuleType:
    """The torchvision package, importable beside any build of torch."""
    with _importing:
        return _import_torchvision()


@cache
def _import_torchvision() -> ModuleType:
    import torch

    try:
        with _compiler_later():
            import torchvision
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
        _forget_half_imported_modules()
        library = torch.library.Library("torchvision", "DEF")
        for schema in _SCHEMAS:
            library.define(schema)
        _declared.append(library)  # the operators live only as long as this object
        with _compiler_later():
            import torchvision
    return torchvision


_COMPILER = "torch._dynamo.utils"


@contextmanager
def _compiler_later() -> Iterator[None]:
    """While the block imports torchvision, torch's compiler is a module that imports the real one when it is needed."""
    if _COMPILER in sys.modules:
        yield
        return
    sys.modules[_COMPILER] = later = _Later(_COMPILER)
    try:
        yield
    finally:
        if sys.modules.get(_COMPILER) is later:
            del sys.modules[_COMPILER]


class _Later(ModuleType):
    """Stands for torch's compiler: the one function that torchvision takes is called by its name only later."""

    @staticmethod
    def is_compile_supported(device_type: str) -> bool:
        return bool(_compiler().is_compile_supported(device_type))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system asks of any module
            raise AttributeError(name)
        return getattr(_compiler(), name)


def _compiler() -> ModuleType:
    """torch's compiler, which is imported once, also for those who still have the module that stood for it."""
    if isinstance(sys.modules.get(_COMPILER), _Later):
        sys.modules.pop(_COMPILER, None)
    return import_module(_COMPILER)


def has_compiled_operators() -> bool:
    """Whether torchvision's compiled operators (NMS, RoIAlign) can run in this process."""
    import_torchvision()
    from torchvision.extension import _has_ops

    return bool(_has_ops())


def torchvision_mismatch() -> str:
    """Why ``import torchvision`` fails in the user's own programs; "" where nothing speaks against it. Imports neither.

    A release of torchvision belongs to one release of torch, and its compiled operators to one kind of build.
    """
    try:
        torch, torchvision = version("torch"), version("torchvision")
    except PackageNotFoundError:
        return ""
    pair = f"torchvision {torchvision} beside torch {torch}"
    for text in requires("torchvision") or ():
        requirement = Requirement(text)
        if requirement.name == "torch" and not requirement.specifier.contains(torch, prereleases=True):
            return f"{pair}: it was built for torch {requirement.specifier}"
    folders = [
        Path(spec.origin).parent for name in ("torch", "torchvision") if (spec := find_spec(name)) and spec.origin
    ]
    if len(folders) == 2:
        cuda, operators = folders[0] / "lib/libtorch_cuda.so", folders[1] / "_C.so"
        if operators.is_file() and not cuda.exists() and cuda.name.encode() in operators.read_bytes():
            return f"{pair}: its compiled operators need the build of torch for NVIDIA's GPUs"
    return ""


def _forget_half_imported_modules() -> None:
    for name in [name for name in sys.modules if name == "torchvision" or name.startswith("torchvision.")]:
        del sys.modules[name]


def import_openvino() -> ModuleType:
    """The openvino package, unable to report.

    Raises:
        ImportError: it is not installed.
    """
    sys.modules["openvino_telemetry"] = cast(ModuleType, None)  # this makes its import fail
    import openvino

    return openvino
