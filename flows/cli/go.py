"""The command ``go``: from a folder of recordings and sheets to features, a report and a baseline.

It calls the other commands as a person would type them, so all that they keep is kept: it may be run again.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.terminal import Failed, Partly, console, error_console, fail, usage_errors
from flows.interruption import GOES_ON, promise
from storyframes.installation import companion_missing
from storyframes.spec import feature_and_track
from tasks.inspect.formatting import counted

if TYPE_CHECKING:
    from flows.settings import Settings
    from tasks.study.load import Study

_SHEETS = (".csv", ".tsv", ".xlsx", ".xlsm")
_ANNOTATIONS = (".eaf", ".textgrid", ".annotation")
_ANSWERS = "answers.txt"
_MOST_LABELS = 5  # that a baseline is made of


class _Commands:
    """The commands of ``storyframes``, called as if they were typed.

    Attributes:
        set_aside: what failed of them.
        lacking: those that are not installed.
        exit_code: of the last one that failed.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self.set_aside: list[str] = []
        self.lacking: list[str] = []
        self.exit_code = 2

    def __call__(self, *words: object, about: str) -> Any:
        """What the command gives, even in part; None where it failed, or is not installed, which is noted."""
        command, rest = self._root.command, [str(word) for word in words]
        try:
            while hasattr(command, "commands"):
                name = rest.pop(0)
                command = command.get_command(self._root, name)
                if command is None:
                    self.lacking.append(f"{about}: {companion_missing(name)}")
                    return None
            error_console().print(f"[bold]storyframes {escape(shlex.join(map(str, words)))}[/]", soft_wrap=True)
            with command.make_context(name, rest, parent=self._root) as context:
                return command.invoke(context)
        except Partly as ended:
            return ended.result
        except Failed as ended:
            self.set_aside.append(f"{about}: {ended.message}")
            self.exit_code = ended.exit_code
        except ModuleNotFoundError as error:
            self.lacking.append(f"{about}: needs {error.name}, which is not installed")
        return None


def go(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder of recordings, transcripts, annotation files and sheets.")],
    sheets: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[SHEET]...", exists=True, help="Sheets of labels outside the folder."),
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="The feature store; without it FOLDER/features.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; take what is proposed for each column.")] = False,
) -> object:
    """Make features, a report and a score from a folder of recordings; repeat the command at any time.

    It makes or updates the study, imports labels, extracts what can be extracted here, and writes a report and a
    baseline. Broken, doubled or unknown files are set aside and named. After Ctrl-C the same command continues and asks
    nothing twice. Answers are kept in FOLDER/answers.txt, which you may change.
    """
    from flows.settings import load_settings
    from tasks.study.load import SETTINGS_FILE, load_study
    from tasks.study.problems import grouped_remarks

    promise(GOES_ON)
    if not folder.is_dir():
        fail(f"{folder} is not a folder", 2)
    _refuse_namesakes(folder)
    features, config, report = store or str(folder / "features"), folder / SETTINGS_FILE, folder / "report"
    commands = _Commands(context.find_root())
    made = commands("init", folder, "--recordings", "**/*", "--update", *(["--join"] if yes else []), about=str(folder))
    if made is None:
        raise typer.Exit(2)
    assumed = [remark for remark in made.remarks if not remark.startswith(("neither ", SETTINGS_FILE))]
    asking = ["--to", folder, "--leave-out-unknown", "--answers", folder / _ANSWERS, *(["--yes"] if yes else [])]
    found, others = _sheets(folder)
    assumed += [
        f"{sheet.name}: has a recording's name, so it is not taken for a sheet of labels; if it is one: "
        + shlex.join(["storyframes", "import", "labels", str(sheet), "--to", str(folder)])
        for sheet in others
    ]
    for sheet in [*found, *(sheets or ())]:
        assumed += commands("import", "labels", sheet, *asking, about=sheet.name) or ()
    with usage_errors():
        study, settings = load_study(folder), load_settings(config)
        possible, lacking = _features(study, settings)
    configured = ["--config", config]
    if not possible:
        fail(f"no feature can be made here of what is in {folder}: " + "; ".join(lacking), 2)
    done = commands("extract", folder, features, *configured, "--features", ",".join(possible), about="features")
    if done is None:  # the store may be of another study, of which no report and no score is wanted
        raise typer.Exit(commands.exit_code)
    commands.set_aside += [f"{session}: gives no clips: {reason}" for session, reason in done.excluded.items()]
    if done.problem:
        commands.set_aside.append(f"features: {done.problem}")
    commands("report", folder, features, *configured, "--out", report, about="report")
    for name in _session_labels(study):
        commands("baseline", features, "--label", name, about=f"baseline of {name}")
    shown = console()
    shown.print("\n[bold]made[/]")
    people = counted(made.participants, "participant")
    _show([f"{folder / 'sessions.csv'}: {counted(made.sessions, 'session')} of {people}"])
    _show(_stored(features, commands.set_aside))
    set_aside = [*made.set_aside, *commands.set_aside]
    if (report / "index.html").exists():
        _show([f"{report / 'index.html'}: the report"])
    for title, lines in (
        ("set aside", set_aside),
        ("assumed", assumed),
        ("not made here", [*lacking, *commands.lacking]),
    ):
        if lines:
            shown.print(f"[bold]{title}[/]")
            _show(grouped_remarks(lines))
    first = next(iter(study.sessions))
    following = shlex.join(["storyframes", "show", features, first])
    if set_aside:
        raise Partly(following)
    return following


def _refuse_namesakes(folder: Path) -> None:
    """End where a sheet of a lab's own has the name of a table of a study: it would be read as that table."""
    from tasks.study import Table
    from tasks.study.rows import TABLES

    for name, row in TABLES.items():
        path = folder / f"{name}.csv"
        needed = [column for column, field in row.model_fields.items() if field.is_required()]
        if path.is_file() and (absent := [column for column in needed if column not in Table.read(path).columns]):
            renamed = shlex.join(["mv", str(path), str(path.with_name(f"my-{name}.csv"))])
            fail(
                f"{path} has the name of a table of the study, without the column {absent[0]!r}: if it is a sheet of "
                f"your own, give it another name ({renamed})",
                2,
            )


def _show(lines: Iterable[str]) -> None:
    for line in lines:
        console().print(f"  {escape(line)}")


def _sheets(folder: Path) -> tuple[list[Path], list[Path]]:
    """The sheets in the folder, and the annotation files in it and one level below; not the tables of the study.

    CSV files with a recording's name, which other programs write of it, are given apart.
    """
    from tasks.study.first_tables.sessions_from_files import RECORDING_SUFFIXES
    from tasks.study.rows import TABLES

    tables = {f"{name}.csv" for name in TABLES}
    recordings = {path.stem for path in folder.rglob("*") if path.suffix.lower() in RECORDING_SUFFIXES}
    paths = [path for depth in ("*", "*/*") for path in folder.glob(depth) if not path.name.startswith((".", "~$"))]
    annotations = [path for path in paths if path.suffix.lower() in _ANNOTATIONS]
    sheets = [
        path
        for path in paths
        if path.parent == folder and path.suffix.lower() in _SHEETS and path.name not in tables and path.is_file()
    ]
    others = [path for path in sheets if path.suffix.lower() == ".csv" and path.stem in recordings]
    return sorted([*annotations, *(path for path in sheets if path not in others)]), sorted(others)


def _features(study: Study, settings: Settings) -> tuple[list[str], list[str]]:
    """The features that the study's files can have and this machine can make; and, of the others, what they lack."""
    from tasks.extractors.availability import overview

    kinds = {kind for tracks in study.tracks.values() for track in tracks.values() for kind in _kinds(track)}
    if any(len(tracks) > 1 for tracks in study.tracks.values()):
        kinds |= {"microphones", "turns"}
    if study.stories:
        kinds.add("stories")
    possible, lacking = [], []
    for state in overview(settings):
        if not {*state.inputs} - {"video"} <= kinds or ({*state.inputs} == {"video"} and "video" not in kinds):
            continue
        if state.missing:
            lacking.append(f"{state.feature}: {state.missing}")
        else:
            possible.append(state.feature.rpartition("/")[2])
    return list(dict.fromkeys(possible)), lacking


def _kinds(track: Any) -> Iterator[str]:
    yield from (kind for kind in ("video", "transcript", "openface") if getattr(track, kind))
    if track.audio or track.video:
        yield "audio"


def _session_labels(study: Study) -> list[str]:
    """The schemes whose labels are of whole sessions, which a baseline can be made of."""
    counts = Counter(label.scheme for label in study.labels if label.start_s is None)
    return [name for name, _ in counts.most_common(_MOST_LABELS) if study.schemes[name].type != "text"]


def _stored(features: str, set_aside: list[str]) -> list[str]:
    """How many sessions have each feature; adds what failed, with the reason."""
    from storyframes.store import record_status
    from storyframes.store.layout import StoreError, open_store
    from storyframes.store.records import Status

    try:
        entries = list(record_status.scan(open_store(features)))
    except StoreError:
        return []
    done = {(entry.session_id, feature_and_track(entry.feature)[0]) for entry in entries if entry.status is Status.DONE}
    counts = Counter(feature for _, feature in done)
    set_aside += [
        f"{entry.session_id} {entry.feature}: {entry.reason}" for entry in entries if entry.status is Status.FAILED
    ]
    return [f"{features}: {', '.join(f'{name} of {count}' for name, count in counts.items())} sessions"]
