"""The feature ``dope``: the participant's body, hands and face in every frame, in 2D and 3D."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from storyframes.features import FEATURES
from storyframes.store.publish import FeatureWriter
from tasks.extractors.base import ALL, CommonSettings, Cost, ExtractionError, Source, Tolerance
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.people import FrameDetections, ParticipantTracker, everybody, shifted_rows
from tasks.extractors.dope.settings import Device, DopeSettings, People
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.regions import region_view
from tasks.extractors.settings import EngineName
from tasks.media.recording import FrameBatch
from tasks.media.region import RegionView
from tasks.models import weights
from tasks.models.digests import model_digest

if TYPE_CHECKING:
    from tasks.extractors.dope.detector import DopeDetector

_DECIDES_NO_VALUE = {"model", "device", "frames_per_pass", "boxes_per_pass"}


class Dope(FrameExtractor[DopeSettings]):
    """The ``dope`` extractor."""

    spec = FEATURES["dope"]
    Settings = DopeSettings
    version = 4
    needs_clock = False
    maps_points = True
    libraries = ("torch", "torchvision", "openvino", "opencv-python-headless", "av")
    imports = ("torch", "torchvision")
    tolerance: ClassVar = {
        ALL: Tolerance(0.01),
        **{name: Tolerance(0.5) for name in FEATURES["dope"].arrays if name.endswith("_2d")},  # pixels
    }

    def __init__(self, settings: DopeSettings, common: CommonSettings) -> None:
        super().__init__(settings.resolved(), common)

    @property
    def needs(self) -> Mapping[str, float]:
        return {"GPU": 1} if self.settings.device is Device.CUDA else {"CPU": 1}

    @property
    def cost(self) -> Cost:
        cpu_s = 60.0 if self.settings.engine is EngineName.OPENVINO else 75.0
        return Cost(cpu_s / self.settings.every_n_frames)

    def value_settings(self) -> Mapping[str, Any]:
        return self.settings.model_dump(mode="json", exclude=_DECIDES_NO_VALUE)

    def models(self) -> Mapping[str, str]:
        return {"dope": model_digest(self.model_file())}

    def open(self, source: Source, out: FeatureWriter) -> PoseWriter:
        detector = self.load_detector()
        out.attributes |= {
            "device": detector.device.type,
            "engine": str(detector.engine),
            "precision": str(detector.precision),
            "every_n_frames": self.settings.every_n_frames,
        }
        return PoseWriter(detector, self.settings, out, region_view(source, out, self.common.recording))

    def load_detector(self) -> DopeDetector:
        """The network with its weights.

        Raises:
            ExtractionError: there is no model, or it cannot be used with these settings.
        """
        from tasks.extractors.dope.checkpoint import CheckpointError, load_checkpoint
        from tasks.extractors.dope.detector import DopeDetector
        from tasks.extractors.torch_compute import check_device, network_on

        file, settings = self.model_file(), self.settings
        check_device(settings.torch_device, "[dope]")
        key = ("dope", model_digest(file), settings.model_dump_json())
        try:
            return network_on(settings.torch_device, key, lambda: DopeDetector(load_checkpoint(file), settings))
        except CheckpointError as error:
            raise ExtractionError(str(error).replace(f"{self.model_file().parent}/", "")) from None
        except ValueError as error:
            raise ExtractionError(f"[dope] {error}") from None

    def face_boxes(self, pictures: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The faces of each picture, (n, 5): left, top, width, height in pixels, and the score, 0 to 1.

        Raises:
            ExtractionError: see :meth:`load_detector`.
        """
        detector = self.load_detector()
        for rgb in pictures:
            (frame,) = detector.detect([rgb])
            faces = frame.parts[Part.FACE]
            low, high = faces.pose2d.min(1), faces.pose2d.max(1)
            yield np.column_stack([low, high - low, np.minimum(faces.score, 1)])

    def model_file(self) -> Path:
        """Where the model is.

        Raises:
            ExtractionError: it is not on this machine.
        """
        if self.settings.model is not None:
            if not self.settings.model.is_file():
                raise ExtractionError(f"[dope] model = {str(self.settings.model)!r} does not exist")
            return self.settings.model
        published = weights.MODELS["dope"]
        if path := published.path_here:
            return path
        raise ExtractionError(
            f"{published.filename} is missing: its authors publish it for non-commercial use (docs/dope.md); download "
            "it and set [dope] model = its path"
        )


class PoseWriter:
    """Detects poses in frames and writes them."""

    def __init__(
        self, detector: DopeDetector, settings: DopeSettings, out: FeatureWriter, view: RegionView | None
    ) -> None:
        self.on_gpu = detector.device.type != "cpu"
        self._detector = detector
        self._every = settings.every_n_frames
        self._tracker = ParticipantTracker(settings.rival_score)
        self._out = out
        self._arrays = {name: out.array(name) for name, spec in out.spec.arrays.items() if not spec.optional}
        self._everybody = EverybodyWriter(out, view) if settings.people is People.ALL else None
        self._sampled = self._with_body = 0

    def add(self, batch: FrameBatch) -> None:
        is_chosen = (batch.first + np.arange(len(batch))) % self._every == 0
        chosen = np.flatnonzero(is_chosen if batch.seen is None else is_chosen & batch.seen)
        detections = self._detector.detect(batch.rgb[chosen]) if len(chosen) else []
        self._write_participant(chosen, detections, len(batch))
        if self._everybody:
            self._everybody.add(chosen, detections, batch)
        self._sampled += len(chosen)
        self._with_body += sum(len(frame.parts[Part.BODY]) > 0 for frame in detections)
        self._out.quality["bodies_found"] = self._with_body / max(self._sampled, 1)

    def finish(self) -> None:
        """Every batch is written at once."""

    def _write_participant(self, chosen: np.ndarray, detections: list[FrameDetections], frames: int) -> None:
        poses = self._tracker.follow(detections)
        for name, writer in self._arrays.items():
            spec = self._out.spec.arrays[name]
            rows = np.full((frames, *spec.shape), spec.fill, spec.dtype)
            rows[chosen] = 1 if name == "sampled" else getattr(poses, name)
            writer.append(rows)


class EverybodyWriter:
    """Appends the detections of all persons to flat arrays, with offsets of each frame's rows."""

    def __init__(self, out: FeatureWriter, view: RegionView | None) -> None:
        self._arrays = {name: out.array(name) for name in out.spec.arrays if name.startswith("all_")}
        self._view = view
        self._counts = {"body": 0, "hand": 0, "face": 0}
        for part in self._counts:
            self._arrays[f"all_{part}_offsets"].append(np.zeros(1, np.int64))

    def add(self, chosen: np.ndarray, detections: list[FrameDetections], batch: FrameBatch) -> None:
        arrays = everybody(detections)
        arrays["hands_of_body"] = shifted_rows(arrays["hands_of_body"], self._counts["hand"])
        arrays["face_of_body"] = shifted_rows(arrays["face_of_body"], self._counts["face"])
        for part in self._counts:
            in_frame = np.zeros(len(batch), np.int64)
            in_frame[chosen] = np.diff(arrays[f"{part}_offsets"])
            arrays[f"{part}_offsets"] = self._counts[part] + np.cumsum(in_frame)
            self._counts[part] += int(in_frame.sum())
            if self._view is not None:
                scale, shift = self._view.to_whole(batch.first + np.repeat(np.arange(len(batch)), in_frame))
                arrays[f"{part}_2d"] = (arrays[f"{part}_2d"] * scale[:, None] + shift[:, None]).astype(np.float32)
        for name, rows in arrays.items():
            self._arrays[f"all_{name}"].append(rows)
