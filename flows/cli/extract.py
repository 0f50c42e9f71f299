"""The commands that extract: ``extract`` a study, ``extract-file`` one recording, or the ``demo``."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli.terminal import (
    ConfigOption,
    JsonOption,
    Partly,
    ReplaceStudyOption,
    StoreArgument,
    StudyArgument,
    cannot_write,
    console,
    error_console,
    extractors_table,
    fail,
    listed,
    show_json,
    usage_errors,
)
from flows.interruption import GOES_ON, promise
from flows.progress import progress_bar
from tasks.inspect.formatting import counted

if TYPE_CHECKING:
    from flows.request import ExtractionRequest
    from flows.run import RunResult


def extract(
    study: StudyArgument,
    store: StoreArgument,
    session: Annotated[list[str] | None, typer.Option(help="Only this session; repeat for more.")] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Only these features, with commas between them; repeat for more.")
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Only this track, main for the sessions' own files; repeat for more."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also extract features that are up to date.")] = False,
    replace_study: ReplaceStudyOption = False,
    config: ConfigOption = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="A cluster's YAML file (deploy/clusters), or tls://host:port of a Dask scheduler."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processors of this machine to use; with 1 in this process.")
    ] = None,
    server: Annotated[
        bool, typer.Option("--server", help="Start a Prefect server and workers for a small study, too.")
    ] = False,
    part: Annotated[
        str | None,
        typer.Option(
            help="Extract one part (3/40) in this process; in the end run 'storyframes index' (docs/clusters.md)."
        ),
    ] = None,
    allow_mixed: Annotated[
        bool,
        typer.Option(
            "--allow-mixed", help="Extract a part with other settings or code than other parts; a caveat says so."
        ),
    ] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="Extract nothing; remove the notes of --part from the store.")
    ] = False,
    json: JsonOption = False,
) -> object:
    """Extract a study's features; features that are up to date are skipped.

    A small study is extracted in this process; a larger one, or where PREFECT_API_URL names a server, by workers.
    """
    from flows.cli.run import run_extraction
    from flows.request import PART, ExtractionRequest

    if part is not None and (cluster or server):
        fail(f"--part {part} is done in this process alone: leave out --cluster and --server", 2)
    if part is not None and not PART.fullmatch(part):
        fail(f"--part {part!r} is not NUMBER/COUNT, as 3/40", 2)
    if part is None and (allow_mixed or drop):
        fail(f"{'--drop' if drop else '--allow-mixed'} is about a part: give --part NUMBER/COUNT too", 2)
    request = ExtractionRequest(
        study=study,
        features=store,
        config=config,
        cluster=cluster,
        workers=workers,
        part=part,
        allow_mixed=allow_mixed,
        session_ids=tuple(session or ()),
        only=listed("--features", features),
        tracks=tuple(track or ()),
        force=force,
        replace_study=replace_study,
    )
    if drop:
        _drop_part(request)
        return ""
    with usage_errors():
        result = run_extraction(request, error_console(), server=server)
    index = ""
    if part is not None:
        index = shlex.join(["storyframes", "index", str(study), store, *(("--config", str(config)) if config else ())])
    if json:
        show_json({"good": result.good, **asdict(result)})
    elif part is not None:
        console().print(escape(f"Part {part}: {result}. When all parts have ended: {index}"), soft_wrap=True)
    else:
        _show_result(store, result)
    if not result.good:
        raise Partly(index or result)
    return index or result


def _drop_part(request: ExtractionRequest) -> None:
    from flows.noted_part import array_of
    from flows.part_records import drop_part
    from storyframes.store.layout import open_store

    with usage_errors():
        name, array, number = array_of(request, request.load_settings())
        drop_part(open_store(request.features), name, array, number)
    console().print(f"Part {request.part} is no longer noted; what it extracted stays in the store.")


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put it.")] = Path("storyframes-demo"),
) -> None:
    """Extract the demo study that comes with storyframes, and read a clip back."""
    from flows.cli.run import run_extraction
    from flows.request import ExtractionRequest
    from storyframes.store.feature_store import FeatureStore

    copied = copy_demo(folder)
    request = ExtractionRequest(study=copied.study, features=str(copied.features), config=copied.config)
    with usage_errors():
        result = run_extraction(request, error_console())
    _show_result(str(copied.features), result)
    shown = console()
    store = FeatureStore(copied.features)
    clips = store.clips()
    if len(clips) and result.good:
        clip = clips.iloc[0]
        vision = store.read(clip["session_id"], "vision.measured", clip["start_frame"], clip["stop_frame"])
        shown.print(
            f"\nClip {clip['clip_id']}: vision.measured {vision.shape} {vision.dtype}, empathy {clip['empathy']}"
        )
    base = escape(str(folder))
    shown.print("\nNext:")
    shown.print(f"  storyframes status {base}/features")
    shown.print(f"  storyframes verify {base}/features")
    shown.print(
        f"  storyframes extract {base}/study {base}/features --config {base}/storyframes.toml "
        "--session p01-s02 --features resnet50 --force",
        soft_wrap=True,
    )
    shown.print("  storyframes models list          # the trained weights, and how to get them")
    if not result.good:
        raise typer.Exit(1)


def _show_result(store: str, result: RunResult) -> None:
    from flows.cli.clips import without_clips
    from flows.cli.status_tables import status_tables
    from storyframes.store import record_status
    from storyframes.store.layout import open_store

    touched = {(outcome.session_id, outcome.feature) for outcome in result.outcomes}
    entries = record_status.scan(open_store(store))
    if touched:  # else nobody could say what the run did
        entries = (entry for entry in entries if (entry.session_id, entry.feature) in touched)
    shown = console()
    shown.print(*status_tables(entries), sep="\n")
    for line in without_clips(result.excluded, result.warnings, result.remarks):
        shown.print(line)
    index = "" if result.problem else f"; the clip index has {counted(result.clips, 'clip')}"
    shown.print(escape(f"This run: {result}{index}."))


_FORMATS = (".parquet", ".csv")


def extract_file(
    file: Annotated[Path, typer.Argument(help="A video, or a file of sound alone.")],
    features: Annotated[
        list[str] | None,
        typer.Option(help="Features, or parts of them (openface.gaze), with commas between them; else list them."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The .parquet or .csv file to write; for several features OUT.<feature>.parquet."),
    ] = None,
    transcript: Annotated[Path | None, typer.Option(help="The transcript, for features of words.")] = None,
    audio: Annotated[Path | None, typer.Option(help="The sound, if it is another file.")] = None,
    openface_csv: Annotated[Path | None, typer.Option(help="An existing CSV of OpenFace for this recording.")] = None,
    unmeasured: Annotated[
        bool, typer.Option("--unmeasured", help="Include values that were not measured; by default they are empty.")
    ] = False,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Keep the features for the next call.")] = True,
    config: ConfigOption = None,
) -> object:
    """Extract features of one recording as tables: times as index, a named column for each number."""
    if out is not None and out.suffix not in _FORMATS:
        fail(f"{out}: the name of a table ends in {' or '.join(_FORMATS)}", 2)
    from flows.one_file import extract_one, is_several, write_table
    from storyframes.one_file import ExtractedFile, ExtractFileError

    if is_several(file):
        fail(f"{file}: give one recording; 'storyframes init' makes a study of a folder", 2)
    others = {"transcript": transcript, "audio": audio, "openface": openface_csv}
    given = {kind: path for kind, path in others.items() if path is not None}
    if features is None:
        return _list_features(file, given, config)
    names = listed("--features", features)
    if cache:
        promise(GOES_ON)
    with usage_errors(), progress_bar("extracting") as progress:
        try:
            extracted = extract_one(
                file,
                names,
                given,
                config=config,
                cache=cache,
                sections={},
                progress=progress,
            )
        except ExtractFileError as error:
            fail(str(error), 1)
    assert isinstance(extracted, ExtractedFile)
    for name, feature_caveats in extracted.caveats.items():
        error_console().print(f"[yellow]caveat of {escape(name)}:[/] {escape('; '.join(feature_caveats))}")
    if out is None:
        console().print(escape(repr(extracted)))
    targets = {} if out is None else {name: _target(out, name, len(names)) for name in extracted.asked}
    for name, target in targets.items():
        table = extracted.to_pandas(name, unmeasured=unmeasured)
        try:
            write_table(table, target)
        except OSError as error:
            cannot_write(target, error)
        console().print(f"{escape(str(target))}: {len(table)} rows, {table.shape[1]} columns")
    for name, reason in extracted.failed.items():
        error_console().print(f"[bold red]failed[/] {escape(name)}: {escape(reason)}")
    if extracted.failed:
        raise typer.Exit(1)
    return None


_OPTIONS = {"openface": "openface-csv"}


def _list_features(file: Path, given: Mapping[str, Path], config: Path | None) -> str:
    """Show the features that can be made of a recording and what comes with it; gives the next command."""
    from flows.settings import load_settings
    from tasks.extractors.availability import overview
    from tasks.extractors.registry import build_extractors
    from tasks.media.container import RecordingError
    from tasks.media.video_header import read_streams
    from tasks.planning.selection import possible_extractors
    from tasks.study.rows import Track

    with usage_errors():
        settings = load_settings(config)
        try:
            streams = read_streams(file)
        except RecordingError as error:
            fail(str(error), 1)
        kinds = {*given} | ({"video"} if streams.has_video else {"audio"})
        track = Track("file", "file", **{kind: str(file) for kind in kinds})
        possible = possible_extractors(build_extractors(settings, ""), track)
        lacking = {"microphones"} | ({"audio"} if not (streams.has_sound or "audio" in given) else set())
        possible = {name: made for name, made in possible.items() if not lacking & {*made.inputs}}
        states = [state for state in overview(settings) if state.feature in possible]
    console().print(extractors_table(states))
    features = ",".join(state.feature for state in states if not state.missing)
    options = [f"--{_OPTIONS.get(kind, kind)}={path}" for kind, path in given.items()]
    options += [f"--config={config}"] if config else []
    words = ["storyframes", "extract-file", str(file), *options, "--features", features]
    return shlex.join(words) if features else "storyframes doctor"


def _target(out: Path, feature: str, count: int) -> Path:
    """A table for each feature: their rows are at other times."""
    return out if count == 1 else out.with_name(f"{out.stem}.{feature}{out.suffix}")


@dataclass(frozen=True)
class Demo:
    """A copy of the demo that a user may change."""

    study: Path  # the study's folder
    config: Path  # its configuration
    features: Path  # where its features go


def copy_demo(folder: Path) -> Demo:
    """Copy the demo study into ``folder`` unless it is there already."""
    source = _packaged_demo()
    if not (folder / "study").is_dir():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copytree(source / "study", folder / "study", copy_function=shutil.copyfile)  # all with one time
    for name in ("storyframes.toml", "glove.demo.300d.txt", "README.md"):
        if not (folder / name).exists():
            shutil.copy2(source / name, folder / name)
    return Demo(folder / "study", folder / "storyframes.toml", folder / "features")


def demo_video() -> Path:
    """A video with a face in it."""
    return _packaged_demo() / "study" / "videos" / "p01-s01.avi"


def _packaged_demo() -> Path:
    """The wheel carries the demo inside this package; a checkout has it at its top."""
    here = Path(__file__).parent
    inside = here / "demo_study"
    return inside if inside.is_dir() else here.parents[1] / "demo"
