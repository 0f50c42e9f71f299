"""prosody: how each utterance is spoken: rates, pauses, pitch, loudness and voice quality, by Praat."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from pydantic import Field

from storyframes import ArraySpec, Axis, FeatureName, FeatureSpec, ticks
from storyframes.store import Caveat, Current, FeatureWriter
from tasks.extractors import (
    CommonSettings,
    Cost,
    ExtractionError,
    ExtractorSettings,
    FrameClock,
    Sound,
    SoundExtractor,
    Source,
    speaker_labels,
)
from tasks.media import AudioBlock
from tasks.study import UnusableFileError, Utterance, read_transcript

if TYPE_CHECKING:
    from parselmouth import Sound as PraatSound

COLUMNS = (
    *("words_per_s", "syllables_per_s", "articulation_rate"),
    *("pauses", "pause_s", "longest_pause_s", "pause_share", "pause_before_s"),
    *("f0_median_hz", "f0_relative_st", "f0_range_st", "f0_slope_st_s"),
    *("intensity_db", "jitter_local", "shimmer_local", "hnr_db", "voiced_share"),
)
_ABOUT = (
    "words and syllables per second, and syllables per second without pauses; pauses inside: how many, s together, s "
    "of the longest, their share, and s since the same speaker's utterance before, if nobody spoke between; pitch: "
    "median in Hz, the same in semitones over the speaker's median, semitones from the 5th to the 95th percentile, "
    "semitones a second; mean intensity in Praat's dB; jitter (local) and shimmer (local) as ratios, harmonics-to-"
    "noise ratio in dB; the share of voiced frames; NaN where it cannot be measured (see reason)"
)
RATE = 16_000
_LOUD_DB, _NEAR_DB, _STEP_S = 6.0, 3.0, 0.1
"""Another's microphone hears its person where it is so far over its noise, and the own one less far above it."""
_SLACK_S = 1.0  # a recogniser's last word may end this much after the recording


class Reason(IntEnum):
    """Why an utterance lacks measures of the sound."""

    SHORT = 1
    CROSSTALK = 2
    OUTSIDE = 4
    UNVOICED = 8


_REASONS = (
    "why measures of the sound are NaN, 0 where they are there, else a sum of: 1, it is too short; 2, another speaker "
    "speaks as well; 4, the recording does not have all of it; 8, it has too little voice for pitch and voice quality"
)


class ProsodySettings(ExtractorSettings):
    """``[prosody]``: the pitch that is looked for at first, and which utterances are measured."""

    # the widest range of pitch; each speaker's own comes from what is found in it
    floor_hz: float = Field(default=60.0, ge=50, lt=300)
    ceiling_hz: float = Field(default=700.0, ge=300, le=2000)
    by_speaker: bool = True  # False: the widest range is everybody's
    least_s: float = Field(default=0.2, ge=0.2)  # shorter utterances have no measures of the sound
    least_voiced_s: float = Field(default=0.1, ge=0.05)  # with less voice an utterance has no pitch
    overlap_s: float = Field(default=0.1, ge=0)  # speech of others that is tolerated in an utterance
    speaking: bool = False  # whether others' speech is also looked for in their microphones, by the feature speaking


class Prosody(SoundExtractor[ProsodySettings]):
    """The ``prosody`` extractor."""

    spec = FeatureSpec(
        name="prosody",
        about="how each utterance is spoken, by Praat",
        arrays={
            "values": ArraySpec(Axis.UTTERANCE, "float32", _ABOUT, (len(COLUMNS),), ("column",), columns=COLUMNS),
            **{
                name: ArraySpec(Axis.UTTERANCE, "float64", f"when it {name}s on the recording's clock", units="s")
                for name in ("start", "end")
            },
            "speaker": ArraySpec(Axis.UTTERANCE, "int16", "index into the attribute 'speakers'", fill=-1),
            "reason": ArraySpec(Axis.UTTERANCE, "uint8", _REASONS, fill=0),
            "valid": ArraySpec(Axis.UTTERANCE, "uint8", "1 where reason is 0", fill=0),
            "frame_utterance": ArraySpec(
                Axis.FRAME, "int32", "the utterance spoken at this frame's time, -1 where none is", fill=-1
            ),
        },
        groups={"rate": slice(0, 3), "pause": slice(3, 8), "pitch": slice(8, 12), "voice": slice(12, 17)},
        mask="valid",
    )
    Settings = ProsodySettings
    version = 2  # pauses held speech of others, and utterances without a length had a rate (1)
    inputs = ("video", "audio", "transcript")
    libraries = ("praat-parselmouth", "av")
    imports = ("parselmouth",)

    def __init__(self, settings: ProsodySettings, common: CommonSettings) -> None:
        super().__init__(settings, common)
        if settings.speaking:
            self.reads, self.after = ("speaking",), ("frames", "speaking")

    @property
    def cost(self) -> Cost:
        return Cost(0.05)

    def tools(self) -> Mapping[str, str]:
        return {"parselmouth": version("praat-parselmouth")} if find_spec("parselmouth") else {}

    def write_sound(self, source: Source, clock: FrameClock | None, out: FeatureWriter) -> None:
        from storyframes_prosody import praat

        utterances, speaker, labels = self._speech(source, out)
        start, end = (np.array([getattr(each, name) for each in utterances]) for name in ("start_s", "end_s"))
        is_short = ticks(end) - ticks(start) < ticks(self.settings.least_s)
        heard, unknown = self._heard_spans(source, out)
        others = np.concatenate([crosstalk_spans(source), heard])
        has_others = ticks(overlaps_s(start, end, speaker, others)) > ticks(self.settings.overlap_s)
        reason = is_short * np.uint8(Reason.SHORT) + has_others * np.uint8(Reason.CROSSTALK)
        widest = self.settings.floor_hz, self.settings.ceiling_hz
        voiced: list[list[np.ndarray]] = [[] for _ in labels]
        if self.settings.by_speaker:
            for row, part in self._parts(*self._sound(source), start, end, reason):
                voiced[speaker[row]].append(praat.voiced_hz(part, *widest))
        ranges = [praat.own_range(frequencies, *widest) for frequencies in voiced]
        values = {name: np.full(len(start), np.nan) for name in COLUMNS}
        words = np.array([len(each.words) for each in utterances], float)
        values["words_per_s"] = words / np.where(ticks(end) > ticks(start), end - start, np.nan)
        values["pause_before_s"] = pauses_before(start, end, speaker, others)
        voiced, (sound, holes) = [[] for _ in labels], self._sound(source)
        for row, part in self._parts(sound, holes, start, end, reason):
            measures, frequencies = praat.voice_of(part, *ranges[speaker[row]], self.settings.least_voiced_s)
            for name, value in {**praat.timing_of(part), **measures}.items():
                values[name][row] = value
            voiced[speaker[row]].append(frequencies)
            reason[row] |= 0 if "f0_median_hz" in measures else Reason.UNVOICED
        medians = [float(np.median(np.concatenate(each))) if any(map(len, each)) else np.nan for each in voiced]
        reference = np.array(medians)[speaker] if labels else np.empty(0)
        values["f0_relative_st"] = praat.semitones(values["f0_median_hz"], reference)
        end_s = max(sound.start_s + sound.duration_s, clock.end_s if clock else 0.0)
        if (end > end_s + _SLACK_S).any() and not (clock and clock.truncated):
            raise ExtractionError(f"an utterance ends after {end_s:.2f} s, the end of the recording: is it another's?")
        sound.note_extent(clock, out)
        out.write("values", np.stack([*values.values()], axis=1).astype(np.float32))
        out.write("start", start)
        out.write("end", end)
        out.write("speaker", np.array(speaker, np.int16))
        out.write("reason", reason)
        out.write("valid", (reason == 0).astype(np.uint8))
        if clock:
            out.write("frame_utterance", clock.rows_at(start, end))
            if (ticks(start) >= ticks(clock.end_s)).any():
                out.caveat(Caveat.SPEECH_AFTER_END)
        out.quality |= {f"utterances_{each.name.lower()}": int(((reason & each) > 0).sum()) for each in Reason}
        unheard = overlaps_s(start, end, [0] * len(start), unknown)  # of the others: their speech is not known
        if count := int(((reason == 0) & (ticks(unheard) > ticks(self.settings.overlap_s))).sum()):
            out.caveat(Caveat.ANYBODYS_SPEECH)
            out.quality["utterances_unheard"] = count
        out.attributes["speakers"] = labels
        out.attributes["pitch_hz"] = {  # of each speaker the floor, the ceiling and the median
            label: [round(hz, 2) if math.isfinite(hz) else None for hz in (*ranges[number], medians[number])]
            for number, label in enumerate(labels)
        }

    def _sound(self, source: Source) -> tuple[Sound, list[tuple[float, float]]]:
        """The sound, and the spans in which it has silence for what is lost, of what was read so far."""
        holes: list[tuple[float, float]] = []

        def noted(blocks: Iterator[AudioBlock]) -> Iterator[AudioBlock]:
            for block in blocks:
                if block.silence_s:
                    holes.append((block.time, block.time + block.silence_s))
                yield block

        return Sound(noted(Sound.blocks(source, RATE, streams=self.common.recording.streams)), RATE), holes

    def _speech(self, source: Source, out: FeatureWriter) -> tuple[Sequence[Utterance], list[int], list[str]]:
        """The utterances in the order of their start, the speaker of each, and the speakers' labels."""
        settings = self.common.transcript
        try:
            transcript = read_transcript(
                source.file("transcript").path,
                allow_malformed=settings.allow_malformed_cues,
                speaker_prefixes=settings.speaker_prefixes,
            )
        except UnusableFileError as error:
            raise ExtractionError(str(error)) from None
        for caveat, applies in (
            (Caveat.MALFORMED_CUES, transcript.malformed),
            (Caveat.UNCERTAIN_SPEAKERS, transcript.uncertain_speakers),
            (Caveat.GUESSED_LANGUAGE, transcript.guessed_language),
            (Caveat.DOUBTFUL_VOICES, transcript.doubtful_voices),
        ):
            if applies:
                out.caveat(caveat)
        names = {**transcript.pseudonyms, **source.speakers}
        speaker, labels = speaker_labels([utterance.speaker for utterance in transcript.utterances], names)
        return transcript.utterances, speaker, labels

    def _heard_spans(self, source: Source, out: FeatureWriter) -> tuple[np.ndarray, np.ndarray]:
        """:func:`heard_spans` by the feature ``speaking`` of the track; none without the setting."""
        if not self.read_extractors:
            return np.empty((0, 2)), np.empty((0, 2))
        ((feature, extractor),) = self.read_extractors.items()
        name = FeatureName.of_track(feature, source.track)
        path = f"{source.session_id}/{name}"
        current = Current.parse_of(source.session_id, name, out.storage.read(f"{path}/current.json"), path)
        if current is None or current.fingerprint != extractor.fingerprint(source).digest:
            raise ExtractionError(f"[prosody] speaking needs {name} of these files and settings: extract it first")
        time, evidence = (
            np.asarray(zarr.open_array(mode="r", **out.storage.zarr(f"{path}/{current.version}/{array}"))[:])
            for array in ("time", "evidence")
        )
        return heard_spans(time, evidence, is_shared=bool(source.microphones and source.microphones.is_shared))

    def _parts(
        self,
        sound: Sound,
        holes: Sequence[tuple[float, float]],
        start: np.ndarray,
        end: np.ndarray,
        reason: np.ndarray,
    ) -> Iterator[tuple[int, PraatSound]]:
        """The row and the sound of each utterance that has no reason, cut as Praat's "Extract part" does.

        Sets :attr:`Reason.OUTSIDE`. The sound is read to its end, and no more of it is kept than an utterance needs.
        """
        from storyframes_prosody.praat import as_sound

        blocks = sound.samples()
        kept, first = np.empty(0, np.float32), 0
        begins = np.ceil((start - sound.start_s) * RATE - 0.5).astype(int)
        stops = np.floor((end - sound.start_s) * RATE - 0.5).astype(int) + 1
        for row, (begin, stop) in enumerate(zip(begins, stops, strict=True)):
            pieces, count = [kept], first + len(kept)
            while count < stop and (block := next(blocks, None)) is not None:
                pieces.append(block)
                count += len(block)
            dropped = min(max(begin - first, 0), count - first)
            kept, first = np.concatenate(pieces)[dropped:], first + dropped
            is_whole = begin >= 0 and stop <= count and not any(at < end[row] and to > start[row] for at, to in holes)
            reason[row] |= 0 if is_whole else Reason.OUTSIDE
            if not reason[row]:
                yield row, as_sound(kept[: stop - begin])
        for _ in blocks:
            pass


def overlaps_s(
    start: np.ndarray, end: np.ndarray, speaker: Sequence[int], others: np.ndarray | None = None
) -> np.ndarray:
    """(n,) seconds of each span in which another speaker has a span as well.

    Args:
        others: (m, 2) spans in which somebody speaks who has no number.

    Example:
        >>> overlaps_s(np.array([0.0, 2.0, 5.0]), np.array([4.0, 3.0, 6.0]), [0, 1, 0]).tolist()
        [1.0, 1.0, 0.0]
    """
    spans, who = np.stack([start, end], axis=1), np.asarray(speaker)
    unnamed = np.empty((0, 2)) if others is None else others
    result = np.zeros(len(start))
    for row, (begin, stop) in enumerate(spans):
        over = np.concatenate([spans[who != who[row]], unnamed])
        over = np.clip(over[(over[:, 0] < stop) & (over[:, 1] > begin)], begin, stop)
        over = over[np.argsort(over[:, 0])]
        reach = np.maximum.accumulate(np.append(begin, over[:, 1]))  # how far the spans before go
        result[row] = np.maximum(over[:, 1] - np.maximum(over[:, 0], reach[:-1]), 0).sum()
    return result


def heard_spans(time: np.ndarray, evidence: np.ndarray, *, is_shared: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(m, 2) where another person's microphone hears speech that is not the own person's, and where none can say so.

    Args:
        time, evidence: of the feature ``speaking``.
        is_shared: the own microphone is another person's as well, whom no other microphone hears.
    """
    over_noise, over_others = evidence[:, 0], evidence[:, 1]  # dB, of the own microphone
    is_heard = (over_noise - over_others > _LOUD_DB) & (over_others < _NEAR_DB)
    is_unknown = np.isnan(over_others) | is_shared
    around = np.stack([time - _STEP_S / 2, time + _STEP_S / 2], axis=1)
    return around[is_heard], around[is_unknown]


def crosstalk_spans(source: Source) -> np.ndarray:
    """(m, 2) the words of other persons that ``storyframes transcribe`` heard on this microphone and left out."""
    path = source.file("transcript").path
    if path.suffix.lower() != ".json":
        return np.empty((0, 2))
    try:
        content: Any = json.loads(path.read_bytes())
    except ValueError:  # whisper.cpp's with broken characters, which were read
        return np.empty((0, 2))
    words = content.get("crosstalk") if isinstance(content, dict) else None
    return np.array([(word["start_s"], word["end_s"]) for word in words or ()], float).reshape(-1, 2)


def pauses_before(
    start: np.ndarray, end: np.ndarray, speaker: Sequence[int], others: np.ndarray | None = None
) -> np.ndarray:
    """(n,) seconds since the same speaker's utterance before; NaN where there is none, or another spoke between.

    Args:
        others: (m, 2) spans in which somebody speaks who has no number.

    Example:
        >>> pauses_before(np.array([0.0, 1.5, 3.0, 5.0]), np.array([1.0, 2.0, 4.0, 6.0]), [0, 0, 1, 0]).tolist()
        [nan, 0.5, nan, nan]
    """
    who, latest = np.asarray(speaker), np.maximum.accumulate(end)
    follows = (who[1:] == who[:-1]) & (latest[:-1] <= start[1:])
    pauses = np.append(np.full(min(len(start), 1), np.nan), np.where(follows, start[1:] - end[:-1], np.nan))
    if others is not None and len(others):
        with_others = overlaps_s(np.append(0.0, end)[: len(start)], start, [0] * len(start), others)
        pauses[ticks(with_others) > 0] = np.nan
    return pauses
