"""The groups of commands of plug-ins: named in the help, imported when one is used."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from flows.cli.terminal import fail
from storyframes.plug_ins import COMMANDS, PlugInError, load, origin, plug_in, plug_ins

PANEL = "Plug-ins"


class PlugInGroup(TyperGroup):
    """A plug-in's group that was not imported yet; the help shows it with the summary of its distribution."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the plug-in's own group; the command ends where the plug-in cannot be used."""
        try:
            group = _load_group(str(self.name))
        except PlugInError as error:
            fail(str(error), 2)
        return group.make_context(info_name, args, parent, **extra)


class RootGroup(TyperGroup):
    """The commands of storyframes, then the groups of plug-ins; a plug-in takes no command's place."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return list(dict.fromkeys([*own, *(point.name for point in plug_ins(COMMANDS))]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if command := super().get_command(ctx, cmd_name):
            return command
        points = [point for point in plug_ins(COMMANDS) if point.name == cmd_name]
        if not points:
            return None
        summary = points[0].dist.metadata.json.get("summary") if points[0].dist else None
        return PlugInGroup(name=cmd_name, help=str(summary or origin(points[0])), rich_help_panel=PANEL)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The panels as plain sections, where a program reads the help."""
        panels: dict[str, list[tuple[str, str]]] = {}
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))
        for name in names:
            command = self.get_command(ctx, name)
            panels.setdefault(command.rich_help_panel, []).append((name, command.get_short_help_str(limit)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def _load_group(name: str) -> TyperGroup:
    """The group of commands that a plug-in gives.

    Raises:
        PlugInError: the plug-in cannot be used.
    """
    point = plug_in(COMMANDS, name)
    assert point is not None
    try:
        app = load(point)
        if not isinstance(app, typer.Typer):
            raise PlugInError(f"{app!r} is not a typer.Typer")
        return typer.main.get_group(app)
    except PlugInError as error:
        raise PlugInError(f"storyframes {name} comes from {origin(point)}, which {error}") from None
