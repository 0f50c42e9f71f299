"""The public names of a package, each imported when it is first used.

zarr, pandas and pyarrow take half a second, which an import of one module of a package, or the command's help, does not
need.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from storyframes.mistakes import unknown


def exports(
    package: str, names: Mapping[str, str], instead: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its ``__name__``.
        names: by module of the package, its public names with spaces between them.
        instead: by a name that it does not have, what to write instead.
    """
    modules = {name: module for module, public in names.items() for name in public.split()}

    def get(name: str) -> Any:
        if name not in modules:
            if instead is None or name.startswith("_"):
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            hint = f": write {instead[name]}" if name in instead else ""
            raise AttributeError(
                f"{package} has no {name!r}{hint}" if hint else unknown(package, "name", name, modules)
            )
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *modules})
