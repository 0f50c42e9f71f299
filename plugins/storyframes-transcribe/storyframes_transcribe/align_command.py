"""``storyframes align``: the times of the words of texts that were handed in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli import (
    LOOK,
    ConfigOption,
    JsonOption,
    StudyArgument,
    console,
    error_console,
    fail,
    listed,
    refused_if,
    show_json,
    usage_errors,
)
from tasks.inspect import counted

app = typer.Typer(add_completion=False, **LOOK)


@app.command(rich_help_panel="Study", epilog="Next: storyframes check STUDY")
def align(
    study: StudyArgument,
    model: Annotated[Path, typer.Option(help="A wav2vec 2.0 with a CTC head: a folder as transformers saves it.")],
    session: Annotated[list[str] | None, typer.Option(help="Only this session. Repeatable.")] = None,
    track: Annotated[
        list[str] | None, typer.Option(help="Only this track; main: the session's own. Repeatable.")
    ] = None,
    min_confidence: Annotated[
        float, typer.Option(min=0, max=1, help="A text whose words have a lower mean confidence is refused.")
    ] = 0.5,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Find out when each word of a text was said, and write transcripts with these times.

    Texts are STUDY/texts/SESSION[@TRACK].txt, and transcripts that the tables name whose words have no times. What is
    written is STUDY/transcripts/SESSION[@TRACK].aligned.json; words go nowhere else, and no other file is changed.
    """
    from flows import load_settings
    from storyframes_transcribe.alignment import AlignmentError, align_recording, aligned_path, texts_of
    from storyframes_transcribe.ctc import CtcModel
    from storyframes_transcribe.transcript_file import writing
    from tasks.extractors import ExtractionError
    from tasks.media import RecordingError
    from tasks.study import ChangedTables, TableChangeError, UnusableFileError, load_study

    with usage_errors(), refused_if(ExtractionError, TableChangeError):
        recording = load_settings(config).recording
        streams, loaded = recording.streams, load_study(study, recordings=recording.root)
        sessions, tracks = listed("--session", session), listed("--track", track)
        chosen = [
            (one, name)
            for one, files in loaded.tracks.items()
            for name in files
            if one in (sessions or [one]) and name in (tracks or [name])
        ]
        if not chosen:
            fail("the study has no such session or track", 2)
        network = CtcModel(model)
        rows: list[dict[str, object]] = []
        named: dict[tuple[str, str], str] = {}
        with writing(loaded.root):
            for session_id, of_track in chosen:
                row: dict[str, object] = {"session_id": session_id, "track": of_track}
                try:
                    text = texts_of(loaded, session_id, of_track)
                    if text is None:
                        continue
                    done = align_recording(
                        loaded, session_id, of_track, text, network, min_confidence=min_confidence, streams=streams
                    )
                    row |= {"status": "aligned" if done.is_new else "there already", "path": done.path}
                    row |= {
                        "words": done.words,
                        "without_times": done.without_times,
                        "confidence": round(done.confidence, 3),
                        "outside": done.outside,
                        "damaged_sound_packets": done.damaged,
                    }
                    named[session_id, of_track] = aligned_path(session_id, of_track)
                except (AlignmentError, UnusableFileError, RecordingError, OSError) as error:
                    row |= {"status": "failed", "reason": str(error)}
                rows.append(row)
        count = ChangedTables(loaded.root).name_transcripts(named)
    _show(rows, count) if not json else show_json({"transcripts": rows, "named": count})
    for key, path in named.items():
        before = loaded.tracks[key[0]][key[1]].transcript
        if before not in (None, path) and not json:
            console().print(
                f"{escape(key[0])}, {escape(key[1])}: to use it, name {escape(path)} in the place of {escape(before)}"
            )
    if any(row["status"] == "failed" for row in rows):
        raise typer.Exit(1)


def _show(rows: list[dict[str, object]], named: int) -> None:
    for row in rows:
        where = escape(f"{row['session_id']}, {row['track']}")
        if row["status"] == "failed":
            error_console().print(f"[bold red]failed[/] {where}: {escape(str(row['reason']))}")
            continue
        console().print(
            f"{where}: {row['status']}, {row['words']} words, mean confidence {row['confidence']}; "
            f"{row['without_times']} without times of their own"
            + (f"; {row['outside']} before or after the recording left out" if row["outside"] else "")
        )
        packets = row["damaged_sound_packets"]
        if isinstance(packets, int) and packets:
            error_console().print(
                f"[yellow]look at[/] {where}: {counted(packets, 'packet')} of its sound cannot be decoded and counted "
                "as silence"
            )
    if rows:
        console().print(f"{counted(len(rows), 'text')}; {counted(named, 'cell')} of the tables name transcripts anew")
    else:
        console().print("nothing to align: no STUDY/texts/SESSION.txt, and no transcript whose words lack times")
