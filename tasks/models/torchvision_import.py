"""The one place that imports torchvision, because the wheel may not match the installed torch.

PyPI's torchvision wheel is built against CUDA torch. Beside a CPU build of torch its compiled operators cannot be
loaded, and ``import torchvision`` dies with ``operator torchvision::nms does not exist``: its Python code registers
"fake" kernels for operators that were never defined. Declaring those two operators first makes the import work;
everything that is plain Python (models, transforms, weights) is then complete, and only the compiled operators
(NMS, RoIAlign) are missing. ``has_compiled_operators`` tells which case this is.

Every module of ``tasks/`` that needs torchvision calls :func:`import_torchvision` and never imports it by itself.
"""

from __future__ import annotations

import threading
from functools import cache
from types import ModuleType

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


_importing = threading.Lock()


def import_torchvision() -> ModuleType:
    """The torchvision package, importable beside any build of torch."""
    with _importing:
        return _import_torchvision()


@cache
def _import_torchvision() -> ModuleType:
    import torch

    try:
        import torchvision
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
        _forget_half_imported_modules()
        library = torch.library.Library("torchvision", "DEF")
        for schema in _SCHEMAS:
            library.define(schema)
        _declared.append(library)  # the operators live only as long as this object
        import torchvision
    return torchvision


def has_compiled_operators() -> bool:
    """Whether torchvision's compiled operators (NMS, RoIAlign) can run in this process."""
    import_torchvision()
    from torchvision.extension import _has_ops

    return bool(_has_ops())


_declared: list[object] = []


def _forget_half_imported_modules() -> None:
    import sys

    for name in [name for name in sys.modules if name == "torchvision" or name.startswith("torchvision.")]:
        del sys.modules[name]
