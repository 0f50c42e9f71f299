"""The ``storyframes`` command: its groups of commands, in the order in which ``--help`` shows them.

Exit codes: 0 done; 1 some or all sessions failed, or damage was found; 2 bad usage, a bad study or configuration, or
nothing that could be started; 130 and 143 interrupted by Ctrl-C and by SIGTERM.
Data goes to stdout, progress and errors to stderr. What takes long to import is imported where it is needed, the tables
too, as ``tests/cli/test_imports.py`` holds.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

import storyframes
from flows.cli import clips, extract, forget, go, models, runs, start, terminal, upkeep
from storyframes.installation import COMPANIONS, companion_missing
from storyframes.plug_ins import (
    COMMANDS,
    PlugInError,
    describe_error,
    installed_plug_ins,
    load_plug_in,
    origin,
    plug_in,
)

_NEXT = "Next: "  # how an epilog begins that is a command
OTHERS = "More"  # commands of distributions that name no panel


# By command: what may be typed after it, as its help says; the names of arguments and options stand for what was given.
NEXT = {
    "go": "storyframes go FOLDER",
    "doctor": "storyframes extractors list",
    "init": "storyframes check FOLDER --config FOLDER/storyframes.toml",
    "check": "storyframes extract STUDY STUDY/features --config CONFIG",
    "plan": "storyframes extract STUDY STUDY/features --config CONFIG",
    "extract": "storyframes report STUDY STORE --config CONFIG --out STUDY/report",
    "extract-file": "storyframes extract-file FILE",
    "jobs": "bash OUT/submit.sh",
    "index": "storyframes clips STORE",
    "status": "storyframes verify STORE",
    "runs": "storyframes doctor",
    "deploy": "storyframes runs",
    "show": "storyframes status STORE --session SESSION",
    "clips": "storyframes status STORE",
    "verify": "storyframes status STORE",
    "gc": "storyframes verify STORE",
    "archive": "storyframes verify OUT",
    "share": "storyframes status STORE",
    "forget": "storyframes check STUDY",
}


class UnusableCommand(TyperGroup):
    """A command of a plug-in that cannot be used, for the help; called, it ends with the reason."""

    def __init__(self, name: str, reason: str, summary: str) -> None:
        super().__init__(name=name, help=summary, rich_help_panel=OTHERS)
        self.reason = reason

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        terminal.fail(self.reason, 2)


class RootGroup(TyperGroup):
    """The commands of storyframes, then the groups of plug-ins; a plug-in takes no command's place."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return list(dict.fromkeys([*own, *(point.name for point in installed_plug_ins(COMMANDS))]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if command := super().get_command(ctx, cmd_name):
            return command
        points = [point for point in installed_plug_ins(COMMANDS) if point.name == cmd_name]
        if not points:
            return None
        try:
            return _load_command(cmd_name)
        except PlugInError as error:
            return UnusableCommand(cmd_name, str(error), f"cannot be used: {origin(points[0])}")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As typer's; a companion's group that is not installed ends the command with the line that installs it."""
        if args[0] in COMPANIONS and self.get_command(ctx, args[0]) is None:
            terminal.fail(companion_missing(args[0]), 2)
        name, command, rest = super().resolve_command(ctx, args)
        _with_next_line(command)
        return name, command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The panels as plain sections, where a program reads the help."""
        panels: dict[str, list[tuple[str, str]]] = {}
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))
        for name in names:
            command = self.get_command(ctx, name)
            if not command.hidden:
                panels.setdefault(command.rich_help_panel, []).append((name, command.get_short_help_str(limit)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def _with_next_line(command: Any) -> None:
    """Let a command, or each of a group, end with the next one: what it returns, or its epilog with its arguments."""
    for each in getattr(command, "commands", {}).values():
        _with_next_line(each)
    callback = command.callback
    if not hasattr(command, "commands") and callback and (command.epilog or "").startswith(_NEXT):

        @functools.wraps(callback)
        def run(**params: Any) -> object:
            try:
                given = callback(**params)
            except typer.Exit as ended:
                if ended.exit_code < 2 and not isinstance(ended, terminal.Failed):
                    given = getattr(ended, "result", None)
                    _show_next(given if isinstance(given, str) else _next_command(command, params), params)
                raise
            _show_next(given if isinstance(given, str) else _next_command(command, params), params)
            return given

        command.callback = run


def _next_command(command: Any, params: Mapping[str, Any]) -> str:
    """What a command's epilog says, with what was given for arguments and options; empty where one is not one word."""
    given = {parameter.metavar or parameter.name.upper(): params.get(parameter.name) for parameter in command.params}
    words: list[str] = []
    for word in shlex.split(command.epilog.removeprefix(_NEXT)):
        name, slash, rest = word.partition("/")
        if name in given:
            value = given[name]
            if value is None and words[-1].startswith("--"):
                words.pop()
                continue
            if value is None or isinstance(value, list):
                return ""
            word = f"{value}{slash}{rest}"
            if rest == "features":  # where nothing else is said
                word = str(given.get("STORE") or word)
        words.append(word)
    return shlex.join(words)


def _show_next(line: str, params: Mapping[str, Any]) -> None:
    if line and not params.get("json"):
        terminal.error_console().print(escape(_NEXT + line), soft_wrap=True)


def _load_command(name: str) -> Any:
    """The group of commands that a plug-in gives; of one command without a callback that command.

    Raises:
        PlugInError: the plug-in cannot be used.
    """
    point = plug_in(COMMANDS, name)
    assert point is not None
    try:
        app = load_plug_in(point)
        if not isinstance(app, typer.Typer):
            raise PlugInError(f"{app!r} is not a typer.Typer")
        try:
            command: Any = typer.main.get_command(app)
        except Exception as error:
            raise PlugInError(f"has commands that typer cannot read ({describe_error(error)})") from None
    except PlugInError as error:
        raise PlugInError(f"storyframes {name} comes from {origin(point)}, which {error}") from None
    panel = app.rich_help_panel  # typer reads it only where a group is added to another
    command.rich_help_panel = command.rich_help_panel or (panel if isinstance(panel, str) else OTHERS)
    return command


app = typer.Typer(
    name="storyframes",
    cls=RootGroup,
    help="Extract features from session recordings, and read them for training.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    **terminal.LOOK,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"storyframes {storyframes.__version__}")  # noqa: T201
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


# By panel of --help: a command, or a group of commands with its name.
PANELS: dict[str, tuple[Callable[..., object] | tuple[str, typer.Typer], ...]] = {
    "Start": (
        go.go,
        start.doctor,
        start.init,
        extract.demo,
        ("models", models.models_app),
        ("extractors", models.extractors_app),
    ),
    "Study": (start.check, start.plan),
    "Extract": (
        extract.extract,
        extract.extract_file,
        runs.jobs,
        clips.index,
        runs.status,
        runs.runs,
        runs.deploy,
    ),
    "Look": (runs.show, clips.clips),
    "Keep and share": (upkeep.verify, upkeep.gc, upkeep.archive, upkeep.share, forget.forget),
}
for panel, commands in PANELS.items():
    for command in commands:
        if isinstance(command, tuple):
            app.add_typer(command[1], name=command[0], rich_help_panel=panel)
        else:
            following = NEXT.get(command.__name__.replace("_", "-"))
            app.command(rich_help_panel=panel, epilog=following and _NEXT + following)(command)
app.command(hidden=True)(start.synthesize)  # for tests, benchmarks and tutorials
