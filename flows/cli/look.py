"""The commands for looking at what there is: ``report``, ``show``, ``view``, ``compare``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.markup import escape

from flows.cli import look_tables
from flows.cli.terminal import (
    ConfigOption,
    FeaturesArgument,
    StudyArgument,
    console,
    error_console,
    fail,
    usage_errors,
)

SessionArgument = Annotated[str, typer.Argument(help="The session.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (report, show, view, compare):
        app.command()(command)


def _need(module: str, extra: str) -> None:
    if find_spec(module) is None:
        fail(f"this needs {module}: pip install 'storyframes[{extra}]'", 2)


def _cannot_write(target: Path, error: OSError) -> NoReturn:
    fail(f"{target}: cannot be written: {error.strerror or error}; what was there before is as it was", 1)


def _short_name(location: str) -> str:
    """The end of a store's location: a page that is handed on does not tell where on a machine it lies."""
    return "/".join(location.rstrip("/").split("/")[-2:])


def report(
    study: StudyArgument,
    features: FeaturesArgument,
    out: Annotated[Path, typer.Option(help="Folder of the site: a new one, an empty one, or an older report.")],
    with_text: Annotated[bool, typer.Option("--with-text", help="Show the transcripts, names included.")] = False,
    with_video: Annotated[bool, typer.Option("--with-video", help="Show frames with landmarks and poses.")] = False,
    check_sound: Annotated[
        bool, typer.Option("--check-sound", help="Decode every recording's sound to find clipped samples.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write a site about a study and its features, to open from disk; no frame and no text unless asked for."""
    _need("plotly", "report")
    from flows.settings import load_settings
    from storyframes.store.feature_store import FeatureStore
    from tasks.inspect.report.folder import ReportError, check_target
    from tasks.inspect.report.site import Disclosure, ReportOptions, build_report
    from tasks.study.load import load_study
    from tasks.study.record import check_study_record

    with usage_errors(), error_console().status("reading the study") as spinner:
        settings, loaded, store = load_settings(config), load_study(study), FeatureStore(features)
        check_study_record(store.storage, loaded)
        try:
            check_target(out)
            built = build_report(
                loaded,
                store,
                settings,
                out,
                ReportOptions(Disclosure(with_text, with_video), check_sound),
                lambda session_id, number, count: spinner.update(f"{number} of {count}: {escape(session_id)}"),
            )
        except ReportError as error:
            fail(str(error), 2)
        except OSError as error:
            _cannot_write(out, error)
    shown = console()
    shown.print(look_tables.report_table(built))
    for person, splits in built.facts.torn.items():
        shown.print(f"[bold red]{escape(person)} is in {escape(' and in '.join(splits))}[/]: write the index again")
    for session_id, problem in built.problems.items():
        shown.print(f"[bold red]{escape(session_id)}[/] {escape(problem)}")
    if with_text or with_video:
        shown.print("[yellow]It holds recordings of people[/]: keep it private.")
    shown.print(f"Open {escape(str(out / 'index.html'))}", soft_wrap=True)


def show(
    features: FeaturesArgument,
    session: SessionArgument,
    json: Annotated[bool, typer.Option("--json", help="For scripts: one object on stdout.")] = False,
) -> None:
    """Show one session: its features, its curves as sparklines, and what looks wrong, with times."""
    from storyframes.store import catalogue
    from storyframes.store.feature_store import FeatureStore
    from tasks.inspect.curves.read import read_curves

    with usage_errors():
        store = FeatureStore(features)
        entries = [one for one in catalogue.scan(store.storage) if one.session_id == session]
        if not entries:
            store.session(session)  # says which session is unknown, and of how many
        curves = read_curves(store, session) if "frames" in store.features(session) else None
    if json:
        print(look_tables.session_json(session, entries, curves))  # noqa: T201
        return
    shown = console()
    for part in look_tables.session_tables(entries, curves):
        shown.print(part)


def view(
    study: StudyArgument,
    features: FeaturesArgument,
    session: SessionArgument,
    out: Annotated[Path | None, typer.Option(help="The .rrd file; SESSION.rrd here otherwise.")] = None,
    with_video: Annotated[bool, typer.Option("--with-video/--without-video", help="With the frames.")] = True,
) -> None:
    """Export a session as a rerun.io recording: frames, landmarks, poses and curves on one timeline."""
    _need("rerun", "view")
    from storyframes.store.feature_store import FeatureStore
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.inspect.rerun_export import export_recording
    from tasks.media.container import RecordingError
    from tasks.planning.selection import Selection, check_selection
    from tasks.study.load import load_study
    from tasks.study.record import check_study_record

    target = out or Path(f"{session}.rrd")
    with usage_errors(), error_console().status("exporting") as spinner:
        loaded = load_study(study)
        check_selection(loaded, ExtractorsSettings(), Selection((session,)))
        store = FeatureStore(features)
        check_study_record(store.storage, loaded)
        video = loaded.path(loaded.sessions[session].video) if with_video else None
        try:
            frames = export_recording(
                store,
                session,
                video,
                target,
                lambda done, count: spinner.update(f"{done} of {count} frames"),
            )
        except RecordingError as error:
            fail(str(error), 2)
        except OSError as error:
            _cannot_write(target, error)
    private = "; it holds pictures of the recording, keep it private" if with_video else ""
    console().print(f"{escape(str(target))}: {frames} frames{private}", soft_wrap=True)
    console().print(f"Look at it with: rerun {escape(str(target))}", soft_wrap=True)


def compare(
    features_a: Annotated[str, typer.Argument(help="A feature store, say from before an upgrade.")],
    features_b: Annotated[str, typer.Argument(help="Another one of the same study.")],
    only: Annotated[list[str] | None, typer.Option(help="Only this feature; repeat for more.")] = None,
    tolerance: Annotated[
        list[str] | None, typer.Option(help="FEATURE=NUMBER or FEATURE.COLUMN=NUMBER; repeat for more.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Allow no differences where --tolerance names none.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write a page into this folder.")] = None,
    json: Annotated[bool, typer.Option("--json", help="For scripts: one object on stdout.")] = False,
) -> None:
    """Compare two feature stores column by column; exit 0 if they are the same within tolerance, 1 if not."""
    from storyframes.features import FEATURES
    from storyframes.store.feature_store import FeatureStore
    from tasks.inspect.compare import compare_stores
    from tasks.inspect.tolerances import ToleranceError, parse_tolerances

    for feature in only or ():
        if feature not in FEATURES:
            fail(f"there is no feature {feature!r}; there are {', '.join(FEATURES)}", 2)
    if out:
        _need("plotly", "report")
    with usage_errors(), error_console().status("comparing") as spinner:
        try:
            allowed = parse_tolerances(tolerance or [], exact=exact)
        except ToleranceError as error:
            fail(str(error), 2)
        a, b = FeatureStore(features_a), FeatureStore(features_b)
        compared = compare_stores(
            a, b, allowed, tuple(only) if only else None, lambda name: spinner.update(f"comparing {escape(name)}")
        )
    if out:
        from tasks.inspect.report.compare_page import write_comparison
        from tasks.inspect.report.folder import ReportError

        try:
            write_comparison(compared, _short_name(features_a), _short_name(features_b), out)
        except ReportError as error:
            fail(str(error), 2)
        except OSError as error:
            _cannot_write(out, error)
    if json:
        print(look_tables.comparison_json(compared))  # noqa: T201
    else:
        shown = console()
        for part in look_tables.comparison_tables(compared):
            shown.print(part)
        if out:
            shown.print(f"Open {escape(str(out / 'index.html'))}", soft_wrap=True)
    if not compared.same:
        raise typer.Exit(1)
