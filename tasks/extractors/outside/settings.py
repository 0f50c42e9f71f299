"""What every feature that is computed outside can be set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from tasks.extractors.settings import ExtractorSettings
from tasks.tools.containers import EngineName, Limits


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


class VenvSettings(OutsideSettings):
    """The same where it has a Python environment.

    Attributes:
        pins: a requirements file of your own to use instead of the plug-in's, in the same form: another build of a
            library, a mirror. Its digest is part of every fingerprint, its path is not.
    """

    pins: Path | None = None


class ContainerSettings(OutsideSettings):
    """The same where it runs in a container.

    Attributes:
        image: pinned by digest (NAME@sha256:…), by image id (sha256:…), or the path of a SIF file or an image's folder.
        engine: podman, docker, apptainer, singularity or charliecloud; without it the first that is installed.
        memory_gib: GiB of memory that the container may use.
    """

    image: str = ""
    engine: EngineName | None = None
    memory_gib: float = Field(default=4, gt=0)

    @field_validator("image")
    @classmethod
    def _image_is_no_option(cls, image: str) -> str:
        if image.startswith("-"):
            raise ValueError("begins with '-', and a container engine would take it for an option")
        return image

    @classmethod
    def anchored(cls, section: dict[str, Any], folder: Path) -> dict[str, Any]:
        """As in the base class; an image may be a file as well."""
        section = super().anchored(section, folder)
        if str(section.get("image", "")).endswith(".sif"):
            section["image"] = str(folder / section["image"])
        return section

    def limits(self, video_s: float) -> Limits:
        """What one run on a video of this many seconds may use."""
        return Limits(cpus=self.cpus, memory_gib=self.memory_gib, timeout_s=self.patience_s(video_s))


DECIDE_NO_VALUE = frozenset({*ContainerSettings.model_fields, *VenvSettings.model_fields})
"""None of these is part of a fingerprint: the digests of the image and of the pins are, by themselves."""
