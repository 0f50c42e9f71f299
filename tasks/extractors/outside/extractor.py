"""The base classes of plug-ins whose features are computed outside this process.

Such a plug-in declares its arrays, where its program runs (``run``), and the program. ``OutsideFrameExtractor`` sends
it the session's frames; they are decoded here, once for all features that want them, so that every feature has the same
ones. ``OutsideExtractor`` gives it the paths of the session's files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

import numpy as np

from storyframes.store.publish import FeatureWriter
from storyframes.store.records import canonical_json
from tasks.extractors.base import ExtractionError, Extractor, Input, Run, Source
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.frames import FrameClock, Frames, read_clock_if_any
from tasks.extractors.outside.environment import EnvironmentMissingError, InstallError, Requirements, find_environment
from tasks.extractors.outside.runtime import ContainerRuntime, Runtime, VenvRuntime
from tasks.extractors.outside.session import Assignment, FrameStream, OutsideSession, outside_session
from tasks.extractors.outside.settings import DECIDE_NO_VALUE, ContainerSettings, OutsideSettings, VenvSettings
from tasks.extractors.regions import region_view, video_for_tool
from tasks.media.container import RecordingError, StreamChoice, recording_files
from tasks.media.recording import FrameBatch
from tasks.models.digests import model_digests
from tasks.tools.containers import ContainerError
from tasks.tools.hpc_engines import find_engine

_UNLIMITED_GIB = 4.0

S = TypeVar("S", bound=OutsideSettings)


class OutsideExtractor(Extractor[S]):
    """A feature that an external program makes from the session's files.

    Attributes:
        run: ``Run.VENV`` or ``Run.CONTAINER``.
        program: a Python file, or a folder with a ``__main__.py``, that comes with the plug-in (see ``client``). May be
            None in a container, where ``command`` is all.
        requirements: of its environment, for ``Run.VENV``.
        command: for ``Run.CONTAINER``, what is run there, with an absolute path first: an interpreter and its flags
            for ``program``, or a program of the image, which gets the manifest's path as its last argument.
    """

    Settings = OutsideSettings
    run: ClassVar[Run] = Run.VENV
    program: ClassVar[Path | None] = None
    requirements: ClassVar[Requirements]
    command: ClassVar[tuple[str, ...]] = ()

    def results_of(
        self, pictures: Iterable[np.ndarray], time: np.ndarray, width: int, height: int
    ) -> dict[str, np.ndarray]:
        """The program's arrays of pictures that are no session's frames, without a store.

        Args:
            pictures: T pictures in order, each (height, width, 3) uint8 RGB.
            time: (T,) float64 seconds.

        Raises:
            ExtractionError: the program failed.
        """
        assignment = Assignment(
            spec=self.spec,
            session_id="",
            inputs=self.model_files(),
            settings=self.value_settings(),
            frame_times=time,
            patience_s=self.settings.patience_s(float(time[-1])),
            threads=self.settings.cpus,
            private=self.is_private,
        )
        arrays = _ArraysInMemory({})
        stream = FrameStream(len(time), width, height)
        with outside_session(assignment, self.runtime, uuid4().hex, stream) as work:
            for rgb in pictures:
                work.send(rgb[None])
            work.finish(arrays)
        return {name: np.concatenate(rows) for name, rows in arrays.rows.items()}

    @property
    def needs(self) -> Mapping[str, float]:
        """The program's own processors; feeding it takes no other, since one waits while the other works."""
        return {"CPU": self.settings.cpus}

    @property
    def tool_memory_gib(self) -> float:
        """What its container may use; a program in an environment is limited by nothing, and assumed to be as large."""
        return self.settings.memory_gib if isinstance(self.settings, ContainerSettings) else _UNLIMITED_GIB

    def value_settings(self) -> Mapping[str, Any]:
        """The section without what decides no value."""
        return self.settings.model_dump(mode="json", exclude=set(DECIDE_NO_VALUE))

    def model_files(self) -> Mapping[str, Path]:
        """Files that the program opens besides the session's, by name: ``job.inputs[name]``; none by default.

        Their digests are part of every fingerprint, their paths are not.

        Raises:
            ExtractionError: one is not here; the message says how to get it.
        """
        return {}

    def models(self) -> Mapping[str, str]:
        """The digests of what runs: the program's files, its model files, and its environment's pins or its image."""
        runtime = self.runtime
        digests = {"program": program_digest(self.program)} if self.program else {}
        files = self.model_files()
        hashes = model_digests(files.values())
        digests |= {name: hashes[path] for name, path in files.items()}
        if isinstance(runtime, ContainerRuntime):
            return {**digests, "image": runtime.image.digest}
        return {**digests, "requirements": self.own_requirements().sha256}

    def own_requirements(self) -> Requirements:
        """What its environment is made of: the plug-in's pins, or those of the section.

        Raises:
            InstallError: the section names a file that does not exist.
        """
        settings = self.settings
        if isinstance(settings, VenvSettings) and settings.pins:
            return self.requirements.with_pins(settings.pins)
        return self.requirements

    def tools(self) -> Mapping[str, str]:
        """The environment's Python; an image has its own."""
        return {"python": self.runtime.environment.python} if isinstance(self.runtime, VenvRuntime) else {}

    def check_tool(self) -> None:
        """Look for the environment or the image, and the model files; see :meth:`Extractor.check_tool`.

        Raises:
            ExtractionError: one is not here; the message says what makes it.
        """
        self.runtime  # noqa: B018 - raises where it is missing
        self.model_files()

    def extract(self, source: Source, out: FeatureWriter) -> None:
        """Run the program on the session's files and store what it wrote."""
        clock = read_clock_if_any(source, out) if Frames.spec.name in self.after else None
        with self.session(source, out, clock, None) as work:
            work.finish(out)

    @cached_property
    def runtime(self) -> Runtime:
        """Where the program runs.

        Raises:
            ExtractionError: it is not here.
        """
        settings = self.settings
        try:
            if self.run is Run.VENV:
                if self.program is None:
                    raise ExtractionError(f"{type(self).__name__} needs program, the file that runs in its environment")
                return VenvRuntime(find_environment(self.own_requirements()), self.program, settings.cpus)
            if not isinstance(settings, ContainerSettings):
                raise ExtractionError(f"{type(self).__name__}.Settings must be derived from ContainerSettings")
            if not settings.image:
                raise ExtractionError(f"[{self.name}] image = the container image that it runs in is not set")
            engine = find_engine(settings.engine)
            image = engine.resolve(settings.image)
            return ContainerRuntime(engine, image, self.command, self.program, settings.limits(video_s=0))
        except (EnvironmentMissingError, InstallError, ContainerError) as error:
            raise ExtractionError(str(error)) from None

    @contextmanager
    def session(
        self, source: Source, out: FeatureWriter, clock: FrameClock | None, frames: FrameStream | None
    ) -> Iterator[OutsideSession]:
        """The program at work on a session; see :func:`outside_session`. The video that it opens is upright."""
        kinds = [kind for kind in self.inputs_of(source) if not (frames and kind == Input.VIDEO)]
        inputs = {str(kind): self.file(source, kind).path for kind in kinds} | dict(self.model_files())
        self._refuse_other_sound(inputs)
        with ExitStack() as stack:
            if Input.VIDEO in inputs:
                try:
                    view = region_view(source, out, self.common.recording) if self.sees_pictures else None
                    inputs[Input.VIDEO] = stack.enter_context(
                        video_for_tool(inputs[Input.VIDEO], view, self.common.recording, out)
                    )
                except RecordingError as error:
                    raise ExtractionError(str(error)) from None
            if isinstance(self.runtime, ContainerRuntime) and (limits := self.runtime.engine.unenforced):
                out.attributes["limits_not_enforced"] = limits
            assignment = self._assignment(source, clock, inputs)
            yield stack.enter_context(outside_session(assignment, self.runtime, out.version, frames))

    def _refuse_other_sound(self, inputs: Mapping[str, Path]) -> None:
        """The program opens the sound by itself, so it would hear the first of several.

        Raises:
            ExtractionError: the file has several sounds, of which not the first is chosen, or there are several files.
        """
        number, sound = self.common.recording.sound_stream, inputs.get(Input.AUDIO)
        if sound and len(files := recording_files(sound)) > 1:
            raise ExtractionError(
                f"{sound.name}: is {len(files)} files, and the program of {self.name} opens one: make a sound file of "
                f"them (ffmpeg {' '.join(f'-i {file.name}' for file in files)} -filter_complex "
                f"concat=n={len(files)}:v=0:a=1 OTHER.wav) and name it as audio in the tables"
            )
        try:
            if sound and number and not StreamChoice(sound=number).are_first(sound):
                raise ExtractionError(
                    f"{sound.name}: has several sounds, and the program of {self.name} reads the first by itself, but "
                    f"[recording] sound_stream = {number}: make a file of that sound (ffmpeg -i {sound.name} -map 0:v? "
                    f"-map 0:a:{number} -c copy OTHER{sound.suffix}) and name it in the tables"
                )
        except RecordingError as error:
            raise ExtractionError(str(error)) from None

    def _assignment(self, source: Source, clock: FrameClock | None, inputs: Mapping[str, Path]) -> Assignment:
        return Assignment(
            spec=self.spec,
            session_id=source.session_id,
            inputs=inputs,
            settings=self.value_settings(),
            frame_times=clock.time if clock else np.zeros(0),
            patience_s=self.settings.patience_s(clock.end_s if clock else 0),
            threads=self.settings.cpus,
            private=self.is_private,
        )


class OutsideFrameExtractor(OutsideExtractor[S], FrameExtractor[S]):
    """A feature with a row for each video frame, made by an external program that is sent the frames."""

    _feed: _Feed | None = None

    def extract(self, source: Source, out: FeatureWriter) -> None:
        """A pass of its own, where no other feature shares it."""
        FrameExtractor.extract(self, source, out)

    def open(self, source: Source, out: FeatureWriter) -> _Feed:
        """Look for the environment or the image; the program starts with the first frame, since it needs its size."""
        self.check_tool()
        self._feed = _Feed(self, source, out, FrameClock.read(source, out))
        return self._feed

    def close(self) -> None:
        """End the program, whatever became of the pass."""
        if self._feed:
            self._feed.close()


@dataclass(frozen=True)
class _ArraysInMemory:
    """A program's arrays, kept as blocks of rows."""

    rows: dict[str, list[np.ndarray]]

    def array(self, name: str) -> list[np.ndarray]:
        return self.rows.setdefault(name, [])


class _Feed:
    """Sends the frames of a pass to a program, and stores its rows at the end."""

    on_gpu = False

    def __init__(
        self, extractor: OutsideFrameExtractor[Any], source: Source, out: FeatureWriter, clock: FrameClock
    ) -> None:
        self._begin = partial(extractor.session, source, out, clock)
        self._frames = len(clock)
        self._out = out
        self._stack = ExitStack()
        self._session: OutsideSession | None = None

    def add(self, batch: FrameBatch) -> None:
        if self._session is None:
            _, height, width, _ = batch.rgb.shape
            self._session = self._stack.enter_context(self._begin(FrameStream(self._frames, width, height)))
        self._session.send(batch.rgb)

    def finish(self) -> None:
        if self._session:
            self._session.finish(self._out)
        self.close()

    def close(self) -> None:
        self._stack.close()


def program_digest(program: Path) -> str:
    """SHA-256 over the files of a program, and their names."""
    files = [program] if program.is_file() else [path for path in program.rglob("*") if path.is_file()]
    kept = {path.relative_to(program).as_posix(): path for path in files if "__pycache__" not in path.parts}
    digests = model_digests(kept.values())
    return hashlib.sha256(canonical_json({name: digests[path] for name, path in kept.items()})).hexdigest()
