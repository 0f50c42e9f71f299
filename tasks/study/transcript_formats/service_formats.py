"""JSON of services that transcribe: AssemblyAI, Deepgram and AWS Transcribe."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel

from tasks.study.transcript_formats.drafts import Confidence, Draft, DraftWord, FormatError, utterances_of


def check_finished(status: str | None) -> None:
    """Refuse the answer of a job that has no transcript yet, or never will.

    Raises:
        FormatError: of such a job.
    """
    match (status or "completed").lower():
        case "completed":
            return
        case "error" | "failed":
            raise FormatError("is the answer of a job that failed: transcribe the recording again")
        case _:
            raise FormatError(
                "is the answer of an unfinished job (its 'status' is not 'completed'): save the answer again when "
                "the job is done"
            )


# --- AssemblyAI ------------------------------------------------------------------------------------------------------


class AssemblyWord(BaseModel):
    """A word; milliseconds."""

    text: str
    start: int
    end: int
    speaker: str | None = None
    confidence: Confidence = math.nan

    def draft(self) -> DraftWord:
        start_s, end_s = self.start / 1000, self.end / 1000
        return DraftWord(word=self.text, start_s=start_s, end_s=end_s, confidence=self.confidence)


class AssemblyUtterance(BaseModel):
    """An utterance; milliseconds."""

    speaker: str | None = None
    start: int
    end: int
    text: str
    words: list[AssemblyWord] | None = None

    def draft(self) -> Draft:
        words = [word.draft() for word in self.words or ()]
        start_s, end_s = self.start / 1000, self.end / 1000
        return Draft(speaker=self.speaker, start_s=start_s, end_s=end_s, text=self.text, words=words)


class Assembly(BaseModel):
    """AssemblyAI's transcript object: ``utterances`` is null without speaker labels."""

    status: str | None = None
    text: str | None = None
    utterances: list[AssemblyUtterance] | None = None
    words: list[AssemblyWord] | None = None

    def drafts(self) -> Iterator[Draft]:
        check_finished(self.status)
        if self.utterances:
            return (utterance.draft() for utterance in self.utterances)
        words = self.words or []
        if not words and (self.text or "").strip():
            raise FormatError("has a text, but neither utterances nor words with times")
        return utterances_of([word.draft() for word in words], lambda number: words[number].speaker)


# --- Deepgram --------------------------------------------------------------------------------------------------------


class DeepgramWord(BaseModel):
    """A word."""

    word: str
    punctuated_word: str | None = None
    start: float
    end: float
    confidence: Confidence = math.nan
    speaker: int | None = None

    def draft(self) -> DraftWord:
        word = self.punctuated_word or self.word
        return DraftWord(word=word, start_s=self.start, end_s=self.end, confidence=self.confidence)


class DeepgramUtterance(BaseModel):
    """An utterance, where the request had ``utterances=true``."""

    start: float
    end: float
    transcript: str
    words: list[DeepgramWord]
    speaker: int | None = None
    channel: int = 0


class DeepgramAlternative(BaseModel):
    """What is heard of a channel."""

    words: list[DeepgramWord]


class DeepgramChannel(BaseModel):
    """A channel of the recording, with its hypotheses, the best one first."""

    alternatives: list[DeepgramAlternative]


class DeepgramResults(BaseModel):
    """Channels, and utterances of all of them."""

    channels: list[DeepgramChannel] = []
    utterances: list[DeepgramUtterance] | None = None


class Deepgram(BaseModel):
    """Deepgram's answer for a recording."""

    results: DeepgramResults

    def drafts(self) -> Iterator[Draft]:
        has_channels = len(self.results.channels) > 1
        for utterance in self.results.utterances or ():
            speaker = _deepgram_speaker(utterance.speaker, utterance.channel, has_channels=has_channels)
            words = [word.draft() for word in utterance.words]
            start_s, end_s, text = utterance.start, utterance.end, utterance.transcript
            yield Draft(speaker=speaker, start_s=start_s, end_s=end_s, text=text, words=words)
        for number, channel in enumerate(self.results.channels if not self.results.utterances else ()):
            if channel.alternatives:
                words_of = channel.alternatives[0].words
                speakers = [_deepgram_speaker(word.speaker, number, has_channels=has_channels) for word in words_of]
                yield from utterances_of([word.draft() for word in words_of], speakers.__getitem__)


def _deepgram_speaker(speaker: int | None, channel: int, *, has_channels: bool) -> str | None:
    """Speakers are numbered in each channel; without them each channel is one."""
    if not has_channels:
        return None if speaker is None else f"speaker_{speaker}"
    return f"channel {channel}" if speaker is None else f"channel {channel} speaker {speaker}"


# --- AWS Transcribe --------------------------------------------------------------------------------------------------


class AwsAlternative(BaseModel):
    """A hypothesis of a word; numbers are texts."""

    content: str
    confidence: float | None = None


class AwsItem(BaseModel):
    """A word, or a punctuation mark after one."""

    type: Literal["pronunciation", "punctuation"]
    alternatives: list[AwsAlternative]
    start_time: float | None = None
    end_time: float | None = None
    speaker_label: str | None = None


class AwsSpeakerSegment(BaseModel):
    """Who speaks in a stretch."""

    start_time: float
    end_time: float
    speaker_label: str


class AwsSpeakers(BaseModel):
    """Who speaks when, where items do not say it."""

    segments: list[AwsSpeakerSegment] = []


class AwsChannel(BaseModel):
    """The items of a channel of the recording."""

    channel_label: str
    items: list[AwsItem]


class AwsChannels(BaseModel):
    """Channels that were transcribed by themselves."""

    channels: list[AwsChannel] = []


class AwsResults(BaseModel):
    """Words and punctuation in their order."""

    items: list[AwsItem]
    speaker_labels: AwsSpeakers | None = None
    channel_labels: AwsChannels | None = None


class Aws(BaseModel):
    """The transcript of a job of AWS Transcribe."""

    status: str | None = None
    results: AwsResults

    def drafts(self) -> Iterator[Draft]:
        check_finished(self.status)
        channels = self.results.channel_labels.channels if self.results.channel_labels else []
        for channel in channels:
            yield from _of_items(channel.items, [], channel.channel_label)
        if not channels:
            segments = self.results.speaker_labels.segments if self.results.speaker_labels else []
            yield from _of_items(self.results.items, segments, None)


def _of_items(items: Sequence[AwsItem], segments: Sequence[AwsSpeakerSegment], channel: str | None) -> Iterator[Draft]:
    words: list[DraftWord] = []
    speakers: list[str | None] = []
    starts = [segment.start_time for segment in segments]
    for item in items:
        if not item.alternatives:
            continue
        best = item.alternatives[0]
        if item.type == "punctuation":
            if words:
                words[-1].word += best.content
            continue
        confidence = math.nan if best.confidence is None else best.confidence
        words.append(DraftWord(word=best.content, start_s=item.start_time, end_s=item.end_time, confidence=confidence))
        before = bisect_right(starts, item.start_time or 0.0)
        in_segment = segments[before - 1].speaker_label if before else None
        speakers.append(item.speaker_label or in_segment or channel)
    yield from utterances_of(words, speakers.__getitem__)


class AwsJob(BaseModel):
    """What ``get-transcription-job`` says of a job: it has no words, only where they are."""

    TranscriptionJob: dict[str, Any]

    def drafts(self) -> Iterator[Draft]:
        check_finished(str(self.TranscriptionJob.get("TranscriptionJobStatus")))
        raise FormatError(
            "describes a job of AWS Transcribe and has no words: save the file that its 'TranscriptFileUri' names"
        )
