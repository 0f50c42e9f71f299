"""speaking: how likely the person of a track speaks, every 0.1 s, by the session's microphones and her mouth.

Loud over its own noise, a microphone hears somebody; louder than the other persons' microphones, it hears its own
person. Where several persons share one microphone, the movement of the mouth in each one's picture tells them apart, or
their voices: the turns that the microphone's transcript has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import model_validator

from storyframes.spec import MAIN, ArraySpec, Axis, FeatureSpec, of_track
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from storyframes.times import SESSION_CLOCK, ticks
from tasks.extractors.base import (
    Cost,
    ExtractionError,
    Extractor,
    ExtractorSettings,
    Input,
    InputFile,
    MissingInputError,
    Source,
)
from tasks.extractors.frames import FrameClock, read_clock_if_any
from tasks.extractors.image.faces import read_landmarks
from tasks.extractors.regions import note_doubtful_of
from tasks.extractors.source import Microphone, Microphones
from tasks.media.container import RecordingError
from tasks.media.sound import NoAudioError
from tasks.media.sound_bands import SoundBands
from tasks.media.speech import STEP_S, evidence, mouth_movement, probability, voice_probability
from tasks.media.video_header import read_header
from tasks.study.transcript_formats.drafts import FormatError
from tasks.study.transcript_formats.json_formats import Turn, read_turns

_SUREST = 0.97  # no turn is surer: of what its voice seems to say, short answers of others are a part
_NEXT = "storyframes transcribe STUDY --voices MODEL --voice PERSON=FILE"

SPEC = FeatureSpec(
    name="speaking",
    about="how likely the person of this track speaks, by the session's microphones and the movement of the mouth",
    arrays={
        "values": ArraySpec(
            Axis.AUDIO_FRAME,
            "float32",
            "probability, 0 to 1, that the person speaks in the 0.1 s around time; NaN where nothing says so",
            units="probability",
        ),
        "time": ArraySpec(Axis.AUDIO_FRAME, "float64", "middle of the step on the recording's clock", units="s"),
        "valid": ArraySpec(Axis.AUDIO_FRAME, "uint8", "1 where there is a probability", fill=0),
        "evidence": ArraySpec(
            Axis.AUDIO_FRAME,
            "float32",
            "loudness of the person's microphone over its noise, over the other persons' microphones (each over its "
            "own noise), and over what it hears of them (dB); the movement of the mouth (standard deviation over 0.7 s "
            "of the distance of the lips, in heights of the face); NaN where there is none",
            (4,),
            ("kind",),
            columns=("over_noise_db", "over_others_db", "over_crosstalk_db", "mouth_movement"),
        ),
        "per_frame": ArraySpec(
            Axis.FRAME, "float32", "values of the step that the frame's time is in", units="probability"
        ),
    },
    mask="valid",
)


class SpeakingSettings(ExtractorSettings):
    """``[speaking]``"""

    # the feature whose landmarks show the mouth: "openface", "face", "dope"; empty: sound alone decides
    mouth: str = ""
    # of a microphone of several people, the turns of their voices in its transcript say who speaks
    voices: bool = False

    @model_validator(mode="after")
    def _is_mouth_or_voices(self) -> Self:
        if self.mouth and self.voices:
            raise ValueError("'mouth' and 'voices' both say who speaks on a microphone of several people: set one")
        return self


class Speaking(Extractor[SpeakingSettings]):
    """The ``speaking`` extractor."""

    spec = SPEC
    Settings = SpeakingSettings
    version = 2  # a person who never spoke in a monologue spoke, and the model was fitted on synthetic voices (1)
    needs_frames: ClassVar[bool] = False
    libraries = ("av",)

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]  # by the settings
        """The sound, and the transcript that has the turns of the voices."""
        return (Input.VIDEO, Input.AUDIO, Input.MICROPHONES, *([Input.TURNS] if self.settings.voices else []))

    @property
    def after(self) -> tuple[str, ...]:  # type: ignore[override]  # by the settings
        """The clock, and the feature that has the landmarks of the mouth."""
        return ("frames", *self.reads)

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]  # by the settings
        """The feature that has the landmarks of the mouth."""
        return (self.settings.mouth,) if self.settings.mouth else ()

    @property
    def cost(self) -> Cost:
        return Cost(0.004, 0.2)

    def value_settings(self) -> Mapping[str, Any]:
        """Without ``voices`` where it is off: stored features are older than this setting."""
        return self.settings.model_dump(mode="json", exclude=None if self.settings.voices else {"voices"})

    def file(self, source: Source, kind: str) -> InputFile:
        if kind == Input.TURNS and not source.names(kind):
            raise MissingInputError(
                "the tables name no transcript of its microphone, which is another person's as well. Name one file "
                f"in both tracks, no copy; then: {_NEXT}"
            )
        return super().file(source, kind)

    def extract(self, source: Source, out: FeatureWriter) -> None:
        clock = read_clock_if_any(source, out)
        has_sound_file = source.frameless or source.names(Input.AUDIO)
        kind = Input.AUDIO if has_sound_file else Input.VIDEO
        heard = source.microphones or Microphones(Microphone(kind, has_sound_file, SESSION_CLOCK))
        every = [(each, self._bands(source, each)) for each in (heard.own, *heard.others)]
        if isinstance(error := every[0][1], NoAudioError):
            raise MissingInputError(str(error))
        microphones = [(each, bands) for each, bands in every if isinstance(bands, SoundBands)]
        (_, own), *others = microphones
        by_voice = Input.TURNS in self.inputs_of(source)
        if heard.is_shared and not self.settings.mouth and not by_voice and (others or source.track != MAIN):
            raise MissingInputError(
                "its microphone is another person's as well, so loudness does not say who speaks: give each person a "
                "microphone, name the feature that shows the mouths, [speaking] mouth = 'openface', or set [speaking] "
                "voices = true, with a person_id for each track"
            )
        end_s = float(heard.clock.to_device(heard.own.clock.to_session(own.start_s + own.seconds)))
        steps = max(math.ceil(max(end_s, clock.end_s if clock else 0.0) / STEP_S), 0)
        levels = [bands.levels(each.clock, heard.clock, steps, STEP_S) for each, bands in microphones]
        mouth = self._mouth(source, clock, steps, out) if clock and self.settings.mouth else None
        over, *others_over = (SoundBands.over_floor(level) for level in levels)
        shown = evidence(over, others_over, mouth)
        of_anybody = not others and not (heard.is_shared and self.settings.mouth)
        value = probability(shown, of_anybody=of_anybody)
        if by_voice:
            value *= self._voice(source, heard, steps, out)
            of_anybody = False
        if heard.is_shared and mouth is not None:
            value[np.isnan(mouth)] = np.nan  # somebody speaks; whether it is this person only the mouth shows
        if np.isnan(value).all():
            raise MissingInputError("nothing shows when this person speaks: is her microphone muted, her face unseen?")
        if of_anybody:
            out.caveat(Caveat.ANYBODYS_SPEECH)
        if any(bands.has_varying_noise for _, bands in microphones):
            out.caveat(Caveat.VARYING_NOISE)
        if damaged := sum(bands.damaged for _, bands in microphones):
            out.quality["damaged_sound_packets"] = damaged
            out.caveat(Caveat.DAMAGED_SOUND)
        out.write("values", value)
        out.write("time", (np.arange(steps) + 0.5) * STEP_S)
        out.write("valid", (~np.isnan(value)).astype(np.uint8))
        out.write("evidence", shown)
        if clock:
            rows = np.clip(ticks(clock.time) // ticks(STEP_S), 0, steps - 1)
            out.write("per_frame", value[rows])
        out.quality["speaking_share"] = float(np.nanmean(value))
        out.attributes |= {
            "step_s": STEP_S,
            "microphones": 1 + len(others),
            "microphone": source.file(heard.own.kind).sha256,
            "is_shared": heard.is_shared,
            "clock": heard.clock.stored,
            "mouth": self.settings.mouth,
        }

    def _mouth(self, source: Source, clock: FrameClock, steps: int, out: FeatureWriter) -> np.ndarray:
        """(steps,) how much the mouth moves, see :func:`tasks.media.speech.mouth_movement`."""
        feature = of_track(self.settings.mouth, source.track)
        (extractor,) = self.read_extractors.values()
        note_doubtful_of(source, out, feature)
        landmarks, blocks = read_landmarks(
            out.storage,
            source.session_id,
            feature,
            len(clock),
            f"[speaking] mouth = {self.settings.mouth!r}",
            extractor.fingerprint(source).digest,
        )
        try:
            opening = np.concatenate([landmarks.mouth_openings(rows) for rows in blocks])
        except ValueError as error:
            raise ExtractionError(f"[speaking] mouth = {self.settings.mouth!r}: {error}") from None
        return mouth_movement(clock.time, opening, steps)

    def _voice(self, source: Source, heard: Microphones, steps: int, out: FeatureWriter) -> np.ndarray:
        """(steps,) how likely a voice is the person's, see :func:`tasks.media.speech.voice_probability`."""
        file = self.file(source, Input.TURNS)
        try:
            found = read_turns(file.path)
        except (FormatError, OSError) as error:
            raise ExtractionError(f"{file.relative}: {error}") from None
        if not found.turns:
            raise MissingInputError(f"{file.relative} does not say whose voice speaks when: {_NEXT}")
        if heard.person not in {turn.person_id for turn in found.turns}:
            raise MissingInputError(f"no turn in {file.relative} is of the person of this track: {_NEXT}")
        out.caveat(Caveat.BY_VOICE)
        if found.are_doubtful:
            out.caveat(Caveat.DOUBTFUL_VOICES)
        on_track = (np.arange(steps) + 0.5) * STEP_S
        return of_person(found.turns, heard.person, heard.own.clock.to_device(heard.clock.to_session(on_track)))

    def _bands(self, source: Source, microphone: Microphone) -> SoundBands | NoAudioError:
        """The powers of a microphone, or that it has no sound, as of a camera."""
        path = source.file(microphone.kind).path
        try:
            streams = self.common.recording.streams
            zero_s = None if microphone.is_sound_file else read_header(path, streams).start_s
            return SoundBands.read(path, zero_s, streams=streams)
        except NoAudioError as error:
            return error
        except RecordingError as error:
            raise ExtractionError(str(error)) from None


def of_person(turns: Sequence[Turn], person_id: str, time_s: np.ndarray) -> np.ndarray:
    """(steps,) how likely a voice at these seconds of the recording is the person's, if there is one."""
    voices = len({turn.speaker for turn in turns})
    sure = [min(turn.probability, _SUREST) for turn in turns]
    likely = [
        p if turn.person_id == person_id else (1 - p) / max(voices - 1, 1) if turn.person_id else math.nan
        for turn, p in zip(turns, sure, strict=True)
    ]
    spans = np.array([(turn.start_s, turn.end_s) for turn in turns])
    return voice_probability(spans, np.array(likely), voices, time_s)
