"""Programs outside that do not what they should: by name, the program, and what has to be said of it."""

from __future__ import annotations

from support.tools.outside_programs import SHADES

BY_HAND = """
import hashlib, json, os, sys
import numpy as np
from storyframes_outside import job

for rgb in job.frames():
    pass

def write(name, rows, **changes):
    np.save(os.path.join(job._output, name + ".npy"), rows)
    return {"rows": len(rows), "sha256": hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest(), **changes}

def record(**changes):
    content = {"format": 1, "python": ".".join(map(str, sys.version_info[:3])), "frames_read": T, "arrays": arrays}
    content.update(changes)
    with open(os.path.join(job._output, "results.json"), "w") as file:
        json.dump(content, file)

T = job.frame_count
values, seen, times = np.ones((T, 3), "f4"), np.ones(T, "u1"), np.zeros(T)
arrays = {"values": write("values", values), "seen": write("seen", seen), "times": write("times", times)}
"""
END = "\nsys.stdout.flush(); os._exit(0)\n"

FAULTS: dict[str, tuple[str, str]] = {
    "ended with 3 half way": (
        "import sys\nfrom storyframes_outside import job\nnext(job.frames()); sys.exit(3)",
        "its program ended with 3",
    ),
    "raised": (
        "from storyframes_outside import job\nnext(job.frames()); 1 / 0",
        "its program ended with 1; it printed last: .*ZeroDivisionError: division by zero",
    ),
    "raised after its last row": (SHADES + "\nraise ValueError('after the end')", "ended with 1; .*after the end"),
    "killed": (
        "import os\nfrom storyframes_outside import job\nnext(job.frames()); os.kill(os.getpid(), 9)",
        r"its program was killed \(137\)",
    ),
    "killed after its last row": (
        SHADES + "\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        r"its program was killed \(137\)",
    ),
    "ended with 0 after its last row, but not at its end": (
        SHADES + "\nimport os; os._exit(0)",
        "ended with 0, but its results cannot be used: it left no results.json",
    ),
    "does nothing": ("pass", "it ended after it had read 0 of 45 frames|ended, as if all were well"),
    "reads nothing and writes nothing": ("import os; os._exit(0)", "left no results.json|ended, as if all were well"),
    "stops reading": (
        "from storyframes_outside import job\nnext(job.frames())",
        "ended after it had read 8 of 45 frames|ended, as if all were well",
    ),
    "reads all and writes nothing": (
        "from storyframes_outside import job\nfor rgb in job.frames(): pass",
        "values has 0 rows, but the session has 45",
    ),
    "one row short": (
        SHADES.replace("done += len(rgb)", "done += len(rgb)\n    if done == 42: break"),
        "it ended after it had read 42 of 45 frames",
    ),
    "one array a row short": (
        BY_HAND + 'arrays["seen"] = write("seen", seen[:-1]); record()' + END,
        "seen has 44 rows",
    ),
    "a row too many": (
        BY_HAND + 'arrays["values"] = write("values", np.ones((T + 1, 3), "f4")); record()' + END,
        "values has 46 rows, but the session has 45",
    ),
    "a dtype that does not fit": (
        SHADES.replace("values=shades", "values=shades.astype(complex)"),
        "TypeError: values: float32 was declared, these are complex128",
    ),
    "another shape": (
        SHADES.replace("values=shades", "values=shades[:, :2]"),
        r"ValueError: values: rows of \(3,\) were declared, these are \(2,\)",
    ),
    "an array nobody declared": (SHADES.replace("values=", "colours=shades, values="), "declares no array 'colours'"),
    "an array too many, by hand": (
        BY_HAND + 'arrays["secret words"] = write("more", seen); record()' + END,
        r"wrote 1 array\(s\) that the plug-in does not declare; it declares values, seen, times",
    ),
    "an array is missing": (BY_HAND + 'del arrays["seen"]; record()' + END, "it wrote no array seen"),
    "another dtype, by hand": (
        BY_HAND + 'arrays["values"] = write("values", values.astype("f8")); record()' + END,
        "values.npy has dtype float64, the plug-in declares float32",
    ),
    "big-endian": (
        BY_HAND + 'arrays["values"] = write("values", values.astype(">f4")); record()' + END,
        "values.npy has dtype >f4, the plug-in declares float32",
    ),
    "fields with names": (
        BY_HAND + 'arrays["seen"] = write("seen", np.zeros(T, [("a", "u1")])); record()' + END,
        "seen.npy has several fields, the plug-in declares uint8",
    ),
    "Fortran order": (
        BY_HAND + 'arrays["values"] = write("values", np.asfortranarray(values)); record()' + END,
        "values.npy is in Fortran order",
    ),
    "objects": (
        BY_HAND + 'arrays["seen"] = write("seen", np.array([None] * T)); record()' + END,
        "seen.npy has dtype object, the plug-in declares uint8",
    ),
    "cut": (
        BY_HAND + 'os.truncate(os.path.join(job._output, "values.npy"), 300); record()' + END,
        "values.npy has 172 bytes of values, 45 rows have 540: it is cut, or was not closed",
    ),
    "longer than it says": (
        BY_HAND + 'open(os.path.join(job._output, "values.npy"), "ab").write(b"x" * 12); record()' + END,
        "values.npy has 552 bytes of values, 45 rows have 540",
    ),
    "no header": (
        BY_HAND + 'open(os.path.join(job._output, "values.npy"), "wb").write(b"x" * 668); record()' + END,
        "values.npy has no header of a .npy file",
    ),
    "nothing in the file": (
        BY_HAND + 'open(os.path.join(job._output, "values.npy"), "wb").close(); record()' + END,
        "values.npy has no header of a .npy file",
    ),
    "other values than it wrote": (
        BY_HAND + 'write("values", values * 2); record()' + END,
        "values.npy has other values than its program says it wrote",
    ),
    "no file": (
        BY_HAND + 'os.remove(os.path.join(job._output, "values.npy")); record()' + END,
        "results.json names values.npy, which is not there",
    ),
    "a link": (
        BY_HAND
        + 'p = os.path.join(job._output, "values.npy"); os.rename(p, p + "x"); os.symlink(p + "x", p); record()'
        + END,
        "values.npy cannot be opened: Too many levels of symbolic links",
    ),
    "a pipe": (
        BY_HAND + 'p = os.path.join(job._output, "values.npy"); os.remove(p); os.mkfifo(p); record()' + END,
        "values.npy is no plain file",
    ),
    "a folder": (
        BY_HAND + 'p = os.path.join(job._output, "values.npy"); os.remove(p); os.mkdir(p); record()' + END,
        "values.npy is no plain file|cannot be opened: Is a directory",
    ),
    "a buffer of NaN": (
        BY_HAND
        + 'arrays["values"] = write("values", values * np.nan); arrays["times"] = write("times", times * np.nan)\n'
        + "record()"
        + END,
        "seen calls row 0 a measurement, but every value of it is NaN",
    ),
    "NaN from one row on": (
        BY_HAND
        + "values[30:] = np.nan; times[30:] = np.nan\n"
        + 'arrays["values"] = write("values", values); arrays["times"] = write("times", times); record()'
        + END,
        "seen calls row 30 a measurement, but every value of it is NaN",
    ),
    "infinity": (
        BY_HAND + 'values[44, 0] = np.inf; arrays["values"] = write("values", values); record()' + END,
        r"values has inf in row 44 \[0\]: not found is NaN",
    ),
    "infinity below": (
        BY_HAND + 'values[7, 2] = -np.inf; arrays["values"] = write("values", values); record()' + END,
        r"values has -inf in row 7 \[2\]: not found is NaN",
    ),
    "another format": (BY_HAND + "record(format=2)" + END, "results.json has format 2, this is read: 1"),
    "another Python": (
        BY_HAND + 'record(python="3.1.4")' + END,
        "it ran with Python 3.1.4, but its environment was",
    ),
    "a record cut": (
        BY_HAND + 'record(); os.truncate(os.path.join(job._output, "results.json"), 50)' + END,
        "results.json is damaged",
    ),
    "a record that is a list": (
        BY_HAND + 'open(os.path.join(job._output, "results.json"), "w").write("[1]")' + END,
        "results.json is damaged",
    ),
    "a record with words for numbers": (BY_HAND + 'record(frames_read="all")' + END, "results.json is damaged"),
    "rows below zero": (BY_HAND + 'arrays["seen"]["rows"] = -1; record()' + END, "results.json is damaged"),
    "prints megabytes and fails": (
        "import sys\nsys.stdout.write('x' * (9 << 20)); sys.stderr.write('the end'); sys.exit(5)",
        "its program ended with 5; it printed last: … end$",
    ),
    "no program": ("def broken(:\n", "ended with 1; .*SyntaxError"),
    "needs what is not there": ("import no_such_module", "ended with 1; .*No module named 'no_such_module'"),
}

WORDS = "the night my brother left"
PRIVATE_FAULTS = {
    "raised": f"raise ValueError({WORDS!r})",
    "printed and failed": f"import sys; print({WORDS!r}); sys.exit(4)",
    "printed and left nothing": f"import os; print({WORDS!r}, flush=True); os._exit(0)",
    "left it in the record": BY_HAND + f"record(format={WORDS!r})" + END,
    "named an array so": BY_HAND + f"arrays[{WORDS!r}] = arrays['seen']; record()" + END,
    "named a field so": BY_HAND + f"arrays['seen'] = write('seen', np.zeros(T, [({WORDS!r}, 'u1')])); record()" + END,
    "named a Python so": BY_HAND + f"record(python={WORDS!r})" + END,
    "named a sum so": BY_HAND + f"arrays['seen']['sha256'] = {WORDS!r}; record()" + END,
    "left it in a header": BY_HAND
    + "file = open(os.path.join(job._output, 'seen.npy'), 'wb')\n"
    + f"file.write(b'\\x93NUMPY\\x01\\x00\\x40\\x00' + {WORDS!r}.encode()); file.close(); record()"
    + END,
}
