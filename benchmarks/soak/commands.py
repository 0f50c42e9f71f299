"""The commands of a soak: started, watched, and what is to be said of how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak.soak_paths import ROOT, SoakPaths
from benchmarks.soak.soak_processes import ProcessIdentity, started_at
from tasks.tools.patience import Patience

_SHOWN = 15
HUNG = -1000


@dataclass
class Command:
    """A command that was started.

    Attributes:
        name: what it is called in the table.
        log: what it printed.
        patience: with it; what makes no progress any more is a hang.
        selection: options of an extraction.
        began: seconds since the epoch.
        hung: why it was ended as a hang; empty where it was not.
    """

    name: str
    process: subprocess.Popen[bytes]
    identity: ProcessIdentity
    log: Path
    patience: Patience
    selection: tuple[str, ...]
    began: float
    hung: str = ""

    @classmethod
    def start(
        cls, paths: SoakPaths, name: str, line: Sequence[str], stalled_s: float, selection: Sequence[str] = ()
    ) -> Command:
        """Start it; ``stalled_s`` is how long it may do nothing, and a third of how long it may take."""
        logs = paths.folder / "logs"
        logs.mkdir(exist_ok=True)
        log = logs / f"{len(list(logs.iterdir())):04d}-{name.replace(' ', '-')}.txt"
        environment = paths.environment() | {"PYTHONFAULTHANDLER": "1"}  # a hung one says where
        with log.open("wb") as output:
            process = subprocess.Popen(
                line, cwd=paths.folder / "elsewhere", env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        identity = ProcessIdentity(process.pid, started_at(process.pid), " ".join(line))
        patience = Patience(lambda: [process.pid], log, stalled_s=stalled_s, limit_s=3 * stalled_s)
        return cls(name, process, identity, log, patience, tuple(selection), time.time())

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self.process.poll()

    @property
    def seconds(self) -> float:
        return time.time() - self.began

    def is_over(self) -> bool:
        """Whether it has ended; ends it, with the stacks of its threads in the log, where it hangs."""
        if self.code is None and (why := self.patience.why_over()):
            self.hung = why
            os.kill(self.process.pid, signal.SIGABRT)
            time.sleep(1)
            self.process.kill()
            self.process.wait()
        return self.code is not None

    def wait(self) -> int:
        while not self.is_over():
            time.sleep(0.1)
        return self.process.returncode

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def lines(self) -> int:
        """How many it has printed by now."""
        return self.log.read_bytes().count(b"\n")

    @property
    def traceback(self) -> bool:
        """Whether it printed a traceback through our code; Python's own start cannot be made to heed a signal."""
        begun = self.printed.partition("Traceback")[2]
        return any(f"{ROOT}/{floor}/" in begun for floor in ("storyframes", "tasks", "flows"))

    @property
    def tail(self) -> str:
        """The end of what it printed, indented."""
        return "\n".join(f"        {line}" for line in self.printed.splitlines()[-_SHOWN:])
