"""What every feature that is computed outside can be set."""

from __future__ import annotations

from pydantic import Field

from tasks.extractors.settings import ExtractorSettings
from tasks.tools.containers import EngineName


class OutsideSettings(ExtractorSettings):
    """The base of a plug-in's section, ``[<feature>]``, where its program has an environment of its own.

    Attributes:
        cpus: processors that the program may use.
        timeout_s: the least time that it is waited for; while it is fed by a slower pass it may take its time.
        timeout_s_per_video_s: how long it is waited for, in seconds per second of video, where that is more.
    """

    cpus: int = Field(default=1, ge=1)
    timeout_s: float = Field(default=300, gt=0)
    timeout_s_per_video_s: float = Field(default=30, gt=0)

    def patience_s(self, video_s: float) -> float:
        """How long the program may keep us waiting for a video of this many seconds."""
        return max(self.timeout_s, self.timeout_s_per_video_s * video_s)


class ContainerSettings(OutsideSettings):
    """The same where it runs in a container.

    Attributes:
        image: pinned by digest (NAME@sha256:…), by image id (sha256:…), or the absolute path of a SIF file.
        engine: podman, docker or apptainer; without it the first that is installed.
        memory_gib: GiB of memory that the container may use.
    """

    image: str = ""
    engine: EngineName | None = None
    memory_gib: float = Field(default=4, gt=0)


DECIDE_NO_VALUE = frozenset(ContainerSettings.model_fields)
"""None of these is part of a fingerprint: the image's digest is, by itself."""
