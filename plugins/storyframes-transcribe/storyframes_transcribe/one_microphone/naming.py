"""Whose voice each is, and whose words: speakers in transcripts of one microphone for several people.

Only transcripts that were made here, and nobody has corrected, get speakers; words, their order and times stay. No
vector of a voice is kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from storyframes import FeatureStore
from storyframes.store import StorageError, StoreError
from storyframes_transcribe.one_microphone.enrolment import Enrolment, VoiceError, alike_voices, match_enrolled
from storyframes_transcribe.one_microphone.mouths import match_mouths, read_mouths
from storyframes_transcribe.one_microphone.rttm import Rttm, RttmError, find_rttm
from storyframes_transcribe.one_microphone.settings import VoicesSettings
from storyframes_transcribe.one_microphone.turns import VOICE_RULES, Turns, Windows, find_turns
from storyframes_transcribe.one_microphone.voice_models import VoiceModelError, load_voice_model
from storyframes_transcribe.recordings import Recording, SessionPlan, person_of_sound, speaker_of
from storyframes_transcribe.session import Outcome, Status
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.transcript_file import (
    ByVoice,
    KeptError,
    TranscriptFile,
    Turn,
    read_made,
    utterances,
    write,
)
from storyframes_transcribe.voices import RATE, voiced_pieces
from tasks.media import AudioBlock, RecordingError, StreamChoice, read_audio, read_header
from tasks.study import Study, UnusableFileError

_LABEL = re.compile(r"(?i)speaker[_ -]?\d+")  # of a program; anything else may be a name
_LEAST_INSIDE = 0.8  # the share of the words that turns of the same recording contain


def persons_of_session(study: Study, session_id: str) -> dict[str, set[str]]:
    """By person of a session, the names by which ``--voice`` may name them: id, role, participant."""
    rows = [one for one in study.persons if one.session_id == session_id]
    return {one.person_id: {one.person_id, one.role or "", one.participant_id or ""} - {""} for one in rows}


class VoiceNaming:
    """Finds the speakers of transcripts by their voices, or by turns that another program found.

    Args:
        plans: the sessions.
        enrolments: sound of persons, or what their voices are called; others are ``speaker_1`` and so on.
        store: whose feature ``speaking`` names voices as well, by mouths.

    Raises:
        VoiceModelError: the model or a file of turns cannot be used.
        VoiceError: of a session it is not known how many people speak, or an enrolment is of nobody.
    """

    def __init__(
        self,
        study: Study,
        plans: Sequence[SessionPlan],
        transcribe: TranscribeSettings,
        settings: VoicesSettings,
        *,
        enrolments: Sequence[Enrolment] = (),
        store: FeatureStore | None = None,
        streams: StreamChoice = StreamChoice.FIRST,
    ) -> None:
        self._study, self._transcribe, self._settings, self._streams = study, transcribe, settings, streams
        self._store = store
        shared = [
            one for plan in plans for one in plan.recordings if not person_of_sound(study, plan.session_id, one.track)
        ]
        self._recordings = {(one.session_id, one.track): one for one in shared}
        self._rttm = find_rttm(Path(settings.model), [one.name for one in shared])
        for name, rttm in (self._rttm or {}).items():
            _refuse_others(study, next(one for one in shared if one.name == name), rttm)
        counts = {one.session_id: len(persons_of_session(study, one.session_id)) for one in shared}
        if self._rttm is None and (unknown := [session_id for session_id, count in counts.items() if not count]):
            raise VoiceError(_unknown_number(study, unknown[0]))
        everybody = [names for one in study.sessions for names in persons_of_session(study, one).values()]
        for enrolment in enrolments:
            if not any(enrolment.person in names for names in everybody):
                raise VoiceError(
                    f"--voice {enrolment.person}=...: the table persons has no such id, role or participant"
                )
        for names in everybody:
            if len(double := [one.person for one in enrolments if one.person in names]) > 1:
                raise VoiceError(f"--voice: {', '.join(sorted(double))} are one person: give one sound of each")
        self._by_hand = {one.person: one.speaker for one in enrolments if one.speaker}
        sounds = [one for one in enrolments if not one.speaker]
        if self._rttm is None:
            speakers = {name for one in shared for name in self._voice_names(one)}
            self._model = load_voice_model(Path(settings.model), settings.front_end)
        else:
            speakers = {name for turns in self._rttm.values() for name in turns.speakers}
            if sounds:
                raise VoiceError(
                    f"--voice {sounds[0].person}={sounds[0].path}: a model compares sound, and {settings.model} is "
                    f"RTTM: give the name of a speaker in it, {', '.join(sorted(speakers))}"
                )
        for person, speaker in self._by_hand.items():
            if speaker not in speakers:
                raise VoiceError(
                    f"--voice {person}={speaker}: is neither a file that exists nor a speaker: "
                    f"{', '.join(sorted(speakers))}"
                )
        threshold = transcribe.voice_threshold
        self._enrolled = [(one.person, one.digest, one.vector(self._model.embed, threshold)) for one in sounds]

    @property
    def has_recordings(self) -> bool:
        """Whether any recording is of a microphone of several people."""
        return bool(self._recordings)

    def name(self, outcome: Outcome) -> Outcome:
        """Attribute the words of a transcript that is there, and write it where that gives another file.

        That of one person's microphone, and one that was joined from these, are left as they are.

        Returns:
            The outcome, with how many words have a speaker, and what is doubtful.
        """
        recording = self._recordings.get((outcome.session_id, outcome.track))
        if recording is None or not outcome.is_there or outcome.joined:
            return outcome
        path = self._study.root / outcome.path
        try:
            made = read_made(path)
            if made is None:
                return outcome
            before = made.provenance.by_voice
            by = self._by(recording, before)
            may_be_named = self._store is not None and {*by.persons} != {*(before.named if before else ())}
            has_turns = made.turns is not None and not made.provenance.speakers
            if (
                not has_turns
                or before is None
                or before.as_asked != by
                or may_be_named
                or self._has_other_names(made, recording)
            ):
                named = self._with_speakers(recording, made, by)
                made = made if named == made else write(path, named)
        except KeptError as error:
            return replace(outcome, status=Status.KEPT, reason=str(error))
        except (RecordingError, VoiceModelError, StorageError, StoreError, UnusableFileError, OSError) as error:
            return replace(outcome, status=Status.FAILED, reason=f"no speakers: {error}")
        attributed = sum(len(one.words) for one in made.utterances if one.speaker)
        unnamed = {str(one.speaker) for one in made.utterances if one.speaker and not one.person_id}
        said = made.provenance.by_voice
        return replace(
            outcome, attributed=attributed, unnamed=tuple(sorted(unnamed)), doubts=said.doubts if said else ()
        )

    def _by(self, recording: Recording, before: ByVoice | None) -> ByVoice:
        """What decides the speakers of a recording's transcript, besides the sound."""
        session_id = recording.session_id
        persons = tuple(persons_of_session(self._study, session_id))
        if self._rttm is None:
            model = {"name": self._model.name, "sha256": self._model.sha256, "front_end": self._model.front_end}
            speakers = self._voice_names(recording)
        else:
            model = {"name": "rttm", "sha256": self._rttm[recording.name].sha256}
            speakers = self._rttm[recording.name].speakers
        by = ByVoice(
            model=model,
            rules=VOICE_RULES,
            persons=persons,
            enrolled={person: digest for person, digest, _ in self._of_session(session_id)},
            least=self._settings.speaker_probability,
            by_mouth=self._store is not None,
            by_file=self._named_in_file(recording),
        )
        if self._rttm is None and (before is None or before.as_asked.model_copy(update={"by_hand": {}}) != by):
            return by  # nobody can know yet which voice is speaker_1
        numbers = {
            person: speakers.index(speaker) + 1
            for person, speaker in self._hand_names(session_id)
            if speaker in speakers
        }
        return by.model_copy(update={"by_hand": numbers})

    def _of_session(self, session_id: str) -> Iterator[tuple[str, str, np.ndarray]]:
        for person_id, names in persons_of_session(self._study, session_id).items():
            for person, digest, vector in self._enrolled:
                if person in names:
                    yield person_id, digest, vector

    def _hand_names(self, session_id: str) -> Iterator[tuple[str, str]]:
        for person_id, names in persons_of_session(self._study, session_id).items():
            for person, speaker in self._by_hand.items():
                if person in names:
                    yield person_id, speaker

    def _with_speakers(self, recording: Recording, made: TranscriptFile, by: ByVoice) -> TranscriptFile:
        """The same words in utterances of one speaker each."""
        words = made.model_copy(update={"crosstalk": ()}).words
        spans = [(word.start_s, word.end_s) for word in words]
        path = self._study.path(recording.relative)
        zero_s = read_header(path, self._streams).start_s if recording.is_video else None
        blocks = read_audio(path, RATE, zero_s, streams=self._streams)
        if self._rttm is None:
            turns, claims, doubts, alike = self._by_model(blocks, recording, by)
        else:
            turns, claims, doubts = self._by_rttm(self._rttm[recording.name], blocks, by, spans)
            alike = set()
        claims = {"hand": {number - 1: person for person, number in by.by_hand.items()}} | claims
        if self._store:
            speech = read_mouths(self._study, self._store, recording.session_id)
            clock = self._study.clock(recording.session_id, recording.track)
            claims["mouth"] = match_mouths(turns, clock, speech, by.persons)
        names = self._voice_names(recording)
        owners, named, contradictions = settle(claims, names, by, alike)
        doubts += contradictions
        doubts += [
            f"--voice {person}={speaker} names nobody: "
            + (
                "its file has no such speaker"
                if self._rttm is not None
                else "look which voice that is, and run the command again"
            )
            for person, speaker in self._hand_names(recording.session_id)
            if person not in by.by_hand
        ]
        voices, doubtful = turns.of_spans(spans, by.least), turns.are_doubtful(spans)
        words = [replace(word, is_uncertain=is_doubtful) for word, is_doubtful in zip(words, doubtful, strict=True)]
        spoken = [
            utterance
            for voice, pairs in groupby(zip(voices, words, strict=True), key=itemgetter(0))
            for utterance in utterances(
                [word for _, word in pairs],
                self._transcribe.pause_s,
                *self._speaker(recording.session_id, voice, owners, names),
            )
        ]
        share = sum(voice is not None for voice in voices) / max(len(voices), 1)
        by = by.model_copy(update={"attributed": round(share, 4), "named": named, "doubts": tuple(doubts)})
        provenance = made.provenance.model_copy(update={"speakers": None, "by_voice": by})
        heard = tuple(
            Turn(start_s=start_s, end_s=end_s, speaker=str(speaker), person_id=person_id, probability=probability)
            for start_s, end_s, voice, probability in turns.runs(by.least)
            for speaker, person_id in [self._speaker(recording.session_id, voice, owners, names)]
        )
        return made.model_copy(update={"utterances": tuple(spoken), "turns": heard, "provenance": provenance})

    def _by_model(
        self, blocks: Iterable[AudioBlock], recording: Recording, by: ByVoice
    ) -> tuple[Turns, dict[str, dict[int, str]], list[str], set[int]]:
        """The turns, whose voices they are by each evidence, what is doubtful, and voices that are alike."""
        windows = Windows.read(voiced_pieces(blocks, self._transcribe.voice_threshold), self._model.embed)
        enrolled = [(person, vector) for person, _, vector in self._of_session(recording.session_id)]
        every = [vector for _, vector in enrolled] if {name for name, _ in enrolled} == {*by.persons} else []
        turns = find_turns(windows, len(by.persons), every)
        doubt = f"the voices of {len(by.persons)} persons are hard to tell apart: many words may have the wrong speaker"
        doubts = [] if turns.is_distinct else [doubt]
        alike = alike_voices(turns, windows)
        return turns, {"enrolment": match_enrolled(turns, windows, enrolled)}, doubts, alike

    def _by_rttm(
        self, rttm: Rttm, blocks: Iterable[AudioBlock], by: ByVoice, spans: Sequence[tuple[float, float]]
    ) -> tuple[Turns, dict[str, dict[int, str]], list[str]]:
        """The same, by the turns of a file."""
        times = [(block.time, block.time + len(block.samples) / RATE) for block in blocks]
        turns = rttm.turns(times[0][0], times[-1][1])
        doubts = []
        if by.persons and len(rttm.speakers) != len(by.persons):
            doubts.append(
                f"{rttm.path.name} has {len(rttm.speakers)} speakers, the table persons {len(by.persons)} persons"
            )
        if (inside := turns.share_inside(spans)) < _LEAST_INSIDE:
            doubts.append(
                f"only {inside:.0%} of the words are in turns of {rttm.path.name}: is it of another recording?"
            )
        return turns, {"file": {number - 1: person for person, number in by.by_file.items()}}, doubts

    def _named_in_file(self, recording: Recording) -> dict[str, int]:
        """By person, the number of the voice that the RTTM calls as this person, and nobody else, is called."""
        persons = persons_of_session(self._study, recording.session_id)
        return {
            person: number
            for number, speaker in enumerate(self._rttm[recording.name].speakers if self._rttm else (), start=1)
            for person, names in persons.items()
            if speaker in names and sum(speaker in names for names in persons.values()) == 1
        }

    def _voice_names(self, recording: Recording) -> tuple[str, ...]:
        """What voices are called that are nobody's, in the order in which they are first heard.

        An RTTM's own labels stay, so that ``--voice`` means the same voice as the transcript; its names do not. No
        voice is called as a person is.
        """
        persons = persons_of_session(self._study, recording.session_id)
        given = self._rttm[recording.name].speakers if self._rttm else ("",) * len(persons)
        taken = {*given}.union(*persons.values())
        free = (name for number in count(1) if (name := f"speaker_{number}") not in taken)
        return tuple(speaker if _LABEL.fullmatch(speaker) else next(free) for speaker in given)

    def _has_other_names(self, made: TranscriptFile, recording: Recording) -> bool:
        """Whether a person has another role since the transcript was made."""
        pairs = {(one.person_id, one.speaker) for one in made.utterances}
        pairs |= {(one.person_id, one.speaker) for one in made.turns or ()}
        return any(
            speaker != speaker_of(self._study, recording.session_id, person) for person, speaker in pairs if person
        )

    def _speaker(
        self, session_id: str, voice: int | None, owners: Mapping[int, str], names: Sequence[str]
    ) -> tuple[str | None, str | None]:
        """What the speaker of a voice is called, and the id of the person, if known."""
        if voice is None:
            return None, None
        person = owners.get(voice)
        return (speaker_of(self._study, session_id, person), person) if person else (names[voice], None)


def settle(
    claims: Mapping[str, Mapping[int, str]], names: Sequence[str], by: ByVoice, alike: Collection[int] = ()
) -> tuple[dict[int, str], dict[str, str], list[str]]:
    """Whose each voice is, by what each person was named, and what is doubtful.

    Args:
        claims: by the kind of evidence, the strongest first, whose it says each voice is.
        alike: voices that may be halves of one: none of them is anybody's because it is left.
        names: of the voices; the one that is left is the person's who is left.
    """
    owners: dict[int, str] = {}
    named: dict[str, str] = {}
    doubts: list[str] = []
    for kind, claim in claims.items():
        for voice, person in claim.items():
            if voice not in owners and person not in named:
                owners[voice], named[person] = person, kind
            elif owners.get(voice) != person:
                other = named[person] if person in named else named[owners[voice]]
                doubts.append(f"by {kind}, {names[voice]} is {person}; by {other}, somebody else")
    unknown, left = [*{*range(len(names))} - {*owners}], [*{*by.persons} - {*named}]
    if alike:
        called = " and ".join(owners.get(voice, names[voice]) for voice in sorted(alike))
        doubts.append(f"the voices {called} are alike: one person may have both, and another one not speak")
    if len(unknown) == len(left) == 1 and left[0] not in by.enrolled and unknown[0] not in alike:
        owners[unknown[0]], named[left[0]] = left[0], "left over"
    expected = by.persons if by.by_mouth else by.enrolled
    doubts += [f"it is not clear which voice is that of {person}" for person in expected if person not in named]
    return owners, named, doubts


def _refuse_others(study: Study, recording: Recording, rttm: Rttm) -> None:
    """Refuse turns that are called as another session or its recording is, and not as this one is."""
    names: dict[str, set[str]] = {}
    for session_id, tracks in study.tracks.items():
        paths = {Path(path) for files in tracks.values() for path in (files.audio, files.video) if path}
        for name in (session_id, *(path.stem for path in paths), *(path.name for path in paths)):
            names.setdefault(name, set()).add(session_id)
    for name in (rttm.recording, rttm.path.stem):
        if recording.session_id not in (sessions := names.get(name, {recording.session_id})):
            raise RttmError(
                f"{rttm.path}: its turns are called {name!r}, which is of session {sorted(sessions)[0]}, and not of "
                f"{recording.session_id}: give the turns of {recording.relative}"
            )


def _unknown_number(study: Study, session_id: str) -> str:
    row = f"{session_id},person"
    file = study.root / "persons.csv"
    line = (
        f"printf '{row}_1\\n{row}_2\\n' >> {file}"
        if file.exists()
        else f"printf 'session_id,person_id\\n{row}_1\\n{row}_2\\n' > {file}"
    )
    return (
        f"{session_id}: the table persons does not say how many people speak. Give each of them a row, for two: {line}"
    )
