"""Pickles of numbers and texts, read without running anything that is in them.

Opening a pickle calls whatever its author wrote. This reader knows containers, texts and numbers of Python, and arrays,
scalars and types of NumPy, which it makes itself; anything else that a pickle names is refused by that name.
"""

from __future__ import annotations

import operator
import pickle
import pickletools
import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

_CODE = re.compile(r"[?biufSU]\d*")


class UnsafePickleError(Exception):
    """A pickle is damaged, or names what this reader does not know; the message says what."""


def read_pickle(path: Path) -> Any:
    """What a pickle holds; an array in it is a :class:`PickledArray`, which :func:`as_array` reads.

    Raises:
        UnsafePickleError: it is damaged, or has anything but containers, texts, numbers and NumPy arrays in it.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        try:
            for code, given, _ in pickletools.genops(file):
                if (
                    "PUT" in code.name and isinstance(given, int) and given > path.stat().st_size
                ):  # the memo grows to it
                    raise UnsafePickleError("has a reference that no file of its size needs")
            file.seek(0)
            return _Reader(file, encoding="latin1").load()  # as Python 2 wrote NumPy's bytes
        except (UnsafePickleError, OSError):
            raise
        except Exception as error:  # a damaged pickle raises anything
            raise UnsafePickleError(f"is no pickle that can be read ({type(error).__name__})") from None


def as_array(value: Any) -> np.ndarray:
    """The array that is pickled, or of a list of numbers.

    Raises:
        UnsafePickleError: it is none.
    """
    if isinstance(value, PickledArray):
        return value.read()
    rows = value if isinstance(value, list) else []
    lists = [row for row in rows if isinstance(row, list | tuple)]
    # A list that is in itself, or many times in others, would be an array of any size.
    if len({id(row) for row in lists}) == len(lists) and not any(isinstance(x, list | tuple) for x in chain(*lists)):
        try:
            made = np.asarray(value)
            if made.dtype.kind in "biufSU":
                return made
        except (ValueError, MemoryError):  # of different lengths, or a long text among many
            pass
    raise UnsafePickleError("has no array of numbers where one is needed")


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module.replace("numpy._core", "numpy.core"), name]
        except KeyError:
            raise UnsafePickleError(
                f"names {module}.{name}, which could run anything: only containers, texts, numbers and NumPy arrays "
                "are read; write these from a Python where you trust it"
            ) from None


class _Maker:
    """A function that a pickle may call, and cannot set anything of."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *given: Any) -> Any:
        return self._make(*given)

    def __setstate__(self, _: Any) -> None:
        raise UnsafePickleError("changes how it is read")


class _PickledType:
    """NumPy's type of an array's items."""

    __slots__ = ("code", "order")

    def __init__(self, code: Any, *_: Any) -> None:
        self.code, self.order = str(code), "="

    def __setstate__(self, state: Any) -> None:
        self.order = str(state[1])

    def read(self) -> np.dtype:
        if not _CODE.fullmatch(self.code) or self.order not in ("<", ">", "=", "|"):
            raise UnsafePickleError(f"has an array of {self.code!r}, not of numbers or texts")
        return np.dtype(f"{self.order}{self.code}")


class PickledArray:
    """An array as a pickle has it: nothing of NumPy's is called before :meth:`read`.

    Attributes:
        axes: of the shape in memory, which each axis of the array is; None where they are in order.
    """

    __slots__ = ("axes", "content", "dtype", "order", "stored_shape")
    axes: tuple[int, ...] | None

    def __init__(self) -> None:
        self.__setstate__((1, (0,), None, False, b""))

    def __setstate__(self, state: Any) -> None:
        _, shape, self.dtype, is_fortran, self.content = state
        self.stored_shape, self.axes = tuple(map(operator.index, shape)), None
        self.order = "F" if is_fortran else "C"

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        axes = range(len(self.stored_shape)) if self.axes is None else self.axes
        return tuple(self.stored_shape[axis] for axis in axes)

    def read(self) -> np.ndarray:
        """The array; of objects, which have to be texts or numbers, as :func:`as_array` makes one of them.

        Raises:
            UnsafePickleError: it is of something else, or damaged.
        """
        try:
            if isinstance(self.content, list):
                return as_array(self.content).reshape(self.shape)
            made: np.ndarray = np.frombuffer(_bytes(self.content), self.dtype.read())
            made = made.reshape(self.stored_shape, order="F" if self.order == "F" else "C")
            return made if self.axes is None else made.transpose(self.axes)
        except (ValueError, TypeError, AttributeError, MemoryError) as error:
            raise UnsafePickleError(f"has a damaged array ({type(error).__name__})") from None


def _empty(*_: Any) -> PickledArray:
    return PickledArray()


def _from_buffer(
    content: Any, dtype: Any, shape: Any, order: Any = "C", axes: Sequence[int] | None = None
) -> PickledArray:
    """As protocol 5 has arrays; of the order K the shape is that in memory."""
    made = PickledArray()
    made.__setstate__((1, shape, dtype, order == "F", content))
    if order == "K" and axes is not None:
        made.axes = tuple(map(operator.index, axes))
        if sorted(made.axes) != [*range(len(made.stored_shape))]:
            raise UnsafePickleError("has an array whose axes are not in it")
    return made


def _scalar(dtype: Any, content: Any) -> Any:
    return np.frombuffer(_bytes(content), dtype.read())[0]


def _bytes(content: Any) -> Any:
    """What Python 2 wrote as a text is bytes."""
    return content.encode("latin1") if isinstance(content, str) else content


def _latin1(text: Any, encoding: Any) -> bytes:
    """Bytes, as protocol 2 has them."""
    if encoding != "latin1":
        raise UnsafePickleError(f"has a text in the encoding {encoding!r}")
    return bytes(text, "latin1")


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Maker(_empty),
    ("numpy.core.multiarray", "scalar"): _Maker(_scalar),
    ("numpy.core.numeric", "_frombuffer"): _Maker(_from_buffer),
    ("numpy", "ndarray"): None,  # which kind of array; it is never called
    ("numpy", "dtype"): _Maker(_PickledType),
    ("_codecs", "encode"): _Maker(_latin1),
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "complex"): complex,
    ("collections", "OrderedDict"): dict,
}
_KNOWN |= {("__builtin__", name): made for (module, name), made in _KNOWN.items() if module == "builtins"}
