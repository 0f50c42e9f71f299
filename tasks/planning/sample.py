"""A sample of a session: its first seconds as files of their own, to measure on."""

from __future__ import annotations

import gzip
import json
import os
import stat
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import av
import numpy as np
import pandas as pd
from av.stream import Stream

from tasks.extractors.base import Input, InputFile
from tasks.media.container import (
    FIRST_STREAMS,
    RecordingError,
    StreamChoice,
    chosen_video,
    open_container,
    recording_files,
    video_streams,
)
from tasks.media.sound import chosen_sound
from tasks.planning.sources import input_file
from tasks.study.boxes import Boxes, BoxesError
from tasks.study.transcript import TranscriptError, read_transcript
from tasks.tools.disk_space import NO_ROOM, no_room_for_temporary_files


class SampleError(Exception):
    """The recording cannot be cut; the message names the file."""


@dataclass(frozen=True)
class Sample:
    """How much of a session is cut."""

    folder: Path  # where the files go
    seconds: float  # the first so many
    of_s: float  # how long the whole recording is
    streams: StreamChoice = FIRST_STREAMS  # which picture and which sound of a file that has several

    def cut(self, kind: str, path: Path, frames: int) -> tuple[InputFile, float]:
        """The beginning of one of the session's files, under its name; of a table the rows of so many frames.

        Returns:
            The file, and how many seconds of the recording have as much in them: ``seconds``, but more or fewer of a
            transcript, which is cut between utterances.

        Raises:
            SampleError: it cannot be cut.
        """
        target = self.folder / kind / path.name  # errors name the file by it
        target.parent.mkdir()
        stands_for_s = self.seconds
        match Input(kind):
            case Input.VIDEO | Input.AUDIO:
                cut_recording(path, target, self.seconds, self.streams)
            case Input.OPENFACE:
                cut_table(path, target, frames)
            case Input.REGION:
                target = cut_boxes(path, target, self.seconds)
            case Input.TRANSCRIPT:
                target = target.with_suffix(".json")
                stands_for_s = cut_transcript(path, target, self.seconds, self.of_s)
            case _:
                raise SampleError(f"{path.name}: there is no way to cut a sample of such an input ({kind})")
        return input_file(target), stands_for_s


def cut_recording(path: Path, target: Path, seconds: float, streams: StreamChoice = FIRST_STREAMS) -> None:
    """Copy the packets of the first ``seconds`` of a recording, picture and sound, without coding them again.

    Of several pictures and of several sounds the chosen one.

    The copy has the recording's owner and permissions: root's extraction gives it to a container's user.

    Raises:
        SampleError: FFmpeg cannot read it, or not write such a file.
    """
    try:
        with open_container(path) as source, av.open(str(target), "w") as cut:
            sounds = source.streams.audio
            chosen: list[Stream] = [chosen_video(source, path.name, streams)] if video_streams(source) else []
            chosen += [chosen_sound(sounds, path.name, streams)] if sounds else []
            copies = {stream.index: cut.add_stream_from_template(stream) for stream in chosen}
            ended: set[int] = set()
            end_s = (source.start_time or 0) / av.time_base + seconds  # a broadcast does not begin at 0
            for packet in source.demux(*chosen):
                start = packet.dts if packet.dts is not None else packet.pts
                if start is None and not packet.size:
                    continue  # the end of a file, which another one may follow
                if start is None or start * packet.time_base >= end_s:
                    ended.add(packet.stream.index)
                    if len(ended) == len(copies):
                        break
                elif packet.stream.index not in ended:
                    packet.stream = copies[packet.stream.index]
                    cut.mux(packet)
        status = recording_files(path)[0].stat()
        if os.geteuid() == 0:
            os.chown(target, status.st_uid, status.st_gid)
        target.chmod(stat.S_IMODE(status.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
    except RecordingError as error:
        raise SampleError(str(error)) from None
    except (av.FFmpegError, ValueError, OSError) as error:
        raise SampleError(f"{path.name}: no sample of it can be cut ({_explain(error)})") from None


def _explain(error: Exception) -> str:
    """Without the paths that FFmpeg puts behind its reasons."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return no_room_for_temporary_files()
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def cut_table(path: Path, target: Path, frames: int) -> None:
    """Copy the header of a CSV or CSV.gz and its rows of the first ``frames`` frames, whose number is the first cell.

    Raises:
        SampleError: it cannot be read.
    """

    def opened(file: Path, mode: str):  # type: ignore[no-untyped-def]  # both kinds of files have what is used here
        return gzip.open(file, mode) if file.suffix == ".gz" else file.open(mode)

    try:
        with opened(path, "rb") as source, opened(target, "wb") as cut:
            cut.write(next(source, b""))
            cut.writelines(takewhile(lambda line: float(line.partition(b",")[0]) <= frames, source))
    except (OSError, EOFError, ValueError) as error:
        raise SampleError(f"{path.name}: no sample of it can be cut ({_explain(error)})") from None


def cut_boxes(path: Path, target: Path, seconds: float) -> Path:
    """Copy a table of boxes; that of somebody who comes after ``seconds`` as if she came at the beginning.

    Her pictures in the sample show what else is there: how long an extraction takes depends on their size.

    Raises:
        SampleError: it is damaged.
    """
    try:
        boxes = Boxes.read(path)
    except BoxesError as error:
        raise SampleError(str(error)) from None
    seen = np.isfinite(boxes.box[:, 0])
    first_s = float(boxes.time_s[np.argmax(seen)])
    if not seen.any() or first_s < seconds:
        target.write_bytes(path.read_bytes())
        return target
    table = pd.DataFrame(np.column_stack([boxes.time_s - first_s, boxes.box]), columns=["time_s", *"xywh"])
    target = target.with_suffix(".csv")
    table[table["time_s"] >= 0].to_csv(target, index=False)
    return target


def cut_transcript(path: Path, target: Path, seconds: float, of_s: float) -> float:
    """Write the first utterances of a transcript as one of ``seconds``, as JSON.

    As many as there are on the average in so long a part of ``of_s`` seconds, at least one, moved together so that they
    fit: a sample may well begin with silence, and an utterance may be longer than the sample.

    Returns:
        In how many seconds of the transcript so much is said on the average.

    Raises:
        SampleError: it is damaged.
    """
    try:
        utterances = read_transcript(path, allow_malformed=True).utterances
    except TranscriptError as error:
        raise SampleError(str(error)) from None
    kept = utterances[: max(1, round(len(utterances) * seconds / of_s))]
    scale = seconds / max((utterance.end_s for utterance in kept), default=1.0)
    content = [
        {
            "speaker": utterance.speaker,
            "start_s": utterance.start_s * scale,
            "end_s": utterance.end_s * scale,
            "text": utterance.text,
        }
        for utterance in kept
    ]
    target.write_text(json.dumps({"utterances": content}))
    return of_s * len(kept) / len(utterances) if utterances else seconds
