"""The ``storyframes`` command.

``entry`` is where it begins and ends, ``app`` puts the commands together, with the groups of plug-ins. ``terminal`` is
what all commands share. One file holds a few commands of one subject, with what they show: ``start`` (doctor, plan,
init, check, synthesize), ``extract`` (extract, extract-file, demo), ``clips`` (index, clips), ``runs`` (jobs, status,
show, runs, deploy; the tables of status and show are ``status_tables`` and ``session_tables``), ``upkeep`` (verify, gc,
archive, share), ``forget``, ``models`` (models, extractors). ``run`` is one extraction and its progress. No command
computes anything.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from flows.cli.run import run_work
    from flows.cli.terminal import (
        LOOK,
        ConfigOption,
        JsonOption,
        StoreArgument,
        StudyArgument,
        cannot_write,
        console,
        error_console,
        fail,
        finite_json,
        listed,
        matching_files,
        need,
        refused_if,
        show_json,
        usage_errors,
    )

__all__ = [
    "LOOK",
    "ConfigOption",
    "JsonOption",
    "StoreArgument",
    "StudyArgument",
    "cannot_write",
    "console",
    "error_console",
    "fail",
    "finite_json",
    "listed",
    "matching_files",
    "need",
    "refused_if",
    "run_work",
    "show_json",
    "usage_errors",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "run": "run_work",
        "terminal": "LOOK ConfigOption JsonOption StoreArgument StudyArgument cannot_write console error_console fail "
        "finite_json listed matching_files need refused_if show_json usage_errors",
    },
)
