"""The command ``storyframes export``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows import progress_bar
from flows.cli import LOOK, JsonOption, StoreArgument, console, error_console, listed, usage_errors
from storyframes_release.options import StudyOption

if TYPE_CHECKING:
    from storyframes_release.annotations.run import ExportedAnnotations
    from storyframes_release.export.clips import ExportedClips
    from storyframes_release.nwb.run import ExportedNwb
    from tasks.study import Utterance

app = typer.Typer(add_completion=False, **LOOK)


@app.command("export", rich_help_panel="Keep and share", epilog="Next: storyframes status STORE")
def export_store(
    store: StoreArgument,
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="parquet, csv, npy, hdf5, mat, bids, nwb, others; clips: mmsa, datasets, webdataset; "
            "annotations: eaf, textgrid.",
        ),
    ] = "parquet",
    session: Annotated[
        list[str] | None, typer.Option(help="Only this session, stories for the texts; repeat for more.")
    ] = None,
    study: StudyOption = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Only these (openface, openface.gaze), of all tracks (FEATURE@TRACK: of one); with commas."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Rows a second, each the nearest stored row; by default all stored rows.")
    ] = None,
    per: Annotated[
        str | None, typer.Option(help="word or utterance: a row for each, frames and sound pooled over it.")
    ] = None,
    functionals: Annotated[
        list[str] | None, typer.Option(help="With --per: mean, std, max, with commas; the mean otherwise.")
    ] = None,
    by: Annotated[str, typer.Option(help="clip, or for datasets also session: whole sessions, row by row.")] = "clip",
    where: Annotated[str | None, typer.Option(help="Only clips that match, such as 'face_tracked >= 0.9'.")] = None,
    label: Annotated[str, typer.Option(help="The label of clips for mmsa, a column of the clip index.")] = "",
    raw_text: Annotated[
        Path | None, typer.Option(help="For mmsa: the study whose transcripts are written into the file as they are.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", help="With --raw-text or --with-text: the TOML file that features were extracted with."
        ),
    ] = None,
    bert_tokenizer: Annotated[
        Path | None, typer.Option(help="With --raw-text: the folder of a tokenizer, whose tokens are 'text_bert'.")
    ] = None,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="For eaf and textgrid: also words, speakers and private labels.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an earlier export.")] = False,
    json: JsonOption = False,
) -> None:
    """Export features as tables or arrays, clips for training programs, or annotations for ELAN and Praat."""
    # pandas and the rest here: storyframes --help imports this module
    from storyframes import FeatureStore
    from storyframes_release.export.clip_formats import CLIP_WRITERS
    from storyframes_release.export.clips import export_clips
    from storyframes_release.export.formats import NWB, OF_ANNOTATIONS, ExportError
    from storyframes_release.export.run import export
    from storyframes_release.study_sessions import study_sessions

    names = listed("--features", features)
    computed = tuple(listed("--functionals", functionals)) or ("mean",)
    with usage_errors(), progress_bar("exporting") as progress:
        if config is not None and raw_text is None and not with_text:
            raise ExportError(
                f"--config {config}: says how transcripts are read: give --raw-text STUDY, or --with-text, too"
            )
        if with_text and format_ not in OF_ANNOTATIONS:
            raise ExportError(f"--with-text is of annotations: {', '.join(OF_ANNOTATIONS)}")
        if format_ in (NWB, *OF_ANNOTATIONS):
            if study is None:
                raise ExportError(f"--format {format_}: labels and recordings are of the study: give --study STUDY")
            of_others: dict[str, object] = {"--rate": rate, "--per": per, "--functionals": functionals}
            of_others |= {"--by": None if by == "clip" else by, "--where": where, "--label": label}
            of_others |= {"--raw-text": raw_text, "--bert-tokenizer": bert_tokenizer}
            if refused := [option for option, value in of_others.items() if value is not None and value != ""]:
                raise ExportError(
                    f"--format {format_} has what is stored: choose sessions with --session, and leave out "
                    f"{', '.join(refused)}"
                )
            if format_ == NWB:
                from storyframes_release.nwb.run import export_nwb  # needs the pipeline, so Linux

                nwb = export_nwb(
                    FeatureStore(store),
                    study,
                    out,
                    sessions=tuple(session or ()),
                    features=names,
                    replace=replace,
                    progress=progress,
                )
                _show(out, nwb, f"{len(nwb.sessions)} files", json=json, unreadable=nwb.unreadable)
                if nwb.unreadable:
                    raise typer.Exit(1)
                return
            if names:
                raise ExportError(f"--format {format_} has annotations over time: choose sessions with --session")
            from storyframes_release.annotations.run import export_annotations  # needs the pipeline, so Linux

            annotations = export_annotations(
                FeatureStore(store),
                study,
                out,
                format_,
                sessions=tuple(session or ()),
                utterances=said_in(study, config, "--with-text") if with_text else None,
                replace=replace,
            )
            count = sum(sum(tiers.values()) for tiers in annotations.tiers.values())
            _show(out, annotations, f"{len(annotations.tiers)} files with {count:,} annotations", json=json)
            return
        if by not in ("clip", "session") or (by == "session" and format_ in CLIP_WRITERS and format_ != "datasets"):
            raise ExportError(f"--by {by}: mmsa and webdataset have clips, datasets has clips or sessions")
        if format_ in CLIP_WRITERS and by == "clip":
            if session or rate is not None:
                raise ExportError(
                    f"--format {format_} has clips: choose them with --where, without --session and --rate"
                )
            tokenizer = None
            if bert_tokenizer is not None:
                from storyframes_release.export.bert_tokens import BertTokens

                tokenizer = BertTokens(bert_tokenizer)
            opened = FeatureStore(store)
            clips = export_clips(
                opened,
                out,
                format_,
                known=study_sessions(opened, study or raw_text),
                features=names,
                where=where,
                label=label,
                per=per,
                functionals=computed,
                words=None if raw_text is None else spoken_words(raw_text, config),
                tokenizer=tokenizer,
                replace=replace,
            )
            splits = ", ".join(f"{split} {count:,}" for split, count in clips.splits.items())
            _show(out, clips, f"{sum(clips.splits.values()):,} clips: {splits}", json=json)
            return
        if where is not None or label or raw_text is not None or bert_tokenizer is not None:
            raise ExportError(f"--where, --label and --raw-text are of clips: {', '.join(CLIP_WRITERS)}")
        opened = FeatureStore(store)
        done = export(
            opened,
            out,
            format_,
            known=study_sessions(opened, study),
            sessions=tuple(session or ()),
            features=names,
            rate=rate,
            per=per,
            functionals=computed,
            replace=replace,
            progress=progress,
        )
    for line in done.people:
        error_console().print(escape(line))
    for omission in done.left_out:
        where = escape(f"{omission['session_id']}/{omission['feature']}")
        error_console().print(f"[yellow]left out[/] {where}: {escape(omission['reason'])}")
    if json:
        print(done.to_json(), end="")  # noqa: T201
    else:
        sessions = len({table["session_id"] for table in done.tables})
        size = sum(int(file["bytes"]) for file in done.files.values())
        console().print(f"{escape(str(out))}: {len(done.tables)} tables of {sessions} sessions, {size:,} bytes")
        console().print("README.md there says what each file is; they are measurements of persons, keep them private")
    if done.left_out:
        raise typer.Exit(1)


def _show(
    out: Path,
    done: ExportedClips | ExportedAnnotations | ExportedNwb,
    count: str,
    *,
    json: bool,
    unreadable: Sequence[str] = (),
) -> None:
    for line in done.people:
        error_console().print(escape(line))
    for line in [*unreadable, *done.left_out]:
        error_console().print(f"[yellow]left out[/] {escape(line)}")
    if json:
        print(done.to_json(), end="")  # noqa: T201 - JSON for programs, as it is
        return
    console().print(f"{escape(str(out))}: {count}")
    console().print("README.md there says what each file is, and what is lost; keep them private")


def spoken_words(study: Path, config: Path | None = None) -> Callable[[str], list[tuple[float, str]]]:
    """The words of a study's transcripts by session, each with its start in seconds; see :func:`said_in`."""
    said = said_in(study, config, "--raw-text")

    def words(session_id: str) -> list[tuple[float, str]]:
        spoken = [word for utterance in said(session_id) for word in utterance.words]
        return [(word.start_s, word.text) for word in sorted(spoken, key=lambda word: word.start_s)]

    return words


def said_in(study: Path, config: Path | None, option: str) -> Callable[[str], Sequence[Utterance]]:
    """The utterances of a study's transcripts by session; none of a session without a transcript.

    The function refuses a session that the study does not have: the study is another one.

    Args:
        config: says how transcripts are read.
        option: what asks for them, for messages.
    """
    from flows import load_settings
    from storyframes_release.export.formats import ExportError
    from tasks.study import UnusableFileError, load_study, read_transcript

    settings = load_settings(config)
    loaded, how = load_study(study, recordings=settings.recording.root), settings.transcript

    def utterances(session_id: str) -> Sequence[Utterance]:
        if session_id not in loaded.sessions:
            raise ExportError(f"{option} {study}: it has no session {session_id!r}, which the store has")
        path = loaded.sessions[session_id].transcript
        if path is None:
            return ()
        try:
            transcript = read_transcript(
                loaded.path(path), allow_malformed=how.allow_malformed_cues, speaker_prefixes=how.speaker_prefixes
            )
        except UnusableFileError as error:
            raise ExportError(f"{option} {study}: {error}") from None
        return transcript.utterances

    return utterances
