"""Progress of training on a terminal, or a line for each epoch where there is none. Everything goes to stderr."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from storyframes_empathy.training.run_folder import RunName
    from storyframes_empathy.training.runs import Outcome
    from storyframes_empathy.training.train import Epoch


class TrainProgress:
    """Shows what is trained, and how long it will still take; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("starting", total=None, left="")
        self._name, self._waiting = "", 0
        self._began, self._steps_done, self._steps_left, self._steps_of_run = time.monotonic(), 0, 0, 0
        self._epochs = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def plan(self, remarks: Sequence[str]) -> None:
        """What is trained, before anything is."""
        for remark in remarks:
            self._console.print(f"[dim]{escape(remark)}", soft_wrap=True)

    def run(self, name: RunName, waiting: int) -> None:
        """A run is opened; ``waiting`` more of its kind come after it."""
        self._name, self._waiting = str(name), waiting
        self._progress.update(self._task, description=escape(f"{name}: opening"), total=None, left="")
        self._began, self._steps_done = time.monotonic(), 0

    def begins(self, epoch: int, epochs: int, steps: int) -> None:
        self._epochs = epochs
        self._steps_left = (epochs - epoch + 1) * steps
        self._steps_of_run = epochs * steps
        self._progress.update(
            self._task,
            description=escape(f"{self._name}: epoch {epoch} of {epochs}"),
            completed=(epoch - 1) * steps,
            total=epochs * steps,
        )

    def step(self) -> None:
        self._steps_done += 1
        self._steps_left = max(self._steps_left - 1, 0)
        self._progress.update(self._task, advance=1, left=self._remaining())

    def epoch(self, done: Epoch) -> None:
        val = "" if done.val_mse is None else f", val_mse {done.val_mse:.4f}"
        what = f"{self._name}: epoch {done.epoch} of {self._epochs}: train_mse {done.train_mse:.4f}{val}"
        self._console.print(f"{escape(what)} [dim]({done.seconds:.1f} s; {self._remaining()})")

    def ended(self, outcome: Outcome) -> None:
        if outcome.reason:
            self._console.print(f"[bold red]failed[/] {escape(f'{outcome.name}: {outcome.reason}')}")
        elif not outcome.is_new:
            self._console.print(f"{escape(str(outcome.name))}: done before, nothing to train")
        if outcome.dropped:
            self._console.print(
                f"[dim]{outcome.dropped} clips of the phase lack an input or a label (or a chosen story): left out"
            )
        if outcome.untrained:
            self._console.print(f"[dim]{escape(f'no untrained baseline: {outcome.untrained}')}")

    def _remaining(self) -> str:
        """How long it will take still, at the pace of this run."""
        if not self._steps_done:
            return ""
        steps = self._steps_left + self._waiting * self._steps_of_run
        seconds = round((time.monotonic() - self._began) / self._steps_done * steps)
        hours, minutes = seconds // 3600, seconds // 60 % 60
        return f"{hours} h {minutes} min left" if hours else f"{minutes} min {seconds % 60} s left"
