"""Transcripts of words that a person corrected in ELAN or Praat: the tiers ``words: SPEAKER`` of an export.

``storyframes export --format eaf --with-text`` writes these tiers, and ``utterances: SPEAKER`` beside them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from storyframes.store import write_atomically
from storyframes_labels.annotation_file import Annotation, AnnotationFile, ImportFaultError
from storyframes_labels.owners import Owners, Said
from storyframes_labels.read_annotations import READERS, read_annotations
from tasks.study import ChangedTables, Study, TableChangeError, load_study

_TIER = re.compile(r"(utterances|words): (.+?)(?: \((?:\d+|moments(?: \d+)?)\))?")
_ROUNDING_S = 0.1  # by which a word may be outside of its utterance, as in the transcripts of a study
_MADE_BY = "storyframes-labels"
FOLDER = "transcripts"


@dataclass
class CorrectedTranscripts:
    """What was read, and where it is.

    Attributes:
        words, utterances: how many, by session.
        paths: of the new transcripts, relative to the study, by session.
        remarks: what is to be looked at.
    """

    words: dict[str, int] = field(default_factory=dict)
    utterances: dict[str, int] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def import_transcripts(
    files: Sequence[Path], root: Path, session_id: str | None = None, *, is_dry: bool = False
) -> CorrectedTranscripts:
    """Write a transcript for each file into the study, and name it in the table of sessions; earlier files stay.

    Args:
        files: .eaf or .TextGrid.
        root: the study.
        session_id: of which session the only file is; None where media or names of files say it.
        is_dry: write nothing.

    Raises:
        ImportFaultError: a file has no such tiers, a word is in no utterance, or a session is not known; then nothing
            is written.
        StudyError: the study is not valid.
        OSError: a file cannot be read or written.
    """
    study, done = load_study(root), CorrectedTranscripts()
    owners = Owners(study, Said(session_id=session_id))
    transcripts: dict[str, list[dict[str, Any]]] = {}
    for path in files:
        if path.suffix.lower() not in READERS:
            raise ImportFaultError(f"{path.name}: words are read from .eaf (ELAN) and .TextGrid (Praat)")
        file = read_annotations(path)
        if file.origins_s:
            begins = ", ".join(f"{origin:g} s" for origin in file.origins_s)
            raise ImportFaultError(
                f"{file.name}: its media begin at {begins} (TIME_ORIGIN), so its seconds are not the recording's: link "
                "the recording from its beginning in ELAN, save, and import again"
            )
        if faults := [fault for tier, fault in file.faults.items() if _TIER.fullmatch(tier)]:
            raise ImportFaultError(f"{file.name}: {'; '.join(faults)}")
        spoken = [(match, annotation) for annotation in file.annotations if (match := _TIER.fullmatch(annotation.tier))]
        if not spoken:
            raise ImportFaultError(
                f"{file.name}: has no tier 'words: SPEAKER': 'storyframes export --format eaf --with-text' writes them"
            )
        session, track, _ = owners.of(file, spoken[0][1])
        owners.check()
        if track or session in transcripts:
            raise ImportFaultError(f"{file.name}: is of {session} {track}: give one file for each session's own words")
        transcripts[session] = _utterances(file, spoken, study, session, done)
    done.remarks += owners.remarks
    changed = ChangedTables(root)
    try:
        table = changed.open("sessions")
        rows = {str(row.get("session_id") or "").strip(): row for row in table.rows}
        if unnamed := [session for session in transcripts if session not in rows]:
            raise ImportFaultError(f"{table.name}: give it a column session_id, in which {unnamed[0]} is, first")
        table.columns += [] if "transcript" in table.columns else ["transcript"]
        for session in transcripts:
            rows[session]["transcript"] = done.paths[session] = _free_name(root, session)
        changed.take(table)
        changed.check("transcripts")
    except TableChangeError as error:
        raise ImportFaultError(str(error)) from None
    if not is_dry:
        (root / FOLDER).mkdir(exist_ok=True)
        for session, utterances in transcripts.items():
            made = {"provenance": {"made_by": _MADE_BY}, "utterances": utterances}
            content = json.dumps(made, ensure_ascii=False, indent=1) + "\n"
            write_atomically(root / done.paths[session], content.encode())
        changed.put_in_place()
    return done


def _free_name(root: Path, session_id: str) -> str:
    """The path of a new file for a session's transcript."""
    number = 1
    while (root / (name := f"{FOLDER}/{session_id}.corrected{number}.json")).exists():
        number += 1
    return name


def _utterances(
    file: AnnotationFile,
    spoken: Sequence[tuple[re.Match[str], Annotation]],
    study: Study,
    session_id: str,
    done: CorrectedTranscripts,
) -> list[dict[str, Any]]:
    """The utterances in the order of their start, each with the words whose middle is in it."""
    of_session = [person for person in study.persons if person.session_id == session_id]
    persons = {name: person.person_id for person in of_session for name in (person.role, person.person_id) if name}
    utterances: list[dict[str, Any]] = []
    different = count = 0
    for speaker in dict.fromkeys(match[2] for match, _ in spoken):
        of_speaker = {
            kind: [annotation for match, annotation in spoken if match[1] == kind and match[2] == speaker]
            for kind in ("utterances", "words")
        }
        made: list[dict[str, Any]] = [
            {
                "speaker": speaker,
                **({"person_id": persons[speaker]} if speaker in persons else {}),
                "start_s": annotation.start_s,
                "end_s": annotation.end_s,
                "text": annotation.value,
                "words": [],
            }
            for annotation in of_speaker["utterances"]
        ]
        for word in of_speaker["words"]:
            middle = (_time(file, word.start_s, word) + _time(file, word.end_s, word)) / 2
            inside = min(made, key=partial(_distance, middle=middle), default=None)
            if inside is None or _distance(inside, middle) > _ROUNDING_S:
                raise ImportFaultError(f"{file.name}: {word.place}: is in no annotation of 'utterances: {speaker}'")
            inside["words"].append({"word": word.value, "start_s": word.start_s, "end_s": word.end_s})
            count += 1
        for utterance in made:
            utterance["words"].sort(key=lambda word: (word["start_s"], word["end_s"]))
            if text := " ".join(word["word"] for word in utterance["words"]):
                different += text.split() != utterance["text"].split()
                utterance["text"] = text
            else:
                del utterance["words"]
        utterances += made
    if different:
        done.remarks.append(
            f"{file.name}: the text of {different} utterances is not that of their words: the words are taken"
        )
    done.words[session_id], done.utterances[session_id] = count, len(utterances)
    return sorted(utterances, key=lambda utterance: (utterance["start_s"], utterance["end_s"]))


def _distance(utterance: dict[str, Any], middle: float) -> float:
    """How far a moment is outside of an utterance, seconds; 0 within it."""
    return max(utterance["start_s"] - middle, middle - utterance["end_s"], 0.0)


def _time(file: AnnotationFile, seconds: float | None, word: Annotation) -> float:
    if seconds is None:
        raise ImportFaultError(f"{file.name}: {word.place}: has no time")
    return seconds
