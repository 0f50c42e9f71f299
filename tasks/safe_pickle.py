"""Pickles of numbers and texts, read without running anything that is in them.

Opening a pickle calls whatever its author wrote. This reader knows containers, texts and numbers of Python, and arrays,
scalars and types of NumPy, which it makes itself; anything else that a pickle names is refused by that name.
"""

from __future__ import annotations

import pickle
import re
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
    try:
        made = np.asarray(value)
    except ValueError:  # of different lengths
        made = np.zeros(0, object)
    if made.dtype.kind not in "biufSU":
        raise UnsafePickleError("has no array of numbers where one is needed")
    return made


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module.replace("numpy._core", "numpy.core"), name]
        except KeyError:
            raise UnsafePickleError(
                f"names {module}.{name}, which could run anything: only containers, texts, numbers and NumPy arrays "
                "are read; write these from a Python where you trust it"
            ) from None


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
    """An array as a pickle has it: nothing of NumPy's is called before :meth:`read`."""

    __slots__ = ("content", "dtype", "order", "shape")

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, is_fortran, self.content = state
        self.order = "F" if is_fortran else "C"

    def __len__(self) -> int:
        return int(self.shape[0])

    def read(self) -> np.ndarray:
        """The array; of objects, which have to be texts or numbers, as :func:`as_array` makes one of them."""
        if isinstance(self.content, list):
            return as_array(self.content).reshape(self.shape)
        content = self.content.encode("latin1") if isinstance(self.content, str) else self.content
        made: np.ndarray = np.frombuffer(content, self.dtype.read())
        return made.reshape(self.shape, order="F" if self.order == "F" else "C")


def _empty(*_: Any) -> PickledArray:
    return PickledArray()


def _from_buffer(content: Any, dtype: Any, shape: Any, order: Any = "C", *_: Any) -> PickledArray:
    made = PickledArray()
    made.shape, made.dtype, made.order, made.content = shape, dtype, order, content
    return made


def _scalar(dtype: Any, content: Any) -> Any:
    content = content.encode("latin1") if isinstance(content, str) else content
    return np.frombuffer(content, dtype.read())[0]


def _latin1(text: Any, encoding: Any) -> bytes:
    """Bytes, as protocol 2 has them."""
    if encoding != "latin1":
        raise UnsafePickleError(f"has a text in the encoding {encoding!r}")
    return bytes(text, "latin1")


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "ndarray"): None,  # which kind of array; it is never called
    ("numpy", "dtype"): _PickledType,
    ("_codecs", "encode"): _latin1,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "complex"): complex,
    ("collections", "OrderedDict"): dict,
}
_KNOWN |= {("__builtin__", name): made for (module, name), made in _KNOWN.items() if module == "builtins"}
