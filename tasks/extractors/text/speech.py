"""The texts that features are made of: a session's transcript, checked against its recording, and the study's stories.

They are read in the worker that needs them, so no text travels through Prefect or Dask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np

from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from storyframes.times import ticks
from tasks.extractors.base import ExtractionError, Input, Source
from tasks.extractors.frames import FrameClock
from tasks.extractors.settings import CommonSettings, RecordingSettings, TranscriptSettings
from tasks.media.container import RecordingError
from tasks.media.sound import sound_s
from tasks.study.load import Story, StudyError, load_stories
from tasks.study.rows import is_no_name, spoken_name
from tasks.study.transcript import Transcript, TranscriptError, Word, read_transcript

_MANY = 0.05  # words of low confidence: every recogniser has some
SLACK_S = 1.0  # speech recognisers round; a word may end this much after the last frame


def read_speech(source: Source, clock: FrameClock | None, common: CommonSettings, out: FeatureWriter) -> Transcript:
    """The session's transcript; notes in ``out`` what was left out of it.

    Without a clock of frames the recording ends with its sound; without sound its end is unknown.

    Raises:
        MissingInputError: the study names none.
        ExtractionError: it is damaged or malformed, or goes on after the recording has ended; or the sound, whose end
            is needed, cannot be used.
    """
    path, settings = source.file(Input.TRANSCRIPT).path, common.transcript
    try:
        transcript = read_transcript(
            path, allow_malformed=settings.allow_malformed_cues, speaker_prefixes=settings.speaker_prefixes
        )
    except TranscriptError as error:
        raise ExtractionError(str(error)) from None
    end_s = _end_s(source, clock, common.recording)
    for number, utterance in enumerate(transcript.utterances, start=1):
        if end_s is not None and utterance.end_s > end_s + SLACK_S:
            raise ExtractionError(
                f"{path.name}, utterance {number} (in order of time): ends at {utterance.end_s:.2f} s, but the "
                f"recording ends at {end_s:.2f} s: is it another session's transcript?"
            )
    if transcript.malformed:
        out.caveat(Caveat.MALFORMED_CUES)
        out.quality["malformed_cues"] = len(transcript.malformed)
    if transcript.uncertain_speakers:
        out.caveat(Caveat.UNCERTAIN_SPEAKERS)
        out.quality["uncertain_speakers"] = transcript.uncertain_speakers
    if transcript.events:
        out.quality["not_speech"] = len(transcript.events)
    if transcript.guessed_language:
        out.caveat(Caveat.GUESSED_LANGUAGE)
    if transcript.doubtful_voices:
        out.caveat(Caveat.DOUBTFUL_VOICES)
    return transcript


def _end_s(source: Source, clock: FrameClock | None, recording: RecordingSettings) -> float | None:
    """When the recording ends; None where that is not known, of a truncated video and of a transcript alone."""
    if clock:
        return None if clock.truncated else clock.end_s
    if not source.names(Input.AUDIO):
        return None
    try:
        return sound_s(source.file(Input.AUDIO).path, recording.streams)
    except RecordingError as error:
        raise ExtractionError(str(error)) from None


def note_after_end(start_s: np.ndarray, clock: FrameClock, out: FeatureWriter) -> None:
    """Note how many words or utterances begin after the last frame has ended: no frame and no clip has them."""
    after = int((ticks(start_s) >= ticks(clock.end_s)).sum())
    if after:
        out.caveat(Caveat.SPEECH_AFTER_END)
        out.quality["after_end"] = after


def note_interpolation(words: list[Word], out: FeatureWriter) -> None:
    """Note how many of the words' times were interpolated."""
    interpolated = sum(not word.timed for word in words)
    if interpolated:
        out.caveat(Caveat.INTERPOLATED_WORD_TIMES)
    if words:
        out.quality["word_times_interpolated"] = interpolated / len(words)


def note_confidence(
    confidence: np.ndarray, transcript: Transcript, settings: TranscriptSettings, out: FeatureWriter
) -> None:
    """Note the share of low ones among the (n,) confidences of the words that have one."""
    if transcript.unknown_confidences:
        out.caveat(Caveat.UNKNOWN_CONFIDENCES)
    measured = confidence[~np.isnan(confidence)]
    if len(measured):
        share = float((measured < np.float32(settings.low_confidence)).mean())
        out.quality["low_confidence"] = share
        if share > _MANY:
            out.caveat(Caveat.LOW_CONFIDENCE)


def speaker_labels(speakers: Sequence[str], known: Mapping[str, str] | None = None) -> tuple[list[int], list[str]]:
    """Each utterance's speaker as an index, and the labels it points to.

    Somebody in the study's table of persons has the role or id from there. Roles (``participant``, ``robot``, …)
    and a recogniser's own labels (``A``, ``SPEAKER_01``) are kept; anything else may be a name, which has no place in a
    feature store, and becomes ``speaker_1``, ``speaker_2``, … in order of appearance, by the first number that is free.

    Args:
        speakers: as the transcript names them.
        known: the label of some, by :func:`tasks.study.tracks.spoken_name`.

    Example:
        >>> speaker_labels(["robot", "Anna", "speaker_3", "Ben", "Anna"])
        ([0, 1, 2, 3, 1], ['robot', 'speaker_2', 'speaker_3', 'speaker_4'])
        >>> speaker_labels(["Anna", "Ben", "ANNA"], {"anna": "teller"})
        ([0, 1, 0], ['teller', 'speaker_2'])
    """
    known = known or {}
    order = list(dict.fromkeys(speakers))
    label_of = {
        name: label for name in order if (label := known.get(spoken_name(name)) or (name if is_no_name(name) else ""))
    }
    for position, speaker in enumerate(order, start=1):
        if speaker not in label_of:
            free = (f"speaker_{number}" for number in count(position) if f"speaker_{number}" not in label_of.values())
            label_of[speaker] = next(free)
    labels = list(dict.fromkeys(label_of[speaker] for speaker in order))
    return [labels.index(label_of[speaker]) for speaker in speakers], labels


def read_stories(source: Source) -> list[Story]:
    """The stories of the study in the order of their ids.

    Raises:
        ExtractionError: the table of the stories has become invalid since the work was planned.
    """
    try:
        stories = load_stories(source.file(Input.STORIES).path)
    except StudyError as error:
        raise ExtractionError(f"the study is not valid any more: {error.problems[0]}") from None
    return sorted(stories, key=lambda story: story.story_id)
