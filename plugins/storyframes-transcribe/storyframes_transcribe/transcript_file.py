"""The transcript files that are written into a study: in its own format, with where they came from.

``crosstalk`` has the words that were removed, which no reader of transcripts reads: so it can be found anew when a
clock or a neighbour's transcript changes, and nothing is lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from storyframes import MAIN
from storyframes.store import locked, write_atomically
from storyframes_transcribe.languages import Language
from storyframes_transcribe.words import HeardWord, text_of
from tasks.forgetting import Asked, Trace

FOLDER = "transcripts"
_TITLES = frozenset("mr. mrs. ms. dr. drs. prof. st. sr. sra. mme. mlle. m. hr. fr. dott. sig.".split())
MADE_BY = "storyframes-transcribe"
RULES = 2
"""Number of the rules by which sound becomes words, besides the model and the settings. Raise it where they change:
what earlier rules made is transcribed again, and ``check`` names it. docs/transcripts.md lists what each changed."""


class KeptError(Exception):
    """The file is somebody's own work and is not replaced; the message says why and what to do."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Word(_Model):
    """A word.

    Attributes:
        level_db: of the sound meanwhile, dB of full scale.
        uncertain: True where another person may have said it; None otherwise.
        whisper_start_s, whisper_end_s: by Whisper alone; None where these are the word's times.
    """

    word: str
    start_s: float
    end_s: float
    confidence: float
    level_db: float
    uncertain: bool | None = None
    whisper_start_s: float | None = None
    whisper_end_s: float | None = None

    @model_serializer(mode="wrap")
    def _without_absent(self, to_dict: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what is absent, as files of the first rules do, whose digests have to stay."""
        content: dict[str, object] = to_dict(self)
        return {name: value for name, value in content.items() if value is not None}

    def __repr__(self) -> str:
        return f"Word({self.start_s:.2f} s)"


class Utterance(_Model):
    """What was said between two pauses; ``speaker`` is a role or an id, never a name."""

    speaker: str | None = None
    person_id: str | None = None
    start_s: float
    end_s: float
    text: str
    words: tuple[Word, ...]

    def __repr__(self) -> str:
        return f"Utterance({self.start_s:.2f} s)"


class Turn(_Model):
    """When one voice of a microphone of several people speaks, in seconds of the recording.

    Attributes:
        speaker, person_id: as of utterances; without a ``person_id`` it is not known whose voice it is.
        probability: that it is this voice, if anybody speaks: the mean over the turn.
    """

    start_s: float
    end_s: float
    speaker: str
    person_id: str | None = None
    probability: float


class SoundFile(_Model):
    """The recording that was transcribed, as it was then."""

    path: str
    sha256: str
    bytes: int
    mtime_ns: int


class Attribution(_Model):
    """By what words were attributed to persons.

    Attributes:
        speaking: by track, the version of the feature in its store.
        least: the probability from which on a word has a speaker.
        attributed: the share of the words that have a speaker.
    """

    speaking: Mapping[str, str]
    least: float
    attributed: float


class ByVoice(_Model):
    """By what words were attributed to the voices of one microphone. No vector of a voice is kept.

    Attributes:
        model: ``name``, ``sha256`` and ``front_end``; of turns that were given, ``rttm`` and the file's digest.
        rules: by which windows became speakers.
        persons: who may have spoken.
        enrolled: by person, the digest of the sound that named the voice.
        by_hand: by person, the number of the voice that was said to be hers, from 1 on.
        by_file: by person, the number of the voice that the RTTM calls as the person is called.
        by_mouth: whether ``speaking`` could name voices. Its version is not here: it may be made of these voices.
        least: the probability from which on a word has a speaker.
        attributed: the share of the words that have a speaker.
        named: by person, what told whose voice it is: ``hand``, ``enrolment``, ``file``, ``mouth`` or ``left over``.
        doubts: what users of the speakers have to know.
    """

    model: Mapping[str, str]
    rules: int
    persons: tuple[str, ...]
    enrolled: Mapping[str, str]
    least: float
    by_hand: Mapping[str, int] = {}
    by_file: Mapping[str, int] = {}
    by_mouth: bool = False
    attributed: float = 0.0
    named: Mapping[str, str] = {}
    doubts: tuple[str, ...] = ()

    @property
    def as_asked(self) -> ByVoice:
        """The same without what came of it."""
        return self.model_copy(update={"attributed": 0.0, "named": {}, "doubts": ()})


class Provenance(_Model):
    """What decided the words.

    Attributes:
        made_by: this plug-in and its version.
        rules: the value of :data:`RULES` then; 1 in files that do not have it.
        sound: the recording; None where several transcripts were joined.
        model: ``name`` and ``sha256``.
        settings, libraries: what else decided the words.
        language, language_probability: as given, or detected.
        crosstalk_by: digest of what decided which words are crosstalk: the sounds, their clocks, the rules.
        joined: by track, the digest of the words of each transcript that was joined.
        speakers: of a microphone of several people, where its words were attributed.
        by_voice: the same by voice, of ``turns``, and without ``speakers`` of the words.
        damaged_sound_packets: packets of the sound that do not decode, in whose place silence was heard; None of none.
        words_sha256: of the words when they were written: what differs was corrected by hand.
    """

    made_by: str
    rules: int = 1
    sound: SoundFile | None = None
    model: Mapping[str, str] = {}
    settings: Mapping[str, object] = {}
    libraries: Mapping[str, str] = {}
    language: str | None = None
    language_probability: float | None = None
    crosstalk_by: str | None = None
    joined: Mapping[str, str] = {}
    speakers: Attribution | None = None
    by_voice: ByVoice | None = None
    damaged_sound_packets: int | None = None
    words_sha256: str = ""

    @property
    def told_language(self) -> Language | None:
        """The language with its probability; None where nobody speaks."""
        return Language(self.language, self.language_probability or 0.0) if self.language else None

    def decides_as(self, other: Provenance) -> bool:
        """Whether both would give the same words of the same sound."""
        decisive = {"rules", "model", "settings", "libraries"}
        same = self.model_dump(include=decisive) == other.model_dump(include=decisive)
        return same and bool(self.sound and other.sound and self.sound.sha256 == other.sound.sha256)


class TranscriptFile(_Model):
    """A transcript that this plug-in made; ``turns`` only of a microphone whose voices were told apart."""

    provenance: Provenance
    utterances: tuple[Utterance, ...]
    crosstalk: tuple[Word, ...] = ()
    turns: tuple[Turn, ...] | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the words."""
        content = self.model_dump(mode="json", include={"utterances", "crosstalk"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def is_corrected(self) -> bool:
        """Whether somebody has changed the words since they were written."""
        return self.digest != self.provenance.words_sha256

    @property
    def words(self) -> list[HeardWord]:
        """All words, with those that were removed as crosstalk, in the order of their start."""
        spoken = [_heard(word) for utterance in self.utterances for word in utterance.words]
        removed = [replace(_heard(word), is_crosstalk=True) for word in self.crosstalk]
        return sorted(spoken + removed, key=lambda word: word.start_s)


def read_made(path: Path, *, also_corrected: bool = False) -> TranscriptFile | None:
    """The transcript at ``path``, None where there is none.

    Raises:
        KeptError: it was not made here, or was corrected by hand since (unless ``also_corrected``).
        OSError: it cannot be read.
    """
    if path.is_symlink():
        raise KeptError(f"{FOLDER}/{path.name} is a link, which is not replaced: remove it")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        made = TranscriptFile.model_validate_json(content)
    except ValidationError:  # whose message quotes what was said
        made = None
    if made is None or not made.provenance.made_by.startswith(MADE_BY):
        raise KeptError(f"{FOLDER}/{path.name} was not made by {MADE_BY} and is not replaced: move it away")
    if made.is_corrected and not also_corrected:
        raise KeptError(f"{FOLDER}/{path.name} was corrected by hand and is not replaced: remove it to have it made")
    return made


def is_made(path: Path) -> bool:
    """Whether there is a transcript that was made here, and nobody has corrected since."""
    try:
        return read_made(path) is not None
    except (KeptError, OSError):
        return False


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Hold the study's folder of transcripts, without what writers left in it that were killed: it holds words.

    Raises:
        StorageError: another command holds it.
    """
    folder = root / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    with locked(folder / ".lock", 0):
        for leftover in folder.glob(".*.json.*.tmp"):
            leftover.unlink(missing_ok=True)
        yield


def write(path: Path, made: TranscriptFile) -> TranscriptFile:
    """Write the transcript in one step, with mode 0600 in a folder of mode 0700.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    made = made.model_copy(update={"provenance": made.provenance.model_copy(update={"words_sha256": made.digest})})
    _write(path, made.model_dump(mode="json", exclude_none=True))
    return made


def _write(path: Path, content: Mapping[str, object]) -> None:
    write_atomically(path, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())


def utterances(
    words: Sequence[HeardWord], pause_s: float, speaker: str | None, person_id: str | None
) -> Iterator[Utterance]:
    """The words of one speaker in order of their start; a pause or the end of a sentence ends an utterance."""
    together: list[HeardWord] = []
    for word in words:
        ends = together and (word.start_s - together[-1].end_s >= pause_s or ends_sentence(together[-1].text))
        if ends:
            yield _utterance(together, speaker, person_id)
            together = []
        together.append(word)
    if together:
        yield _utterance(together, speaker, person_id)


def ends_sentence(text: str) -> bool:
    """Whether a word is the last one of a sentence; the point of a title is none."""
    return text.endswith((".", "?", "!", "…", "。", "？", "！")) and text.casefold() not in _TITLES


def _utterance(words: Sequence[HeardWord], speaker: str | None, person_id: str | None) -> Utterance:
    return Utterance(
        speaker=speaker,
        person_id=person_id,
        start_s=min(round(word.start_s, 3) for word in words),
        end_s=max(round(word.end_s, 3) for word in words),
        text=text_of([word.text for word in words]),
        words=tuple(map(written, words)),
    )


def _heard(word: Word) -> HeardWord:
    whisper_s = None
    if word.whisper_start_s is not None and word.whisper_end_s is not None:
        whisper_s = (word.whisper_start_s, word.whisper_end_s)
    heard = HeardWord(word.word, word.start_s, word.end_s, word.confidence, word.level_db)
    return replace(heard, is_uncertain=bool(word.uncertain), whisper_s=whisper_s)


def written(word: HeardWord) -> Word:
    """The word as the file has it, times to the millisecond."""
    whisper_start_s, whisper_end_s = (round(time, 3) for time in word.whisper_s) if word.whisper_s else (None, None)
    return Word(
        word=word.text,
        start_s=round(word.start_s, 3),
        end_s=round(word.end_s, 3),
        confidence=round(word.confidence, 4),
        level_db=round(word.level_db, 2),
        uncertain=word.is_uncertain or None,
        whisper_start_s=whisper_start_s,
        whisper_end_s=whisper_end_s,
    )


def find_forgotten(asked: Asked) -> Iterator[Trace]:
    """The transcripts of forgotten sessions and tracks that were made here, also where they were corrected since.

    Where a track is forgotten and its session is not, the session's other transcripts lose all turns, and what says
    whose voices they were.
    """
    in_part = {session for session, _ in asked.scope.ids.tracks}
    for path in sorted((asked.study / FOLDER).glob("*.json")):
        session, _, track = path.stem.partition("@")
        is_forgotten = asked.scope.has(session, track or MAIN)
        with suppress(KeptError):
            made = read_made(path, also_corrected=True) if is_forgotten or session in in_part else None
            if made and is_forgotten:
                yield Trace.of_file(path, "made transcript")
            elif made and (made.turns or _names_voices(made.provenance.by_voice)):
                whole = Trace.of_file(path, "turns in a transcript")
                yield replace(whole, where=f"{path}: turns", remove=partial(_remove_turns, path))


def _names_voices(by_voice: ByVoice | None) -> bool:
    return bool(by_voice and (by_voice.persons or by_voice.enrolled or by_voice.named))


def _remove_turns(path: Path) -> None:
    with suppress(FileNotFoundError):
        content = json.loads(path.read_bytes())
        content.pop("turns", None)
        if by_voice := content["provenance"].get("by_voice"):
            doubts = (
                ["whose voices these were was removed, because a person withdrew"] if by_voice.get("doubts") else []
            )
            by_voice |= {"persons": [], "enrolled": {}, "by_hand": {}, "by_file": {}, "named": {}, "doubts": doubts}
        _write(path, content)
