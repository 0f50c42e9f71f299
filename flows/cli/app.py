"""The command line: ``storyframes COMMAND``.

Exit codes: 0 done; 1 some or all sessions failed, or damage was found; 2 bad usage, a bad study or configuration, or
nothing that could be started; 130 and 143 interrupted by Ctrl-C and by SIGTERM.
Data goes to stdout, progress and errors to stderr. What takes long to import is imported where it is needed.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Group, RenderableType
    from rich.live import Live
    from rich.markup import escape
except ModuleNotFoundError:  # the light reader alone is installed
    sys.exit("The storyframes command needs the pipeline: pip install 'storyframes[pipeline]'")

import storyframes
from flows import interruption
from flows.cli import deploy as deploy_command
from flows.cli import look, tables, terminal
from flows.cli import models as models_commands
from flows.cli import plan as plan_command
from flows.cli.terminal import ConfigOption, FeaturesArgument, ReplaceStudyOption, StudyArgument
from tasks.inspect.human import counted, human_bytes

app = typer.Typer(
    name="storyframes",
    help="From session recordings to training-ready multimodal features.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    **terminal.LOOK,
)
app.add_typer(models_commands.models_app, name="models")


def _version(asked: bool) -> None:
    if asked:
        print(f"storyframes {storyframes.__version__}")  # noqa: T201
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


@app.command()
def check(study: StudyArgument, config: ConfigOption = None) -> None:
    """Validate a study's tables and open every file that they name; report every problem at once."""
    from flows.settings import load_settings
    from tasks.inspect.study_check import check_study
    from tasks.study.load import StudyError

    with terminal.usage_errors(), terminal.error_console().status("reading the tables") as spinner:
        settings = load_settings(config)
        loaded, problems = check_study(
            study,
            settings,
            lambda number, count: spinner.update(f"opening the files of session {number} of {count}"),
        )
        if problems:
            for line in tables.not_read(loaded):  # the column that was meant, perhaps
                terminal.error_console().print(line)
            raise StudyError(study, problems)
    console = terminal.console()
    console.print(f"[green]valid[/] {escape(str(study))}")
    console.print(tables.study_table(loaded))


app.command()(plan_command.plan)
app.command()(deploy_command.deploy)


@app.command()
def extract(
    study: StudyArgument,
    features: FeaturesArgument,
    session: Annotated[list[str] | None, typer.Option(help="Only this session; repeat for more.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this feature; repeat for more.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Extract again what is up to date.")] = False,
    replace_study: ReplaceStudyOption = False,
    config: ConfigOption = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="A cluster's YAML file (deploy/clusters), or tls://host:port of a Dask scheduler."),
    ] = None,
) -> None:
    """Bring the features of a study up to date; what is up to date is not touched."""
    from flows.cli.run import run_extraction
    from flows.request import ExtractionRequest

    request = ExtractionRequest(
        study=study,
        features=features,
        config=config,
        cluster=cluster,
        session_ids=tuple(session or ()),
        only=tuple(only or ()),
        force=force,
        replace_study=replace_study,
    )
    with terminal.usage_errors():
        report = run_extraction(request, terminal.error_console())
    _show_report(features, report)
    if not report.good:
        raise typer.Exit(1)


def _show_report(features: str, report) -> None:  # type: ignore[no-untyped-def]
    from storyframes.store import catalogue
    from storyframes.store.layout import open_store

    touched = {(outcome.session_id, outcome.feature) for outcome in report.outcomes}
    entries = list(catalogue.scan(open_store(features)))
    if touched:  # else nobody could say what the run did
        entries = [entry for entry in entries if (entry.session_id, entry.feature) in touched]
    console = terminal.console()
    console.print(*tables.status(entries), sep="\n")
    for line in tables.without_clips(report.excluded, report.warnings):
        console.print(line)
    index = "" if report.problem else f"; the clip index has {counted(report.clips, 'clip')}"
    console.print(escape(f"This run: {report}{index}."))


@app.command()
def index(
    study: StudyArgument,
    features: Annotated[str | None, typer.Argument(help="Feature store whose clips.parquet is written.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write here instead, from the tables alone.")] = None,
    replace_study: ReplaceStudyOption = False,
    config: ConfigOption = None,
) -> None:
    """Write the clip index: one row per sliding window and rating."""
    from flows.settings import load_settings
    from storyframes.store import catalogue
    from storyframes.store.feature_store import FeatureStore
    from storyframes.store.layout import open_store
    from tasks.index import build_clip_index, export_clip_index, write_clip_index
    from tasks.study.load import load_study
    from tasks.study.record import remember_study

    if (features is None) == (out is None):
        terminal.fail("give either FEATURES or --out FILE.parquet", 2)
    with terminal.usage_errors():
        settings = load_settings(config)
        loaded = load_study(study)
        if features is not None:
            storage = open_store(features)
            remember_study(storage, loaded, replace=replace_study)
            catalogue.compact(storage)
            built = build_clip_index(loaded, settings.clips, FeatureStore(features))
            write_clip_index(built.clips, storage)
        elif out is not None:
            built = build_clip_index(loaded, settings.clips, None)
            export_clip_index(built.clips, out)
    console, clips = terminal.console(), built.clips
    console.print(f"{counted(len(clips), 'clip')} of {settings.clips.window} frames, stride {settings.clips.stride}")
    if len(clips):
        console.print(tables.clips_table(clips))
    for line in tables.without_clips(built.excluded, built.warnings):
        terminal.error_console().print(line)
    if built.excluded:
        raise typer.Exit(1)


@app.command()
def status(
    features: FeaturesArgument,
    json: Annotated[bool, typer.Option("--json", help="For scripts: a list of objects on stdout.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 5,
) -> None:
    """Show what a feature store has, what is missing, and why."""
    from storyframes.store import catalogue
    from storyframes.store.layout import open_store

    with terminal.usage_errors():
        storage = open_store(features)
        if watch:
            _watch(lambda: Group(*tables.status(list(catalogue.scan(storage)))), every)
            return
        entries = list(catalogue.scan(storage))
    if json:
        print(tables.status_json(entries))  # noqa: T201
    else:
        terminal.console().print(*tables.status(entries), sep="\n")


def _watch(look: Callable[[], RenderableType], every_s: float) -> None:
    with contextlib.suppress(KeyboardInterrupt), Live(look(), console=terminal.console(), auto_refresh=False) as live:
        while True:
            time.sleep(every_s)
            live.update(look(), refresh=True)


@app.command()
def runs(
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="For scripts: a list of objects on stdout.")] = False,
) -> None:
    """Show the last runs on the Prefect server, and how they ended."""
    from flows.runs.recent import recent_runs
    from flows.runs.server import prefect_server

    with (
        terminal.usage_errors(),
        terminal.error_console().status("asking the Prefect server"),
        prefect_server(looking=True),
    ):
        found = recent_runs(limit)
    if json:
        print(tables.runs_json(found))  # noqa: T201
    else:
        terminal.console().print(tables.runs_table(found))


@app.command()
def verify(
    features: FeaturesArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write the Zarr groups again, which are always the same.")
    ] = False,
) -> None:
    """Read every byte of every current version and compare it with what was published."""
    from flows.cli.repair_advice import repair_advice
    from storyframes.store import maintenance
    from storyframes.store.layout import open_store

    errors = terminal.error_console()
    with terminal.usage_errors(), errors.status("verifying") as spinner:
        checked = 0

        def progress(session_id: str, feature: str) -> None:
            nonlocal checked
            checked += 1
            spinner.update(f"verifying {session_id}/{feature}")

        storage = open_store(features, damaged=True)
        repaired = maintenance.repair(storage) if repair else []
        findings = list(maintenance.verify(storage, progress))
    console = terminal.console()
    for path in repaired:
        console.print(f"[yellow]repaired[/] {escape(path)}")
    if findings:
        console.print(tables.findings_table(findings))
        for line in repair_advice(storage, findings):
            console.print(escape(line))
        if unread := sum(finding.unreadable for finding in findings):
            console.print(f"Whether {unread} of them are sound is not known: they cannot be read.")
        raise typer.Exit(1)
    console.print(f"[green]sound[/] {counted(checked, 'feature')}: every file is as it was published")


@app.command()
def gc(
    features: FeaturesArgument,
    grace_hours: Annotated[float, typer.Option(min=0, help="Keep what was current or touched this recently.")] = 168,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go.")] = False,
) -> None:
    """Remove superseded versions and what killed runs left behind, in the store and in the temporary folder here."""
    from rich.markup import escape

    from storyframes.store import maintenance, scratch
    from storyframes.store.layout import open_store

    unread: dict[str, str] = {}
    with terminal.usage_errors():
        found = maintenance.collect(
            open_store(features), grace_hours * 3600, dry_run=dry_run, unreadable=unread.__setitem__
        )
        removals = list(found)
    console = terminal.console()
    if removals:
        console.print(tables.removals_table(removals))
    size = human_bytes(sum(removal.bytes for removal in removals))
    console.print(f"{'would remove' if dry_run else 'removed'} {counted(len(removals), 'path')}, {size}")
    if leftovers := scratch.sweep(dry_run=dry_run):
        size = human_bytes(sum(leftover.bytes for leftover in leftovers))
        done = "to be removed" if dry_run else "removed"
        console.print(f"temporary folders of killed processes on this machine: {len(leftovers)} {done}, {size}")
    if unread:
        for reason in unread.values():
            terminal.error_console().print(f"[bold red]not looked at[/] {escape(reason)}")
        raise typer.Exit(1)


@app.command()
def archive(
    features: FeaturesArgument,
    dest: Annotated[str, typer.Argument(help="A new feature store, or one to bring up to date.")],
) -> None:
    """Copy the current versions into a compressed store (zstd): smaller, plain Zarr, slower to read."""
    from storyframes.store.archive import archive as copy_compressed
    from storyframes.store.layout import create_store, open_store

    interruption.promise(interruption.GOES_ON)
    with terminal.usage_errors(), terminal.error_console().status("archiving") as spinner:
        source, target = open_store(features), create_store(dest)
        before = after = count = 0
        sizes = {path: info.bytes for path, info in source.files().items()}
        for current in copy_compressed(source, target):
            spinner.update(f"archiving {current.session_id}/{current.feature}")
            count += 1
            after += current.nbytes
            folder = f"{current.session_id}/{current.feature}/"
            before += sum(size for path, size in sizes.items() if path.startswith(folder))
    terminal.console().print(
        f"{counted(count, 'feature')}, {human_bytes(before)} -> {human_bytes(after)} in {escape(dest)}"
    )


@app.command()
def synthesize(
    folder: Annotated[Path, typer.Argument(help="A new folder for the study.")],
    sessions: Annotated[int, typer.Option(min=1, help="How many sessions.")] = 4,
    seconds: Annotated[float, typer.Option(min=1, help="Length of each.")] = 30,
    seed: Annotated[int, typer.Option(help="Seeds everything that is drawn.")] = 0,
) -> None:
    """Make a study of synthetic recordings, for benchmarks and for trying things."""
    from tasks.media.synthesize import SynthesisError, SyntheticStudy, write_study

    errors = terminal.error_console()
    plan = SyntheticStudy(sessions=sessions, seconds=seconds, seed=seed)
    with errors.status("synthesizing") as spinner:
        try:
            write_study(folder, plan, lambda name: spinner.update(f"synthesizing {name}"))
        except SynthesisError as error:
            terminal.fail(str(error), 2)
    terminal.console().print(f"{counted(sessions, 'session')} of {seconds:g} s in {escape(str(folder))}")


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put it.")] = Path("storyframes-demo"),
) -> None:
    """Extract the demo study that comes with storyframes, and read a clip back."""
    from flows.cli.demo import copy_demo
    from flows.cli.run import run_extraction
    from flows.request import ExtractionRequest
    from storyframes.store.feature_store import FeatureStore

    copied = copy_demo(folder)
    request = ExtractionRequest(study=copied.study, features=str(copied.features), config=copied.config)
    with terminal.usage_errors():
        report = run_extraction(request, terminal.error_console())
    _show_report(str(copied.features), report)
    console = terminal.console()
    store = FeatureStore(copied.features)
    clips = store.clips()
    if len(clips) and report.good:
        clip = clips.iloc[0]
        vision = store.read(clip["session_id"], "vision", clip["start_frame"], clip["stop_frame"])
        console.print(f"\nClip {clip['clip_id']}: vision {vision.shape} {vision.dtype}, empathy {clip['empathy']}")
    base = escape(str(folder))
    console.print("\nNext:")
    console.print(f"  storyframes status {base}/features")
    console.print(f"  storyframes verify {base}/features")
    console.print(
        f"  storyframes extract {base}/study {base}/features --config {base}/storyframes.toml "
        "--session p01-s02 --only resnet50 --force",
        soft_wrap=True,
    )
    console.print("  storyframes models list          # the trained weights, and how to get them")
    if not report.good:
        raise typer.Exit(1)


@app.command()
def overlay(
    study: StudyArgument,
    features: FeaturesArgument,
    session: Annotated[str, typer.Argument(help="The session.")],
    out: Annotated[Path, typer.Option(help="PNG file to write.")],
    frame: Annotated[int, typer.Option(min=0, help="Which frame, from 0.")] = 0,
) -> None:
    """Draw landmarks and poses on one frame, to look at: writes a picture of the recording where you say."""
    from storyframes.store.feature_store import FeatureStore
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.inspect.overlay import OverlayError, draw_overlay, write_picture
    from tasks.planning.selection import Selection, check_selection
    from tasks.study.load import StudyFileError, load_study
    from tasks.study.record import check_study_record

    with terminal.usage_errors():
        loaded = load_study(study)
        check_selection(loaded, ExtractorsSettings(), Selection((session,)))
        store = FeatureStore(features)
        check_study_record(store.storage, loaded)
    try:
        picture = draw_overlay(loaded.path(loaded.sessions[session].video), store, session, frame)
    except (OverlayError, StudyFileError) as error:
        terminal.fail(str(error), 2)
    write_picture(picture, out)
    terminal.console().print(
        f"{escape(str(out))}: a picture of the recording, {picture.shape[1]}x{picture.shape[0]}; keep it private"
    )


look.register(app)
