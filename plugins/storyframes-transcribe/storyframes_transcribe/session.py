"""One session after the other: its recordings become words, crosstalk is removed, and the files are written.

Each recording's transcript is written as soon as it is there, so a run that is killed goes on with the next recording.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path

from storyframes import MAIN
from storyframes_transcribe.crosstalk import CROSSTALK_RULES, Crosstalk, Microphone, find_crosstalk, session_levels
from storyframes_transcribe.languages import Language, LanguageError
from storyframes_transcribe.listening import Listen, detect_language
from storyframes_transcribe.models import Model, ModelError
from storyframes_transcribe.recordings import Recording, SessionPlan, sound_file, transcript_path
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.transcript_file import (
    MADE_BY,
    RULES,
    KeptError,
    Provenance,
    SoundFile,
    TranscriptFile,
    read_made,
    utterances,
    write,
    written,
)
from storyframes_transcribe.voices import RATE, Damage, Piece, voiced_pieces
from storyframes_transcribe.whisper import library_versions
from storyframes_transcribe.words import Heard, HeardWord, snap
from tasks.media import NoAudioError, RecordingError, StreamChoice, read_audio, read_header
from tasks.study import Study

_STAYS = ": what other microphones heard of these words stays in theirs"

Hear = Callable[[Piece, str | None], Heard]
"""The words of a piece, and their language; given a language, in that one."""
Progress = Callable[[str, float], None]
"""Called with a recording's name and the seconds of it that are done."""


class Status(StrEnum):
    """What became of a transcript."""

    MADE = "made"
    CURRENT = "there already"
    KEPT = "handed in"
    SILENT = "no sound"
    NOT_JOINED = "not joined"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """What became of the transcript of one recording, or (of the track ``main``) of a session.

    Attributes:
        words: how many it has.
        crosstalk: how many were removed, because a neighbour's microphone has them louder.
        uncertain: how many are about as loud on a neighbour's microphone, and are kept.
        outside: how many were left out, because they begin before second 0 or after the recording's end.
        joined: from how many microphones it was joined; 0 for a recording's own.
        attributed: how many words of a microphone of several people have a speaker; None where that was not asked.
        unnamed: what the voices are called of which it is not known whose they are.
        unheard: persons of the session of whom the store has no ``speaking``.
        doubts: about the speakers of a microphone of several people.
        language: the code of the language that was detected, with how probable it is; 1 where it was given.
        damaged: packets of its sound that do not decode, in whose place silence was heard.
        reason: why it failed, is kept, or is not joined.
    """

    session_id: str
    track: str
    status: Status
    words: int = 0
    crosstalk: int = 0
    uncertain: int = 0
    outside: int = 0
    joined: int = 0
    attributed: int | None = None
    unnamed: tuple[str, ...] = ()
    unheard: int = 0
    doubts: tuple[str, ...] = ()
    language: Language | None = None
    damaged: int = 0
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.status}" + (f", {self.reason}" if self.reason else f", {self.words} words")

    @property
    def name(self) -> str:
        """For messages."""
        return self.session_id if self.track == MAIN else f"{self.session_id}@{self.track}"

    @property
    def path(self) -> str:
        """Where the transcript goes, relative to the study."""
        return transcript_path(self.session_id, self.track)

    @property
    def failed(self) -> bool:
        """There is none, though there should be."""
        return self.status is Status.FAILED

    @property
    def transient(self) -> bool:
        """Nothing here passes by itself."""
        return False

    @property
    def is_there(self) -> bool:
        """Whether there is a transcript that was made here."""
        return self.status in (Status.MADE, Status.CURRENT)


class Transcriber:
    """Makes the transcripts of a study.

    Args:
        model: whose digest is part of what decides the words.
        hear: by which pieces of sound become words.
        listen: by which the language is detected where it is not given.
        streams: which picture and which sound of files that have several.

    Attributes:
        progress: is called while a recording is read.
    """

    def __init__(
        self,
        study: Study,
        settings: TranscribeSettings,
        model: Model,
        hear: Hear,
        listen: Listen,
        streams: StreamChoice = StreamChoice.FIRST,
    ) -> None:
        self._study, self._settings, self._hear, self._listen = study, settings, hear, listen
        self._streams = streams
        self.progress: Progress = lambda *_: None
        self._provenance = Provenance(
            made_by=f"{MADE_BY} {version(MADE_BY)}",
            rules=RULES,
            model={"name": model.name, "sha256": model.sha256},
            settings=settings.value_settings(),
            libraries=library_versions(),
        )

    def is_due(self, recording: Recording) -> bool:
        """Whether the recording would be transcribed.

        Raises:
            KeptError: its transcript is somebody's own work.
            OSError: a file cannot be read.
        """
        return self._current(recording)[0] is None

    def transcribe(self, plan: SessionPlan) -> Iterator[Outcome]:
        """Do what is due of a session."""
        languages = self._languages(plan)
        outcomes = {one.track: self._recording(one, languages.get(one)) for one in plan.recordings}
        if plan.microphones:
            outcomes |= self._settle(plan, outcomes)
        if plan.cannot_join:
            reason = f"the transcript of {', '.join(plan.cannot_join)} was handed in{_STAYS}"
            outcomes[MAIN] = Outcome(plan.session_id, MAIN, Status.NOT_JOINED, reason=reason)
        for track in plan.handed_in:
            outcomes.setdefault(track, Outcome(plan.session_id, track, Status.KEPT, reason="the tables name another"))
        yield from outcomes.values()

    # --- languages ---

    def _given(self, recording: Recording) -> str | None:
        """The language of a recording by the tables, or by the settings."""
        return recording.language or self._settings.language

    def _languages(self, plan: SessionPlan) -> dict[Recording, Language]:
        """The languages that are given, and those of the recordings that are due; of microphones the same for all."""
        languages = {one: Language(code, 1.0) for one in plan.recordings if (code := self._given(one))}
        unknown = [one for one in plan.recordings if one not in languages]
        together = [one for one in unknown if one in plan.microphones]
        for group in filter(None, [together, *([one] for one in unknown if one not in together)]):
            before = [self._current_if_any(one) for one in group]
            codes = {made.provenance.language for made in before if made and made.provenance.language}
            if None not in before and len(codes) < 2:
                continue
            try:
                found = detect_language([self._pieces_if_any(one) for one in group], self._listen)
            except ModelError:
                raise
            except Exception:  # of a library: transcribing reports the same
                found = None
            languages |= dict.fromkeys(group, found) if found else {}
        return languages

    def _current_if_any(self, recording: Recording) -> TranscriptFile | None:
        try:
            return self._current(recording)[0]
        except (KeptError, OSError):  # which transcribing it reports
            return None

    def _pieces_if_any(self, recording: Recording) -> Iterator[Piece]:
        with suppress(RecordingError, OSError):  # which transcribing it reports
            yield from self._pieces(recording)

    # --- one recording ---

    def _recording(self, recording: Recording, language: Language | None) -> Outcome:
        failed = Outcome(recording.session_id, recording.track, Status.FAILED, language=language)
        try:
            made, sound = self._current(recording)
            told = made.provenance.told_language if made else None
            if made and (language is None or told is None or told.code == language.code):
                count = len(made.words) - len(made.crosstalk)
                damaged = made.provenance.damaged_sound_packets or 0
                return replace(failed, status=Status.CURRENT, words=count, language=told, damaged=damaged)
            damage = Damage()
            words, language = self._words(recording, language, damage)
            if sound_file(self._study, recording, sound) != sound:
                return replace(failed, reason=f"{recording.relative} was changed while it was read: run this again")
            inside = _inside(words, recording.end_s(self._study, self._streams))
            self._write(recording, inside, sound, language, damage.packets)
        except KeptError as error:
            return replace(failed, status=Status.KEPT, reason=str(error))
        except NoAudioError as error:
            return replace(failed, status=Status.SILENT, reason=str(error))
        except (RecordingError, LanguageError, OSError) as error:
            return replace(failed, reason=str(error))
        except ModelError:
            raise
        except Exception as error:  # of a library, whose messages may quote what it was working on
            kind = "no memory left on the GPU: set a smaller batch_size" if "out of memory" in str(error) else ""
            return replace(failed, reason=f"the model failed ({kind or type(error).__name__})")
        outside = len(words) - len(inside)
        return replace(
            failed,
            status=Status.MADE,
            words=len(inside),
            outside=outside,
            language=language,
            damaged=damage.packets,
        )

    def _current(self, recording: Recording) -> tuple[TranscriptFile | None, SoundFile]:
        """The transcript that is there and would be the same again, and the recording as it is."""
        made = read_made(self._study.root / transcript_path(recording.session_id, recording.track))
        sound = sound_file(self._study, recording, made.provenance.sound if made else None)
        settings = self._value_settings(recording)
        new = self._provenance.model_copy(update={"sound": sound, "settings": settings})
        return made if made and made.provenance.decides_as(new) else None, sound

    def _value_settings(self, recording: Recording) -> dict[str, object]:
        """What decides the recording's words besides the model; streams only where they are not the first."""
        streams = self._streams.settings(with_picture=recording.is_video)
        return {**self._provenance.settings, "language": self._given(recording), **streams}

    def _pieces(self, recording: Recording, damage: Damage | None = None) -> Iterator[Piece]:
        """Its sound, see :func:`~storyframes_transcribe.voices.voiced_pieces`."""
        path, zero_s = self._opened(recording)
        blocks = read_audio(path, RATE, zero_s, streams=self._streams)
        yield from voiced_pieces(damage.count(blocks) if damage else blocks, self._settings.voice_threshold)

    def _opened(self, recording: Recording) -> tuple[Path, float | None]:
        """A recording's file, and when its second 0 is, as of :func:`tasks.media.sound.read_audio`."""
        path = self._study.path(recording.relative)
        return path, read_header(path, self._streams).start_s if recording.is_video else None

    def _words(
        self, recording: Recording, language: Language | None, damage: Damage
    ) -> tuple[list[HeardWord], Language | None]:
        words: list[HeardWord] = []
        for piece in self._pieces(recording, damage):
            if piece.stretches:
                heard = self._hear(piece, language.code if language else None)
                language = language or Language(heard.language, heard.probability)
                snapped = snap(heard.words, piece.voice)
                words += [replace(word, level_db=piece.level_db(word.start_s, word.end_s)) for word in snapped]
            self.progress(recording.name, piece.end_s)
        return sorted(words, key=lambda word: word.start_s), language

    def _write(
        self,
        recording: Recording,
        words: list[HeardWord],
        sound: SoundFile,
        language: Language | None,
        damaged: int,
    ) -> None:
        told = {
            "language": language.code if language else None,
            "language_probability": language.probability if language else None,
            "settings": self._value_settings(recording),
            "sound": sound,
            "damaged_sound_packets": damaged or None,
        }
        spoken = utterances(words, self._settings.pause_s, recording.speaker, recording.person_id)
        made = TranscriptFile(provenance=self._provenance.model_copy(update=told), utterances=tuple(spoken))
        write(self._study.root / transcript_path(recording.session_id, recording.track), made)

    # --- the microphones of a session ---

    def _settle(self, plan: SessionPlan, outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """Remove crosstalk among the transcripts that are there, and join them if all are."""
        settled = dict(outcomes)
        own = Outcome(plan.session_id, MAIN, Status.FAILED)
        try:
            files = {one: self._read(one) for one in plan.microphones}
            there = {one: made for one, made in files.items() if made}
            lacking = [one.track for one in plan.microphones if one not in there]
            corrected = [one.track for one, made in there.items() if made.is_corrected]
            words = {one: self._on_session(one, made) for one, made in there.items()}
            found, key = self._crosstalk(there, words)
            digests = {}
            for one, made in there.items():
                if made.is_corrected:
                    continue
                marked = found.marked(one.track, words[one])
                digests[one.track] = self._settled(one, made, found, key).provenance.words_sha256
                removed = sum(word.is_crosstalk for word in marked)
                if one.track in settled and settled[one.track].is_there:
                    settled[one.track] = replace(
                        settled[one.track],
                        words=len(marked) - removed,
                        crosstalk=removed,
                        uncertain=sum(word.is_uncertain for word in marked),
                    )
            if plan.joins and lacking:
                reason = f"there is no transcript of {', '.join(lacking)} that was made here{_STAYS}"
                settled[MAIN] = replace(own, status=Status.NOT_JOINED, reason=reason)
            elif plan.joins and corrected:
                reason = f"the transcript of {', '.join(corrected)} was corrected by hand, and is not mixed with others"
                settled[MAIN] = replace(own, status=Status.NOT_JOINED, reason=reason)
            elif plan.joins:
                kept = {
                    one: [word for word in found.marked(one.track, of_one) if not word.is_crosstalk]
                    for one, of_one in words.items()
                }
                settled[MAIN] = self._joined(
                    plan, kept, {"joined": digests, "crosstalk_by": key, **_common_language(there.values())}
                )
        except KeptError as error:
            settled[MAIN] = replace(own, status=Status.KEPT, reason=str(error))
        except (RecordingError, OSError) as error:
            settled[MAIN] = replace(own, reason=str(error))
        return settled

    def _read(self, recording: Recording) -> TranscriptFile | None:
        """What was made, also where it was corrected by hand; None where there is nothing, or somebody else's work."""
        try:
            path = self._study.root / transcript_path(recording.session_id, recording.track)
            return read_made(path, also_corrected=True)
        except KeptError:
            return None

    def _on_session(self, recording: Recording, made: TranscriptFile) -> list[HeardWord]:
        clock = self._study.clock(recording.session_id, recording.track)
        return [word.on_session(clock) for word in made.words]

    def _crosstalk(
        self, there: Mapping[Recording, TranscriptFile], words: Mapping[Recording, list[HeardWord]]
    ) -> tuple[Crosstalk, str]:
        """What other microphones heard, with the digest of what decides it; from the files where that is the same."""
        clocks = {one: self._study.clock(one.session_id, one.track) for one in there}
        sounds = {
            one.track: (made.provenance.sound.sha256 if made.provenance.sound else "", clocks[one].stored)
            for one, made in there.items()
        }
        streams = self._streams.settings(with_picture=any(one.is_video for one in there))
        chosen = [streams] if streams else []
        decisive = json.dumps([CROSSTALK_RULES, self._settings.crosstalk_db, sounds, *chosen], sort_keys=True)
        key = hashlib.sha256(decisive.encode()).hexdigest()
        of_tracks = {one.track: of_one for one, of_one in words.items()}
        if all(made.provenance.crosstalk_by == key for made in there.values() if not made.is_corrected):
            return Crosstalk.of_marks(of_tracks), key
        microphones = {}
        for one in there:
            path, zero_s = self._opened(one)
            microphones[one.track] = Microphone(path, zero_s, clocks[one], self._streams)
        return find_crosstalk(of_tracks, session_levels(microphones), self._settings.crosstalk_db), key

    def _settled(self, recording: Recording, made: TranscriptFile, found: Crosstalk, key: str) -> TranscriptFile:
        """The file with these words removed or marked; written where that is another file."""
        marked = found.marked(recording.track, made.words)
        removed = tuple(written(word) for word in marked if word.is_crosstalk)
        kept = [word for word in marked if not word.is_crosstalk]
        spoken = tuple(utterances(kept, self._settings.pause_s, recording.speaker, recording.person_id))
        provenance = made.provenance.model_copy(update={"crosstalk_by": key})
        new = made.model_copy(update={"utterances": spoken, "crosstalk": removed, "provenance": provenance})
        if new == made:
            return made
        return write(self._study.root / transcript_path(recording.session_id, recording.track), new)

    def _joined(
        self,
        plan: SessionPlan,
        words: Mapping[Recording, list[HeardWord]],
        told: Mapping[str, object],
    ) -> Outcome:
        """The session's transcript, in seconds of the session, with these fields of its provenance."""
        path = self._study.root / transcript_path(plan.session_id, MAIN)
        before = read_made(path)
        end_s = plan.own.end_s(self._study, self._streams) if plan.own else float("inf")
        inside = {one: _inside(of_one, end_s) for one, of_one in words.items()}
        spoken = [
            utterance
            for one, of_one in inside.items()
            for utterance in utterances(of_one, self._settings.pause_s, one.speaker, one.person_id)
        ]
        new = TranscriptFile(
            provenance=self._provenance.model_copy(update=told),
            utterances=tuple(sorted(spoken, key=lambda utterance: utterance.start_s)),
        )
        new = new.model_copy(update={"provenance": new.provenance.model_copy(update={"words_sha256": new.digest})})
        count = sum(map(len, inside.values()))
        outside = sum(map(len, words.values())) - count
        outcome = Outcome(plan.session_id, MAIN, Status.CURRENT, count, outside=outside, joined=len(words))
        if new == before:
            return outcome
        write(path, new)
        return replace(outcome, status=Status.MADE)


def _inside(words: list[HeardWord], end_s: float) -> list[HeardWord]:
    """The words that begin before ``end_s`` and end after second 0, cut off there."""
    inside = [word for word in words if word.end_s > 0 and word.start_s < end_s]
    return [replace(word, start_s=max(word.start_s, 0.0), end_s=min(word.end_s, end_s)) for word in inside]


def _common_language(files: Iterable[TranscriptFile]) -> dict[str, object]:
    """The language of transcripts that are joined, where they have one, and the probability of the least certain."""
    known = [made.provenance for made in files if made.provenance.language]
    codes = {each.language for each in known}
    probabilities = [each.language_probability for each in known if each.language_probability is not None]
    return {
        "language": codes.pop() if len(codes) == 1 else None,
        "language_probability": min(probabilities, default=None),
    }
