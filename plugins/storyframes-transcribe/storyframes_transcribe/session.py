"""One session after the other: its recordings become words, crosstalk is removed, and the files are written.

Each recording's transcript is written as soon as it is there, so a run that is killed goes on with the next recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.metadata import version

import numpy as np

from storyframes.spec import MAIN
from storyframes_transcribe.crosstalk import find_crosstalk
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
from storyframes_transcribe.voices import RATE, Piece, voiced_pieces
from storyframes_transcribe.whisper import library_versions
from storyframes_transcribe.words import Heard, HeardWord
from tasks.media.container import RecordingError
from tasks.media.sound import NoAudioError, read_audio
from tasks.media.video_header import read_header
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
        unheard: persons of the session of whom the store has no ``speaking``.
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
    unheard: int = 0
    reason: str = ""

    def __str__(self) -> str:
        name = self.session_id if self.track == MAIN else f"{self.session_id}@{self.track}"
        return f"{name}: {self.status}" + (f", {self.reason}" if self.reason else f", {self.words} words")

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

    Attributes:
        progress: is called while a recording is read.
    """

    def __init__(self, study: Study, settings: TranscribeSettings, model: Model, hear: Hear) -> None:
        self._study, self._settings, self._hear = study, settings, hear
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
        outcomes = {recording.track: self._recording(recording) for recording in plan.recordings}
        if plan.microphones:
            outcomes |= self._settle(plan, outcomes)
        if plan.cannot_join:
            reason = f"the transcript of {', '.join(plan.cannot_join)} was handed in{_STAYS}"
            outcomes[MAIN] = Outcome(plan.session_id, MAIN, Status.NOT_JOINED, reason=reason)
        for track in plan.handed_in:
            outcomes.setdefault(track, Outcome(plan.session_id, track, Status.KEPT, reason="the tables name another"))
        yield from outcomes.values()

    # --- one recording ---

    def _recording(self, recording: Recording) -> Outcome:
        failed = Outcome(recording.session_id, recording.track, Status.FAILED)
        try:
            made, sound = self._current(recording)
            if made:
                return replace(failed, status=Status.CURRENT, words=len(made.words) - len(made.crosstalk))
            words, heard = self._words(recording)
            if sound_file(self._study, recording, sound) != sound:
                return replace(failed, reason=f"{recording.relative} was changed while it was read: run this again")
            inside = _inside(words, recording.end_s(self._study))
            self._write(recording, inside, sound, heard)
        except KeptError as error:
            return replace(failed, status=Status.KEPT, reason=str(error))
        except NoAudioError as error:
            return replace(failed, status=Status.SILENT, reason=str(error))
        except (RecordingError, OSError) as error:
            return replace(failed, reason=str(error))
        except ModelError:
            raise
        except Exception as error:  # of a library, whose messages may quote what it was working on
            kind = "no memory left on the GPU: set a smaller batch_size" if "out of memory" in str(error) else ""
            return replace(failed, reason=f"the model failed ({kind or type(error).__name__})")
        return replace(failed, status=Status.MADE, words=len(inside), outside=len(words) - len(inside))

    def _current(self, recording: Recording) -> tuple[TranscriptFile | None, SoundFile]:
        """The transcript that is there and would be the same again, and the recording as it is."""
        made = read_made(self._study.root / transcript_path(recording.session_id, recording.track))
        sound = sound_file(self._study, recording, made.provenance.sound if made else None)
        new = self._provenance.model_copy(update={"sound": sound})
        return made if made and made.provenance.decides_as(new) else None, sound

    def _words(self, recording: Recording) -> tuple[list[HeardWord], Heard | None]:
        path = self._study.path(recording.relative)
        zero_s = read_header(path).start_s if recording.is_video else None
        words: list[HeardWord] = []
        first: Heard | None = None
        language = self._settings.language
        for piece in voiced_pieces(read_audio(path, RATE, zero_s), self._settings.voice_threshold):
            if piece.stretches:
                heard = self._hear(piece, language)
                first, language = first or heard, heard.language
                words += [replace(word, level_db=piece.level_db(word.start_s, word.end_s)) for word in heard.words]
            self.progress(recording.name, piece.end_s)
        return sorted(words, key=lambda word: word.start_s), first

    def _write(self, recording: Recording, words: list[HeardWord], sound: SoundFile, heard: Heard | None) -> None:
        language = heard.language if heard else self._settings.language
        told = {"language": language, "language_probability": heard.probability if heard else None, "sound": sound}
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
            found = find_crosstalk(
                {one.track: of_one for one, of_one in words.items()},
                self._settings.crosstalk_s,
                self._settings.crosstalk_db,
            )
            digests = {}
            for one, made in there.items():
                if made.is_corrected:
                    continue
                is_crosstalk = found.is_crosstalk[one.track]
                digests[one.track] = self._without(one, made, is_crosstalk).provenance.words_sha256
                removed, count = int(is_crosstalk.sum()), len(is_crosstalk)
                if one.track in settled and settled[one.track].is_there:
                    settled[one.track] = replace(
                        settled[one.track],
                        words=count - removed,
                        crosstalk=removed,
                        uncertain=int(found.is_uncertain[one.track].sum()),
                    )
            if plan.joins and lacking:
                reason = f"there is no transcript of {', '.join(lacking)} that was made here{_STAYS}"
                settled[MAIN] = replace(own, status=Status.NOT_JOINED, reason=reason)
            elif plan.joins and corrected:
                reason = f"the transcript of {', '.join(corrected)} was corrected by hand, and is not mixed with others"
                settled[MAIN] = replace(own, status=Status.NOT_JOINED, reason=reason)
            elif plan.joins:
                kept = {
                    one: [
                        word for word, is_one in zip(of_one, found.is_crosstalk[one.track], strict=True) if not is_one
                    ]
                    for one, of_one in words.items()
                }
                settled[MAIN] = self._joined(plan, kept, digests)
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

    def _without(self, recording: Recording, made: TranscriptFile, is_crosstalk: np.ndarray) -> TranscriptFile:
        """The file with these words removed; written where that is another file."""
        marked = list(zip(made.words, is_crosstalk, strict=True))
        kept = [word for word, is_one in marked if not is_one]
        removed = tuple(written(word) for word, is_one in marked if is_one)
        spoken = tuple(utterances(kept, self._settings.pause_s, recording.speaker, recording.person_id))
        new = made.model_copy(update={"utterances": spoken, "crosstalk": removed})
        if new == made:
            return made
        return write(self._study.root / transcript_path(recording.session_id, recording.track), new)

    def _joined(
        self, plan: SessionPlan, words: Mapping[Recording, list[HeardWord]], digests: Mapping[str, str]
    ) -> Outcome:
        """The session's transcript, in seconds of the session."""
        path = self._study.root / transcript_path(plan.session_id, MAIN)
        before = read_made(path)
        end_s = plan.own.end_s(self._study) if plan.own else float("inf")
        inside = {one: _inside(of_one, end_s) for one, of_one in words.items()}
        spoken = [
            utterance
            for one, of_one in inside.items()
            for utterance in utterances(of_one, self._settings.pause_s, one.speaker, one.person_id)
        ]
        new = TranscriptFile(
            provenance=self._provenance.model_copy(update={"joined": digests}),
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
