"""What all commands share: arguments, the consoles, and how a command ends when something is wrong."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from storyframes.installation import install_line
from storyframes.store.storage import reason_of

if TYPE_CHECKING:
    from tasks.extractors.availability import ExtractorState
    from tasks.study.load import Problem, Study, StudyError

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY", help="Folder of the study's tables (docs/study.md).")]
StoreArgument = Annotated[
    str, typer.Argument(metavar="STORE", help="The feature store: a folder, or s3://bucket/prefix.")
]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file (docs/configuration.md).")]
JsonOption = Annotated[bool, typer.Option("--json", help="For scripts: JSON on stdout.")]
ReplaceStudyOption = Annotated[
    bool,
    typer.Option("--replace-study", help="Replace the other study from which the feature store was made."),
]

WIDTH = 100  # columns of a terminal that are used
_UNWRAPPED = 1_000_000  # columns: a line of a file or a pipe ends where it ends
_RUNS = {"venv": "own environment", "container": "container"}
_LONGEST = 300  # characters of a path in a message
# Errors of a path that cannot be used as asked; others (a full disk) may pass.
_UNUSABLE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR),
    *(errno.EISDIR, errno.EEXIST, errno.EINVAL),
}
# What is raised where something cannot be done as asked, by module. A module that nobody has imported raises nothing:
# so these are looked up when something was raised, and a command imports no more than it uses.
INVALID_STUDY = {"tasks.study.problems": "StudyError"}
REFUSALS = {
    "flows.clusters.connection": "ClusterError",
    "flows.clusters.settings": "ClusterSettingsError",
    "flows.server.configured_server": "ServerError",
    "flows.settings": "SettingsError",
    "storyframes.store.layout": "StoreError",
    "storyframes.store.storage": "StorageError",
    "tasks.extractors.availability": "MissingToolError",
    "tasks.planning.selection": "SelectionError",
    "tasks.study.load": "StudyFileError",
}


def is_terminal() -> bool:
    """Whether a person looks at both outputs; help and usage errors are drawn as panels then."""
    return sys.stdout.isatty() and sys.stderr.isatty()


# How the help and usage errors look: panels where a person looks, plain lines where a program reads.
LOOK: dict[str, Any] = {} if is_terminal() else {"rich_markup_mode": None, "context_settings": {"terminal_width": 1000}}


def console(*, stderr: bool = False) -> Console:
    """A console at most as wide as the tables. Without a terminal no line is wrapped, and tables have 80 columns."""
    shown = _Console(stderr=stderr, highlight=False, emoji=False)
    if not (sys.stderr if stderr else sys.stdout).isatty():
        return _Console(stderr=stderr, highlight=False, emoji=False, width=_UNWRAPPED, table_width=shown.width)
    if shown.width > WIDTH:
        return _Console(stderr=stderr, highlight=False, emoji=False, width=WIDTH)
    return shown


class _Console(Console):
    """A console whose tables are narrower than its lines."""

    def __init__(self, *, table_width: int = _UNWRAPPED, **options: Any) -> None:
        super().__init__(**options)
        self._table_width = table_width

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        options = options or self.options
        if not isinstance(renderable, str | Text) and options.max_width > self._table_width:
            options = options.update(width=self._table_width)
        return super().render(renderable, options)


def error_console() -> Console:
    """Where progress and errors go."""
    return console(stderr=True)


def show_json(content: Any) -> None:
    """Print what a script reads; NaN and the infinities are null."""
    print(finite_json(content))  # noqa: T201


def finite_json(content: Any) -> str:
    """``content`` as JSON; NaN and the infinities are null."""
    return json.dumps(_finite(content), indent=1, ensure_ascii=False, allow_nan=False)


def _finite(content: Any) -> Any:
    """``content`` with None for numbers that JSON has not."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


class Failed(typer.Exit):
    """The end of a command that failed, with its message."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(code)
        self.message = message


class Partly(typer.Exit):
    """The end of a command that did what it could, with what it made: some was set aside, or failed."""

    def __init__(self, result: object) -> None:
        super().__init__(1)
        self.result = result


def fail(message: str, code: int) -> NoReturn:
    """End the command with a message and an exit code."""
    error_console().print(f"[bold red]error[/] {escape(message)}")
    raise Failed(message, code)


def listed(option: str, given: Iterable[str] | None) -> tuple[str, ...]:
    """The names that an option gives, without duplicates: with commas between them, or the option repeated.

    Blanks around a name are ignored; where a name is empty, the command ends.
    """
    parts = [part.strip() for text in given or () for part in text.split(",")]
    if "" in parts:
        fail(
            f"{option} {','.join(given or ())!r}: a name is missing; write one, or several with commas between them", 2
        )
    return tuple(dict.fromkeys(parts))


def matching_files(paths: list[Path]) -> list[Path]:
    """The files, those of a quoted pattern (``'*.eaf'``) by name."""
    matching: list[Path] = []
    for path in paths:
        matches = [path] if path.exists() else [Path(name) for name in sorted(glob(str(path), recursive=True))]
        if not matches and not any(sign in str(path) for sign in "*?["):
            matches = [path]  # reading it says that it is not there
        if not matches:
            fail(f"{path}: finds no file", 2)
        matching += matches
    return list(dict.fromkeys(matching))


def need(module: str, extra: str, distribution: str = "storyframes") -> None:
    """End the command if a package is not installed that only this command needs.

    Args:
        extra: of the distribution, which brings it; empty where the distribution itself does.
    """
    if find_spec(module) is None:
        fail(f"this needs {module}: {install_line(extra, distribution)}", 2)


def cannot_write(target: Path, error: OSError) -> NoReturn:
    """End the command that could not write what it makes."""
    fail(f"{target}: cannot be written: {reason_of(error)}; what was there before is as it was", 1)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Bad usage, a bad study and a bad configuration end with 2 and a message, never a traceback."""
    with refused_if():
        try:
            yield
        except _imported(INVALID_STUDY) as error:
            fail_with_problems(error)


@contextmanager
def refused_if(*refusals: type[Exception]) -> Iterator[None]:
    """These errors, :data:`REFUSALS`, and places that cannot be what they are given for, end with 2 and a message."""
    try:
        yield
    except refusals as error:
        fail(str(error), 2)
    except _imported(REFUSALS) as error:  # some are OSErrors without a number
        fail(str(error), 2)
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of the output has ended
            raise
        fail(describe(error), 2 if error.errno in _UNUSABLE else 1)


def _imported(errors: Mapping[str, str]) -> tuple[type[Any], ...]:
    classes = (getattr(sys.modules.get(module), name, None) for module, name in errors.items())
    return tuple(error for error in classes if error)


def describe(error: OSError) -> str:
    """What the system refused, and for which file."""
    why = reason_of(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or why.startswith("No usable temporary directory"):
        from tasks.tools.disk_space import places_without_room

        why = "; ".join([why, *places_without_room()])
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    shown = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    return f"{shown}: {why[0].lower()}{why[1:]}" if shown else why


def fail_with_problems(error: StudyError, *, every: bool | None = None) -> NoReturn:
    """End the command with everything that is wrong with a study; ``every`` as of the table."""
    error_console().print(f"[bold red]error[/] {escape(str(error.root))} is not a valid study:")
    error_console().print(problems_table(error.problems, every=every))
    raise Failed(str(error), 2) from None


def problems_table(problems: Sequence[Problem], *, every: bool | None = None) -> Table:
    """The problems of a study: every one, or those that are alike as one (None: the first of thousands of a kind)."""
    from tasks.study.problems import grouped_problems, shortened

    table = Table(title=f"{len(problems)} problem{'s' * (len(problems) != 1)}", title_justify="left")
    for heading in ("table", "row", "column", "value", "rule"):
        table.add_column(heading, overflow="fold")
    for problem in shortened(problems) if every is None else problems if every else grouped_problems(problems):
        cells = (problem.table, problem.place, problem.column, problem.value, problem.rule)
        table.add_row(*(escape(text) for text in cells))
    return table


def not_read(study: Study, *, every: bool = True) -> list[str]:
    """A line for each table with columns that nothing reads, and for each remark about how a table was read."""
    from tasks.study.problems import grouped_remarks

    unread = [f"[yellow]not read of {name}:[/] {escape(', '.join(columns))}" for name, columns in study.unread.items()]
    remarks = study.remarks if every else grouped_remarks(study.remarks)
    return unread + [f"[yellow]look at[/] {escape(remark)}" for remark in remarks]


def extractors_table(states: Sequence[ExtractorState]) -> Table:
    """The extractors: where they come from and run, what they read, whether they can run here, what they cost."""
    table = Table()
    table.add_column("feature", no_wrap=True)
    table.add_column("reads", no_wrap=True)
    table.add_column("can run here", overflow="fold")
    for state in states:
        notes = (state.origin, _RUNS.get(state.run, ""), "private" if state.private else "")
        feature = "\n".join([state.feature, *(f"  {note}" for note in notes if note)])
        able = f"[green]yes[/], {state.cost.cpu_s_per_s:g} CPU-s per s"
        if state.missing:
            able = f"[red]no[/]: {escape(state.missing)}"
        elif state.condition:
            able = f"[yellow]{escape(state.condition)}[/]"
        table.add_row(escape(feature), "\n".join(state.inputs) or "nothing", able)
    return table
