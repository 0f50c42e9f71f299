"""A text that was handed in, and its recording, become a transcript with the time of every word.

The text is ``STUDY/texts/<session>[@track].txt``, or a transcript that the tables name, whose utterances have times and
whose words have none. What is written is a file of its own; what was handed in stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from storyframes import MAIN
from storyframes.store import write_atomically
from storyframes_transcribe.ctc import AlignedWord, CtcModel, align
from storyframes_transcribe.recordings import digest_of
from storyframes_transcribe.transcript_file import FOLDER, MADE_BY
from storyframes_transcribe.voices import Damage
from tasks.media import StreamChoice, promised_length_s, read_audio, read_header
from tasks.study import Study, find_prefixes, read_transcript

TEXTS = "texts"
MIN_CONFIDENCE = 0.5  # mean of all words; those of another recording have less
_AROUND_S = 0.5  # captions begin and end somewhat beside what is said


class AlignmentError(Exception):
    """There is no text, or it does not fit the sound, or a file stays as it is; the message says what, and no word."""


@dataclass(frozen=True)
class Line:
    """What one speaker says in one go; times only where the text has them."""

    words: tuple[str, ...]
    speaker: str = ""
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class Aligned:
    """A transcript that was written, or that is there already; ``outside`` words were left out of it."""

    path: str
    words: int
    without_times: int
    confidence: float
    is_new: bool
    outside: int = 0
    damaged: int = 0  # packets of the sound that do not decode, in whose place silence was heard


def texts_of(study: Study, session_id: str, track: str) -> Path | None:
    """The file with the text of a recording; None where there is none, or where all its words have times."""
    plain = study.root / TEXTS / f"{_name(session_id, track)}.txt"
    if plain.is_file() and not plain.is_symlink():
        return plain
    named = study.tracks[session_id][track].transcript
    if named is None or named == aligned_path(session_id, track) or not study.path(named).is_file():
        return None
    path = study.path(named)
    return path if any(not word.timed for word in read_transcript(path).words()) else None


def aligned_path(session_id: str, track: str) -> str:
    """Where the transcript goes, relative to the study."""
    return f"{FOLDER}/{_name(session_id, track)}.aligned.json"


def align_recording(
    study: Study,
    session_id: str,
    track: str,
    text: Path,
    model: CtcModel,
    *,
    min_confidence: float = MIN_CONFIDENCE,
    streams: StreamChoice = StreamChoice.FIRST,
) -> Aligned:
    """Align the text of one recording, and write the transcript, unless the same is there already.

    Args:
        min_confidence: a text whose words have a lower one on average is refused.
        streams: which picture and which sound of files that have several.

    Raises:
        AlignmentError: it does not fit; nothing is written.
        UnusableFileError, RecordingError: the text or the sound cannot be read.
        OSError: a file cannot be read or written.
    """
    files = study.tracks[session_id][track]
    relative = files.audio or files.video
    if relative is None:
        raise AlignmentError("the study names no sound for it")
    sound, target = study.path(relative), study.root / aligned_path(session_id, track)
    handed_in = f"{TEXTS}/{_name(session_id, track)}.txt"
    text_name = handed_in if text == study.root / handed_in else files.transcript  # it may be below [recording] root
    provenance = {
        "made_by": f"{MADE_BY} {version(MADE_BY)}, aligned",
        "sound": {"path": relative, "sha256": digest_of(sound), **streams.settings(with_picture=not files.audio)},
        "text": {"path": text_name, "sha256": digest_of(text)},
        "model": model.digests(),
    }
    before = _read_before(target)
    if before is not None and {**before["provenance"], "words_sha256": None} == {**provenance, "words_sha256": None}:
        return _counted(target, before["utterances"], is_new=False)
    lines = _read(text)
    zero_s = None if files.audio else read_header(sound, streams).start_s
    rate = model.shape.rate
    first = next(iter(read_audio(sound, rate, zero_s, streams=streams))).time
    damage = Damage()
    blocks = (block.samples for block in damage.count(read_audio(sound, rate, zero_s, streams=streams)))
    whole = (block.samples for block in read_audio(sound, rate, zero_s, streams=streams))
    probabilities = model.log_probabilities(blocks, whole)
    aligned = _align(lines, probabilities, model, first + model.shape.centre_s)
    end_s = (promised_length_s(study.path(files.video), streams) if files.video else 0.0) or float("inf")
    inside = [part for line, words in zip(lines, aligned, strict=True) if (part := _inside(line, words, end_s))[1]]
    utterances = [*_utterances([line for line, _ in inside], [words for _, words in inside])]
    done = _counted(target, utterances, is_new=True, outside=sum(map(len, aligned)) - sum(len(w) for _, w in inside))
    if done.confidence < min_confidence or done.words == done.without_times:
        raise AlignmentError(
            f"the text does not fit the sound: the mean confidence of its words is {done.confidence:.2f}, and below "
            f"{min_confidence:g} (--min-confidence) it may be another recording's, or in another language than the "
            "model's; nothing is written"
        )
    done = replace(done, damaged=damage.packets)
    content = {"provenance": provenance | {"words_sha256": _words_digest(utterances)}, "utterances": utterances}
    target.parent.mkdir(mode=0o700, exist_ok=True)
    write_atomically(target, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())
    return done


def _name(session_id: str, track: str) -> str:
    return session_id if track == MAIN else f"{session_id}@{track}"


def _read(path: Path) -> list[Line]:
    """The utterances of a text: of a ``.txt`` its lines, with a speaker where they begin with one."""
    if path.suffix.lower() != ".txt":
        utterances = read_transcript(path).utterances
        return [Line(tuple(w.text for w in one.words), one.speaker, one.start_s, one.end_s) for one in utterances]
    try:
        written = path.read_bytes().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise AlignmentError(f"{path.name} is not UTF-8") from None
    filled = [" ".join(line.split()) for line in written if line.strip()]
    prefixes = find_prefixes(filled)
    lines = [Line(tuple(text.split()), speaker) for speaker, text in map(prefixes.split, filled) if text]
    if not lines:
        raise AlignmentError(f"{path.name} is empty")
    return lines


def _align(
    lines: Sequence[Line], probabilities: np.ndarray, model: CtcModel, start_s: float
) -> list[list[AlignedWord]]:
    """The words of each line: of all lines together, or of each within its own times, where the lines have times."""
    if lines[0].start_s is None:
        found = iter(align(probabilities, [word for line in lines for word in line.words], model, start_s) or ())
        return [[next(found, AlignedWord()) for _ in line.words] for line in lines]
    aligned = []
    for line in lines:
        assert line.start_s is not None
        assert line.end_s is not None
        around = (line.start_s - _AROUND_S, line.end_s + _AROUND_S)
        first, stop = (min(max(round((time - start_s) / model.shape.row_s), 0), len(probabilities)) for time in around)
        found_here = align(probabilities[first:stop], line.words, model, start_s + first * model.shape.row_s)
        aligned.append(found_here or [AlignedWord()] * len(line.words))
    return aligned


def _inside(line: Line, words: list[AlignedWord], end_s: float) -> tuple[Line, list[AlignedWord]]:
    """The line without the words that end before second 0 or begin after ``end_s``, as of all transcripts."""
    before = [number for number, word in enumerate(words) if word.end_s is not None and word.end_s <= 0]
    after = [number for number, word in enumerate(words) if word.start_s is not None and word.start_s >= end_s]
    kept = slice(before[-1] + 1 if before else 0, after[0] if after else len(words))
    return replace(line, words=line.words[kept]), [
        word if word.end_s is None else replace(word, end_s=min(word.end_s, end_s)) for word in words[kept]
    ]


def _utterances(lines: Sequence[Line], aligned: Sequence[Sequence[AlignedWord]]) -> Iterator[dict[str, Any]]:
    """As the study's own format has them. A line whose first or last word has no times reaches to its neighbours."""
    starts = [next((w.start_s for w in words if w.start_s is not None), None) for words in aligned]
    end_s = 0.0
    for number, (line, words) in enumerate(zip(lines, aligned, strict=True)):
        times = [time for word in words for time in (word.start_s, word.end_s) if time is not None]
        following = next((start for start in starts[number + 1 :] if start is not None), None)
        begin = min([end_s, *times[:1]]) if words[0].start_s is None else times[0]
        finish = max([following or end_s, begin, *times[-1:]]) if words[-1].end_s is None else times[-1]
        if line.start_s is not None and line.end_s is not None:
            begin, finish = min([line.start_s, *times[:1]]), max([line.end_s, *times[-1:]])
        end_s = finish
        yield {
            **({"speaker": line.speaker} if line.speaker else {}),
            "start_s": round(max(begin, 0.0), 3),
            "end_s": round(max(finish, begin, 0.0), 3),
            "text": " ".join(line.words),
            "words": [_word(text, word) for text, word in zip(line.words, words, strict=True)],
        }


def _word(text: str, word: AlignedWord) -> dict[str, Any]:
    if word.start_s is None or word.end_s is None or word.confidence is None:
        return {"word": text}
    start_s, end_s = round(max(word.start_s, 0.0), 3), round(max(word.end_s, 0.0), 3)
    return {"word": text, "start_s": start_s, "end_s": end_s, "confidence": round(word.confidence, 4)}


def _counted(target: Path, utterances: Sequence[dict[str, Any]], *, is_new: bool, outside: int = 0) -> Aligned:
    words = [word for utterance in utterances for word in utterance["words"]]
    sure = [word["confidence"] for word in words if "confidence" in word]
    mean = sum(sure) / len(sure) if sure else 0.0
    return Aligned(f"{FOLDER}/{target.name}", len(words), len(words) - len(sure), mean, is_new, outside)


def _read_before(path: Path) -> dict[str, Any] | None:
    """What was written before; None where nothing was.

    Raises:
        AlignmentError: it was not written here, or was corrected by hand since.
    """
    if not path.exists() and not path.is_symlink():
        return None
    where = f"{FOLDER}/{path.name}"
    try:
        content: dict[str, Any] = json.loads(path.read_bytes()) if not path.is_symlink() else {}
        ours = content["provenance"]["made_by"].startswith(MADE_BY)
        unchanged = content["provenance"]["words_sha256"] == _words_digest(content["utterances"])
    except (ValueError, KeyError, TypeError, AttributeError):
        ours = unchanged = False
    if not ours or not unchanged:
        what = "was corrected by hand" if ours else f"was not written by {MADE_BY}"
        raise AlignmentError(f"{where} {what} and is not replaced: move it away to have it made")
    return content


def _words_digest(utterances: Any) -> str:
    return hashlib.sha256(json.dumps(utterances, sort_keys=True).encode()).hexdigest()
