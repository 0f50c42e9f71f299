"""What is scored: one sample for each story that a session rated, with what was said in a phase and the story's text.

The labels and splits come from the store's clip index, the texts from the study: the store holds none. A sample lives
in memory only; its texts are in no ``repr``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pandas as pd

from storyframes import FeatureStore
from tasks.extractors import CommonSettings, speaker_labels
from tasks.study import (
    Study,
    UnusableFileError,
    check_study_record,
    read_transcript,
    spoken_name,
)

WHOLE_SESSION = "session"  # the phase of a study without phases


class SampleError(ValueError):
    """There is nothing to score; the message says why and what to do."""


@dataclass(frozen=True)
class Sample:
    """One story that a session rated.

    Attributes:
        session_id, participant_id, story_id, split: from the clip index.
        rating: the label, as it was given.
        said: what was said in the phase; never logged.
        story: the story's text; never logged.
    """

    session_id: str
    participant_id: str
    story_id: str
    split: str
    rating: float
    said: str = field(repr=False)
    story: str = field(repr=False)


@dataclass(frozen=True)
class Samples:
    """The samples that can be scored, and by session why others cannot: a text is missing or damaged."""

    samples: tuple[Sample, ...]
    left_out: Mapping[str, str]
    damaged: Mapping[str, str]

    def of_consenting(self, study: Study) -> Samples:
        """Those in which every participant has agreed that texts leave the machine (``consent_external``)."""
        agreed = {participant.participant_id for participant in study.participants if participant.consent_external}
        there: dict[str, set[str]] = {
            session_id: {session.participant_id} for session_id, session in study.sessions.items()
        }
        for person in study.persons:
            if person.participant_id:
                there[person.session_id].add(person.participant_id)
        refused = {
            sample.session_id: "not everybody in it has consent_external in the table participants"
            for sample in self.samples
            if not there[sample.session_id] <= agreed
        }
        kept = tuple(one for one in self.samples if one.session_id not in refused)
        return replace(self, samples=kept, left_out={**self.left_out, **refused})


@dataclass(frozen=True)
class SampleChoice:
    """Which samples.

    Attributes:
        phase: of the clip index.
        conversation: all utterances, as lines of ``A:`` (the participant) and ``B:``; else the participant's alone.
        speaker: what transcripts call the participant.
        common: how strictly transcripts are read.
    """

    phase: str
    conversation: bool = False
    speaker: str = "participant"
    common: CommonSettings = field(default_factory=CommonSettings)


def read_samples(study: Study, store: FeatureStore, choice: SampleChoice) -> Samples:
    """One sample for each session and story of a phase, in the order of the clip index.

    Raises:
        SampleError: the index has no such phase, or no clip of it has a story.
        StoreError: the store is another study's, or has no clip index.
    """
    check_study_record(store.storage, study)
    rated = _rated(store.clips(), choice.phase)
    texts = {story.story_id: story.text for story in study.stories}
    said: dict[str, str] = {}
    left_out: dict[str, str] = {}
    damaged: dict[str, str] = {}
    for session_id in rated["session_id"].unique():
        try:
            said[session_id] = read_said(study, session_id, choice)
        except SampleError as error:
            left_out[session_id] = str(error)
        except UnusableFileError as error:
            damaged[session_id] = str(error)
    samples = []
    for row in rated[rated["session_id"].isin(list(said))].itertuples():
        if row.story_id not in texts:
            raise SampleError(
                f"the clip index has the story {row.story_id!r}, which the study's table stories has not: "
                "'storyframes index' brings the index up to date"
            )
        samples.append(
            Sample(
                row.session_id, row.participant_id, row.story_id, row.split, float(row.empathy),
                said[row.session_id], texts[row.story_id],
            )
        )  # fmt: skip
    return Samples(tuple(samples), left_out, damaged)


def _rated(clips: pd.DataFrame, phase: str) -> pd.DataFrame:
    """A row for each session and story."""
    there = list(dict.fromkeys(clips["phase"]))
    if phase not in there:
        raise SampleError(f"the clip index has no phase {phase!r}; it has {', '.join(map(str, there)) or 'none'}")
    chosen = clips[clips["phase"] == phase]
    rated = chosen[chosen["story_id"].notna() & chosen["empathy"].notna()]
    if rated.empty:
        raise SampleError(
            f"no clip of the phase {phase!r} has a rated story: text scorers need the tables stories and ratings "
            "(docs/study.md)"
        )
    return rated.drop_duplicates(["session_id", "story_id"])


def read_said(study: Study, session_id: str, choice: SampleChoice) -> str:
    """What is sent of a session's phase: no name of a speaker is in it.

    Raises:
        SampleError: there is nothing to send, or its speakers are uncertain.
        UnusableFileError: the transcript cannot be read.
    """
    session = study.sessions.get(session_id)
    if session is None:
        raise SampleError("the study has no such session any more")
    if session.transcript is None:
        raise SampleError("it has no transcript")
    path = study.path(session.transcript)
    how = choice.common.transcript
    transcript = read_transcript(path, allow_malformed=how.allow_malformed_cues, speaker_prefixes=how.speaker_prefixes)
    if transcript.uncertain_speakers:
        raise SampleError(
            f"{transcript.uncertain_speakers} of its captions may begin with a speaker's name, or have none where "
            "others do: set [transcript] speaker_prefixes = true if such beginnings are speakers, else false"
        )
    spans = [
        (part.start_s, part.end_s)
        for part in study.phases
        if (part.session_id, part.phase) == (session_id, choice.phase)
    ] or ([(0.0, float("inf"))] if choice.phase == WHOLE_SESSION else [])
    known = {**transcript.pseudonyms, **study.speakers.get(session_id, {})}
    numbers, labels = speaker_labels([one.speaker for one in transcript.utterances], known)
    requested = spoken_name(choice.speaker)
    utterances = [
        replace(
            one,
            speaker=choice.speaker if requested in map(spoken_name, (labels[number], one.speaker)) else labels[number],
        )
        for number, one in zip(numbers, transcript.utterances, strict=True)
    ]
    spoken = [utterance for utterance in utterances if any(start <= utterance.start_s < end for start, end in spans)]
    mine = [one for one in spoken if one.speaker.casefold() == choice.speaker.casefold()]
    if not mine:
        speakers = len({one.speaker for one in spoken})
        raise SampleError(
            f"nobody called {choice.speaker!r} speaks in the phase, {speakers} other speakers do: "
            "--speaker says what the transcripts call the participant"
        )
    if choice.conversation:
        return "\n".join(f"{'A' if one in mine else 'B'}: {one.text}" for one in spoken)
    return " ".join(one.text for one in mine)
