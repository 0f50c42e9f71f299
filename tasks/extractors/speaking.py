"""speaking: how likely the person of a track speaks, every 0.1 s, by the session's microphones and her mouth.

Loud over its own noise, a microphone hears somebody; louder than the other persons' microphones, it hears its own
person. Where several persons share one microphone, the movement of the mouth in each one's picture tells them apart.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from storyframes.spec import MAIN, ArraySpec, Axis, FeatureSpec, of_track
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from storyframes.times import SESSION_CLOCK, ticks
from tasks.extractors.base import Cost, ExtractionError, Extractor, ExtractorSettings, Input, MissingInputError, Source
from tasks.extractors.frames import FrameClock, read_clock_if_any
from tasks.extractors.image.faces import read_landmarks
from tasks.extractors.regions import note_doubtful_of
from tasks.extractors.source import Microphone, Microphones
from tasks.media.container import RecordingError
from tasks.media.sound import NoAudioError
from tasks.media.sound_bands import SoundBands
from tasks.media.speech import STEP_S, evidence, mouth_movement, probability
from tasks.media.video_header import read_header

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


class Speaking(Extractor[SpeakingSettings]):
    """The ``speaking`` extractor."""

    spec = SPEC
    Settings = SpeakingSettings
    version = 2  # a person who never spoke in a monologue spoke, and the model was fitted on synthetic voices (1)
    inputs = (Input.VIDEO, Input.AUDIO, Input.MICROPHONES)
    needs_frames: ClassVar[bool] = False
    libraries = ("av",)

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
        if heard.is_shared and not self.settings.mouth and (others or source.track != MAIN):
            raise MissingInputError(
                "its microphone is another person's as well, so loudness does not say who speaks: give each person a "
                "microphone, or name the feature that shows the mouths: [speaking] mouth = 'openface'"
            )
        end_s = float(heard.clock.to_device(heard.own.clock.to_session(own.start_s + own.seconds)))
        steps = max(math.ceil(max(end_s, clock.end_s if clock else 0.0) / STEP_S), 0)
        levels = [bands.levels(each.clock, heard.clock, steps, STEP_S) for each, bands in microphones]
        mouth = self._mouth(source, clock, steps, out) if clock and self.settings.mouth else None
        over, *others_over = (SoundBands.over_floor(level) for level in levels)
        shown = evidence(over, others_over, mouth)
        of_anybody = not others and not (heard.is_shared and self.settings.mouth)
        value = probability(shown, of_anybody=of_anybody)
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
