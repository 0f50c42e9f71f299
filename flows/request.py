"""What a run is asked to do: one model for the command line, for Python and for the form of a deployment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from flows.clusters.settings import ClusterSettingsError, LocalCluster, load_cluster
from flows.settings import Settings, load_settings
from storyframes.spec import LABEL_PATTERN, NAME_PATTERN
from storyframes.store.layout import ID_PATTERN
from tasks.extractors.registry import registered
from tasks.planning.selection import Selection

# Prefect's server checks a deployment's parameters by these before a run is made of them. In Python the selection is
# checked against the study, whose messages are better.
_SessionId = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{ID_PATTERN.pattern}$"})]
_TrackName = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{ID_PATTERN.pattern}$"})]
# The server cannot know what a configuration's [[embed]] sections and a study's curves are called.
_FEATURE_NAME = f"^({NAME_PATTERN.pattern}|{LABEL_PATTERN.pattern})$"
_FeatureName = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": _FEATURE_NAME, "examples": list(registered())})
]
# A deployment's flow starts in a folder of its own, where a relative path leads nowhere.
_Path = Annotated[Path, WithJsonSchema({"type": "string", "format": "path", "pattern": "^/"})]
_Location = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^(/|[a-z0-9]+://)"})]


PART = re.compile(r"^[1-9][0-9]{0,5}/[1-9][0-9]{0,5}$")


class ExtractionRequest(BaseModel):
    """What a run is asked to do; the descriptions are those of a deployment's form."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: _Path = Field(description="The study's folder, the same for all workers.")
    features: _Location = Field(description="The feature store: a folder, or s3://bucket/prefix.", min_length=1)
    config: _Path | None = Field(default=None, description="The configuration's TOML file; without it the defaults.")
    cluster: _Location | None = Field(
        default=None, description="A cluster's YAML file, or tls://host:port; without it what the configuration says."
    )
    workers: int | None = Field(
        default=None, ge=1, description="Only so many processors, where this machine is the cluster."
    )
    part: str | None = Field(
        default=None,
        pattern=PART.pattern,
        description="Only this part of the sessions, as 3/40; all parts together are the whole.",
    )
    allow_mixed: bool = Field(
        default=False, description="A part that differs from others in settings or code: with a caveat on the versions."
    )
    session_ids: tuple[_SessionId, ...] | None = Field(
        default=None, description="Only these sessions; without it all of them and the stories."
    )
    only: tuple[_FeatureName, ...] | None = Field(default=None, description="Only these features.")
    tracks: tuple[_TrackName, ...] | None = Field(
        default=None, description="Only these tracks; main are the sessions' own files. Without it all of them."
    )
    force: bool = Field(default=False, description="Also extract features that are up to date.")
    replace_study: bool = Field(
        default=False, description="Take the place of another study, of which the feature store was made."
    )

    @property
    def selection(self) -> Selection:
        return Selection(self.session_ids or None, self.only or None, self.force, self.tracks or None)

    def load_settings(self) -> Settings:
        """The configuration, with the cluster asked for.

        Raises:
            SettingsError, ClusterSettingsError: a file cannot be used.
        """
        settings = load_settings(self.config)
        if self.part is not None:  # whatever cluster the configuration has: a part is done where it is
            return settings.model_copy(update={"cluster": LocalCluster(cpus=self.workers, gpus=1)})
        if self.cluster is not None:
            settings = settings.model_copy(update={"cluster": load_cluster(self.cluster)})
        if self.workers is not None:
            if not isinstance(settings.cluster, LocalCluster):
                raise ClusterSettingsError(
                    f"--workers {self.workers} is of this machine, and the cluster is of kind "
                    f"{settings.cluster.kind!r}, whose description says how many workers it has"
                )
            cluster = settings.cluster.model_copy(update={"cpus": self.workers})
            settings = settings.model_copy(update={"cluster": cluster})
        return settings
