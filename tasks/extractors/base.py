"""An extractor is one class that says all about a feature; nothing else in the code knows the feature's name.

An extractor of the project is a file in this folder and its class in ``registry.BUILT_IN``; one from outside is a
class that its distribution names under the entry points ``storyframes.extractors`` (docs/extending.md). A feature that
has one row for each video frame is better made of ``frame_pass.FrameExtractor``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, final

import storyframes
from storyframes.features import CLOCK, FeatureSpec
from storyframes.installation import install_line
from storyframes.spec import LABEL_PREFIX
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import canonical_json
from tasks.extractors.settings import CommonSettings, ExtractorSettings
from tasks.extractors.source import CurveFiles, ExtractionError, Input, InputFile, MissingInputError, Source
from tasks.models.weights import ModelFile

__all__ = [
    "ALL",
    "CommonSettings",
    "Cost",
    "ExtractionError",
    "Extractor",
    "ExtractorSettings",
    "Fingerprint",
    "Input",
    "InputFile",
    "MissingInputError",
    "Run",
    "Scope",
    "Source",
    "Tolerance",
    "distribution_version",
]

_DAMAGED_FRAMES = "2"  # 1: in several threads, so off FFmpeg's own pictures, and with frames that are partly unwritten

ALL = "*"
"""In :attr:`Extractor.tolerance`: every array and column that is not named."""

READ = "feature "
"""Among the tools of a fingerprint, what precedes the name of a feature that is read."""
PLUG_IN = "plug-in"
"""Among the tools of a provenance, the distribution that brought the extractor."""

S = TypeVar("S", bound=ExtractorSettings)


class Scope(StrEnum):
    """What a feature is of."""

    SESSION = "session"
    STORIES = "stories"  # the story texts of the whole study


class Run(StrEnum):
    """Where an extractor's work is done."""

    INLINE = "inline"  # in the worker's process
    VENV = "venv"  # by a program in a Python environment of its own
    CONTAINER = "container"  # by a program in a container


@dataclass(frozen=True)
class Cost:
    """What an extraction costs, in order of magnitude: enough to begin with the longest.

    Attributes:
        cpu_s_per_s: CPU-seconds for each second of a recording with 15 frames a second.
        start_s: CPU-seconds whatever its length, in a process that has done one before: loading a model, publishing.
    """

    cpu_s_per_s: float = 0.03
    start_s: float = 0.1


@dataclass(frozen=True)
class Tolerance:
    """How much two extractions of the same thing may differ: ``|a - b| <= absolute + relative * |a|``."""

    absolute: float = 0.0
    relative: float = 0.0

    ALL: ClassVar[str] = ALL  # in :attr:`Extractor.tolerance`: every array and column that is not named


@dataclass(frozen=True)
class Fingerprint:
    """Everything that decides the values of a feature; equal digests mean equal values.

    Attributes:
        feature: the feature.
        extractor: version of the extractor's code; raised when it would give other values.
        inputs: by kind, the files read.
        settings: those that change the values (not a batch size, not a path).
        models: by name, the SHA-256 of what was loaded.
        tools: by name, the version of tools that define the values.
        plug_in: name and version of the distribution of a plug-in's extractor; noted, and not part of the digest.
    """

    feature: str
    extractor: int
    inputs: Mapping[str, InputFile]
    settings: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    plug_in: str = ""

    @property
    def digest(self) -> str:
        content = {
            "feature": self.feature,
            "extractor": self.extractor,
            "inputs": {kind: file.sha256 for kind, file in self.inputs.items()},
            "settings": dict(self.settings),
            "models": dict(self.models),
            "tools": dict(self.tools),
        }
        return hashlib.sha256(canonical_json(content)).hexdigest()

    def provenance(self, libraries: tuple[str, ...]) -> dict[str, Any]:
        """What goes into the store beside the values: no host name, no absolute path.

        Args:
            libraries: distributions whose versions are noted although they do not decide the values.
        """
        return {
            "extractor": self.extractor,
            "inputs": {
                kind: {"path": file.relative, "sha256": file.sha256, "bytes": file.bytes}
                for kind, file in self.inputs.items()
            },
            "settings": dict(self.settings),
            "models": dict(self.models),
            "tools": {**self.tools, **({PLUG_IN: self.plug_in} if self.plug_in else {})},
            "libraries": {name: distribution_version(name) for name in ("numpy", "zarr", *libraries)},
            "code": f"storyframes {storyframes.__version__}",
        }


@cache
def distribution_version(name: str) -> str:
    """The version of a distribution that this process works with, ``absent`` where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


class Extractor(ABC, Generic[S]):
    """One feature's way from a session's files to the feature store.

    A new object is made for each extraction, so what it keeps is of one session.

    Attributes:
        spec: the feature's arrays; goes into the store with the values.
        Settings: its section of the configuration, ``[<feature>]``.
        version: of its code; raised when it would give other values.
        inputs: what it reads (see :class:`Input`). Their content is part of every fingerprint. May depend on the
            settings, as a property.
        after: the features of the session that have to be extracted first.
        reads: those of them whose values it reads: what decides theirs decides its own, so it is part of the
            fingerprint. May depend on the settings, as a property.
        read_extractors: by feature, the extractors of those; set by the registry.
        needs_frames: it cannot be made without a video. If this is False, a track that has only sound,
            or only a transcript, has the feature too: without arrays that have a row for each frame, and
            ``source.frameless`` says so.
        in_pixels: columns in pixels of the frame, beside x and y, and x_0, y_0, … of ``values``: of "x", of "y", and of
            "length". Of a region of a picture they become those of the whole picture.
        maps_points: of a region, it puts points in arrays that have no row for each frame into the whole picture itself
            (``regions.region_view``) and looks at no frame that shows nobody; with such arrays it is refused otherwise.
        scope: see :class:`Scope`.
        run: see :class:`Run`.
        private: somebody's words can be in an error of it, although no input holds any (speech recognition).
        libraries: distributions whose versions are noted beside the values.
        imports: packages that its extraction imports, and without which it cannot be made here.
        published: the model files that ``storyframes models`` lists for it.
        tolerance: by column or array, or :data:`ALL`, how far two extractions may differ; without it not at all.
        distribution: name and version of the plug-in that it comes with, empty for the project's own. Set by the
            registry, and noted with the values; ``version`` decides whether they are extracted again.
        may_download: whether :meth:`models` may download what is missing; False for commands that only look at a study,
            which must not fetch gigabytes. Set by the registry.

    Example:
        >>> from storyframes.features import ArraySpec, Axis
        >>> class Length(Extractor):
        ...     spec = FeatureSpec("length", "in bytes", {"values": ArraySpec(Axis.FRAME, "int64", "bytes", fill=0)})
        ...     version = 1
        ...     inputs = (Input.TRANSCRIPT,)
        ...
        ...     def extract(self, source, out):
        ...         out.write("values", [source.file(Input.TRANSCRIPT).bytes])
        >>> Length(Length.Settings(), CommonSettings()).is_private
        True
    """

    spec: ClassVar[FeatureSpec]
    Settings: ClassVar[type[ExtractorSettings]] = ExtractorSettings
    version: ClassVar[int]
    inputs: tuple[str, ...] = (Input.VIDEO,)
    after: tuple[str, ...] = ("frames",)
    reads: tuple[str, ...] = ()
    needs_frames: ClassVar[bool] = True
    in_pixels: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    maps_points: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.SESSION
    run: ClassVar[Run] = Run.INLINE
    private: ClassVar[bool] = False
    libraries: ClassVar[tuple[str, ...]] = ()
    imports: ClassVar[tuple[str, ...]] = ()
    published: ClassVar[tuple[ModelFile, ...]] = ()
    tolerance: ClassVar[Mapping[str, Tolerance]] = {}
    distribution: ClassVar[str] = ""
    may_download: bool = True

    def __init__(self, settings: S, common: CommonSettings) -> None:
        self.settings = settings
        self.common = common
        self.read_extractors: Mapping[str, Extractor[Any]] = {}

    @property
    def name(self) -> str:
        """The feature it writes."""
        return self.spec.name

    @property
    def needs(self) -> Mapping[str, float]:
        """Dask resources of one extraction: ``{"CPU": 1}``, or ``{"GPU": 1}`` where it runs on one."""
        return self.settings.needs

    @property
    def tool_memory_gib(self) -> float:
        """GiB of memory that a program which it runs may use, besides this process; 0 where it runs none."""
        return 0.0

    @property
    def cost(self) -> Cost:
        """What one extraction costs."""
        return Cost()

    @property
    def sees_pictures(self) -> bool:
        """Whether its values depend on the video's pictures, and so on the region of them that a track is."""
        return self.needs_frames and self.name != CLOCK and Input.VIDEO in self.inputs

    @property
    def condition(self) -> str:
        """Of what alone it can be made here, and what to do for more; empty if its inputs say all."""
        return ""

    def check_tool(self) -> None:
        """Make sure, before any work, that the packages and programs that it uses are installed, without using them.

        Raises:
            ExtractionError: one is missing here.
        """
        if missing := [package for package in self.imports if find_spec(package) is None]:
            name = self.distribution.partition(" ")[0]
            line = install_line(name=name) if name else install_line("pipeline")
            raise ExtractionError(f"the package {missing[0]} is not installed: {line}")

    def try_out(self, video: Path) -> Mapping[str, str]:
        """Run its tool on the first seconds of ``video``, which shows a face, for ``storyframes models check``.

        Returns:
            What was learned about the tool, by what it is about: nothing about the video. Empty if it runs no tool.

        Raises:
            ExtractionError: it does not work here.
        """
        return {}

    @final
    @property
    def is_private(self) -> bool:
        """Whether an error's text could quote somebody's words: it is kept from the store, the logs and the server."""
        return self.private or any(Input(kind).holds_words for kind in self.inputs)

    def file(self, source: Source, kind: str) -> InputFile:
        """The session's input of this kind.

        Raises:
            MissingInputError: the study names none for this session.
            ExtractionError: the study names one that cannot be used.
        """
        return source.file(kind)

    @final
    def inputs_of(self, source: Source) -> tuple[str, ...]:
        """What it reads of this session, or track: ``inputs``, without the video where it can do without and has to.

        The sound of a track without a video says when it ends, so it is read in place of the video, if there is any.
        A label's curve is as many files as it has raters, and microphones are those of all persons.
        """
        if Input.CURVE in self.inputs:
            return self._curve(source).kinds
        if Input.MICROPHONES in self.inputs:
            mics = source.microphones
            of_track = () if source.region and not source.names(Input.AUDIO) else (Input.AUDIO,)
            sound = of_track if mics is None else tuple(microphone.kind for microphone in (mics.own, *mics.others))
            turns = (Input.TURNS,) if Input.TURNS in self.inputs and mics and mics.is_shared and mics.person else ()
            return (*(() if source.frameless else (Input.VIDEO,)), *sound, *turns)
        if source.frameless and not self.needs_frames:
            others = tuple(kind for kind in self.inputs if kind != Input.VIDEO)
            ends = Input.VIDEO in self.inputs and Input.AUDIO not in others and source.names(Input.AUDIO)
            return (*others, Input.AUDIO) if ends else others
        return tuple(self.inputs)

    @final
    def _curve(self, source: Source) -> CurveFiles:
        if self.name not in source.curves:
            raise MissingInputError(
                f"the study names no curve {self.name.removeprefix(LABEL_PREFIX)!r} for this session (any more)"
            )
        return source.curves[self.name]

    def value_settings(self) -> Mapping[str, Any]:
        """The settings that decide values; all of the section, unless the extractor knows better."""
        return self.settings.model_dump(mode="json")

    def transcript_settings(self) -> Mapping[str, Any]:
        """The settings of ``[transcript]`` that decide values; confidences are the words' alone."""
        return self.common.transcript.model_dump(exclude={"low_confidence"})

    def models(self) -> Mapping[str, str]:
        """By name, the SHA-256 of what is loaded besides the inputs.

        Raises:
            ExtractionError: a model is missing.
        """
        return {}

    def fetch_models(self) -> Iterable[Path]:
        """Get what :meth:`models` needs and is not here, from where it is published; gives the path of each file.

        Raises:
            ExtractionError: it cannot be had.
        """
        return ()

    def tools(self) -> Mapping[str, str]:
        """By name, the versions of tools and libraries that define the values."""
        return {}

    @final
    def fingerprint(self, source: Source) -> Fingerprint:
        """What would decide the values; fast, without importing a model's library.

        Raises:
            MissingInputError: the session lacks an input.
            ExtractionError: an input cannot be used, or a setting or a model is missing.
        """
        if source.frameless and self.needs_frames and CLOCK in self.after:
            source.file(Input.VIDEO)  # there is none, and so no frames
        kinds = self.inputs_of(source)
        inputs = {str(kind): self.file(source, kind) for kind in kinds}
        settings = dict(self.value_settings())
        if source.region is not None and (self.sees_pictures or Input.OPENFACE in kinds):  # it says whose face is whose
            if source.region.box is None:
                inputs[Input.REGION] = self.file(source, Input.REGION)
            else:
                settings["region"] = list(source.region.box)
        if Input.VIDEO in kinds:
            settings |= self.common.recording.value_settings(of_pictures=self.sees_pictures)
        if Input.AUDIO in kinds or Input.MICROPHONES in self.inputs:
            settings |= self.common.recording.sound_settings()
        if Input.TRANSCRIPT in kinds:
            settings |= self.transcript_settings()
            if source.speakers:  # a digest: what is in the fingerprint is stored, and these are names
                settings["speakers"] = hashlib.sha256(canonical_json(dict(source.speakers))).hexdigest()
        if Input.CURVE in self.inputs:
            curve = self._curve(source)
            settings |= {"minimum": curve.scheme.minimum, "maximum": curve.scheme.maximum}
            settings |= {"between": str(curve.rule.between), "longest_gap_s": curve.rule.longest_gap_s}
            settings |= {"missing": list(curve.scheme.missing)} if curve.scheme.missing else {}
        if Input.MICROPHONES in self.inputs and source.microphones:
            settings["microphones"] = asdict(source.microphones)
            person = settings["microphones"].pop("person")
            if Input.TURNS in kinds:
                settings["person"] = hashlib.sha256(person.encode()).hexdigest()
            if not all(each.is_sound_file for each in (source.microphones.own, *source.microphones.others)):
                settings |= self.common.recording.video_settings()  # the sound's times count from its first frame
        tools = dict(self.tools())
        if Input.VIDEO in kinds and self.common.recording.allow_truncated:
            tools["decoding of damaged frames"] = _DAMAGED_FRAMES
        for feature in self.reads:
            if feature not in self.read_extractors:
                raise ExtractionError(f"{self.name} reads {feature!r}, and there is no such feature")
            tools[f"{READ}{feature}"] = self.read_extractors[feature].fingerprint(source).digest
        return Fingerprint(self.name, self.version, inputs, settings, self.models(), tools, self.distribution)

    @abstractmethod
    def extract(self, source: Source, out: FeatureWriter) -> None:
        """Read the source and write every array of the feature.

        Raises:
            MissingInputError: the session turns out to lack the input.
            ExtractionError: the input cannot become this feature.
        """
