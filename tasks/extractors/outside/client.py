"""The interface of an external program: frames in, arrays out. Standard library and numpy only, Python 3.8 or later.

storyframes runs ``python -I client.py PROGRAM MANIFEST --no-network`` in the plug-in's own environment. The program (a
file, or a folder with a ``__main__.py``) imports this very module by the name ``storyframes_outside``::

    from storyframes_outside import job

    for frames in job.frames():             # (n, height, width, 3) uint8, RGB, all of them in order
        job.append(values=look_at(frames))  # their rows, by array

That is all: once the program has come to its end, the record of what it wrote is written, last of all. A program that
dies before that has written nothing, whatever is in its folder.

A program in another language reads the manifest (JSON) and the frames on its standard input itself, and writes the
arrays as ``NAME.npy`` (version 1.0, C order, little-endian) and ``results.json``, which :meth:`Job.finish` shows.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import runpy
import struct
import sys
from collections.abc import Iterator
from io import FileIO
from typing import Any

import numpy as np

FORMAT = 1
RECORD = "results.json"
_HEADER_BYTES = 512  # room for a header that is known only at the end


class Job:
    """One session's work.

    Attributes:
        settings: the plug-in's own, by name.
        inputs: the session's files that the plug-in declares, by kind, and its model files, by name: absolute paths.
        frame_count, width, height: of the frames; 0 where the plug-in takes none.
        frame_times: path of a ``.npy``, (T,) float64: the second at which each frame of the session is shown.
        threads: how many this program may use.
    """

    def __init__(self, manifest: dict[str, Any], stream: FileIO) -> None:
        if manifest["format"] != FORMAT:
            raise SystemExit(f"the manifest has format {manifest['format']}, this client reads {FORMAT}")
        self.settings = manifest["settings"]
        self.inputs = manifest["inputs"]
        frames = manifest["frames"] or {"count": 0, "width": 0, "height": 0}
        self.frame_count, self.width, self.height = frames["count"], frames["width"], frames["height"]
        self.frame_times = manifest["frame_times"]
        self.threads = manifest["threads"]
        self._output = manifest["output"]
        self._arrays = manifest["arrays"]
        self._files: dict[str, _ArrayFile] = {}
        self._frames_read = 0
        self._stream = stream

    def frames(self, batch: int = 8) -> Iterator[np.ndarray]:
        """All frames in order, up to ``batch`` at a time: (n, height, width, 3) uint8, RGB.

        Raises:
            EOFError: storyframes stopped in the middle.
        """
        while self._frames_read < self.frame_count:
            count = min(batch, self.frame_count - self._frames_read)
            rgb = np.empty((count, self.height, self.width, 3), np.uint8)
            self._fill(rgb.reshape(-1).data)
            self._frames_read += count
            yield rgb

    def append(self, **rows: np.ndarray) -> None:
        """Append rows to arrays, by name: (n, *shape) each, of the dtype that the plug-in declares.

        Raises:
            ValueError: there is no such array, or the rows have another shape.
            TypeError: the values do not fit the dtype.
        """
        for name, values in rows.items():
            if name not in self._arrays:
                raise ValueError(f"the plug-in declares no array {name!r}")
            self._file(name).append(np.asarray(values))

    def finish(self) -> None:
        """Close the arrays, then write the record that makes them count."""
        for name, array in self._arrays.items():
            if not array["optional"]:
                self._file(name)  # one without rows is an array as well
        record = {
            "format": FORMAT,
            "python": ".".join(map(str, sys.version_info[:3])),
            "frames_read": self._frames_read,
            "arrays": {name: file.finish() for name, file in self._files.items()},
        }
        path = os.path.join(self._output, RECORD)
        with open(path + ".new", "w") as file:
            json.dump(record, file)
        os.replace(path + ".new", path)

    def _fill(self, view: memoryview) -> None:
        while view:
            count = self._stream.readinto(view)
            if not count:
                raise EOFError("storyframes stopped before the last frame")
            view = view[count:]

    def _file(self, name: str) -> _ArrayFile:
        if name not in self._files:
            spec = self._arrays[name]
            path = os.path.join(self._output, name + ".npy")
            self._files[name] = _ArrayFile(path, name, np.dtype(spec["dtype"]), tuple(spec["shape"]))
        return self._files[name]


class _ArrayFile:
    """A ``.npy`` that grows: its header, which has the number of rows, is written last, into space reserved for it."""

    def __init__(self, path: str, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self._file = open(path, "wb")  # noqa: SIM115, for as long as rows come
        self._file.write(bytes(_HEADER_BYTES))
        self._name, self._dtype, self._shape = name, dtype, shape
        self._rows = 0
        self._digest = hashlib.sha256()

    def append(self, values: np.ndarray) -> None:
        if values.shape[1:] != self._shape or values.ndim == 0:
            raise ValueError(f"{self._name}: rows of {self._shape} were declared, these are {values.shape[1:]}")
        if not np.can_cast(values.dtype, self._dtype, "same_kind"):
            raise TypeError(f"{self._name}: {self._dtype} was declared, these are {values.dtype}")
        content = np.ascontiguousarray(values, self._dtype).tobytes()
        self._digest.update(content)
        self._file.write(content)
        self._rows += len(values)

    def finish(self) -> dict[str, Any]:
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._rows, *self._shape)}
        text = repr(header).encode("latin1").ljust(_HEADER_BYTES - 11) + b"\n"
        self._file.seek(0)
        self._file.write(b"\x93NUMPY\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little") + text)
        self._file.close()
        return {"rows": self._rows, "sha256": self._digest.hexdigest()}


job: Job


# Of each machine: the kernel's name of it (AUDIT_ARCH_*), and the numbers of socket(), io_uring_setup() and seccomp().
_SYSTEM_CALLS = {"x86_64": (0xC000003E, 41, 425, 317), "aarch64": (0xC00000B7, 198, 425, 277)}


def close_network() -> None:
    """Take the network from this process and all that it starts: only sockets of this machine (AF_UNIX) can be made.

    Libraries report to their makers (MediaPipe 1.2 opens a connection with every use), and a recording's frames are
    in this process. The filter is the kernel's (seccomp), needs no rights and cannot be taken back.
    """
    calls = _SYSTEM_CALLS.get(platform.machine())
    if calls is None:
        raise SystemExit(f"the network cannot be closed on {platform.machine()}: run this feature on another machine")
    machine, socket, io_uring_setup, seccomp = calls
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    refuse, allow = (0x00050000 | 13, 0x7FFF0000)  # EACCES
    # (code, jumps if so, jumps if not, operand); the call's number is at 0, the machine at 4, its arguments from 16
    program = [
        (load, 0, 0, 4), (equal, 0, 7, machine),
        (load, 0, 0, 0), (at_least, 5, 0, 0x40000000), (equal, 4, 0, io_uring_setup), (equal, 0, 2, socket),
        (load, 0, 0, 16), (equal, 0, 1, 1),
        (give, 0, 0, allow), (give, 0, 0, refuse),
    ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    header = ctypes.create_string_buffer(struct.pack("HP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_filter, of_all_threads = 38, ctypes.c_long(1), ctypes.c_long(1)  # numpy has started some
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.syscall(seccomp, set_filter, of_all_threads, header):
        raise SystemExit(f"the network cannot be closed: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    """Run the program, and write the record if it comes to its end."""
    global job
    program, manifest, *options = sys.argv[1:]
    if "--no-network" in options:
        close_network()
    # The frames are ours alone: what the program starts, or a library that reads, gets an empty input.
    stream = os.fdopen(os.dup(0), "rb", buffering=0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    with open(manifest) as file:
        job = Job(json.load(file), stream)
    sys.modules["storyframes_outside"] = sys.modules["__main__"]
    this = job  # runpy puts the program in the place of this module while it runs
    sys.argv = [program]
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    this.finish()


if __name__ == "__main__":
    main()
