"""Features of one recording: ``storyframes.extract``, and its result.

The pipeline (the extra ``storyframes[pipeline]``) does the work; it is looked up when ``extract`` is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from storyframes.features import in_order
from storyframes.installation import install_line
from storyframes.mistakes import explained, unknown
from storyframes.notebook import plot_columns
from storyframes.plug_ins import load_pipeline
from storyframes.store.feature_store import FeatureStore, SessionView
from storyframes.store.named.address import parse_address
from storyframes.store.named.selection import pandas_frame
from storyframes.store.tables import MASK, Table, chosen_tables


class ExtractFileError(Exception):
    """No feature can be extracted from a file; the message says why, for each."""


class PipelineMissingError(ImportError):
    """The pipeline is not installed; the message says how to install it."""


@explained("storyframes.extract('talk.mp4', 'opensmile'); 'storyframes extractors list' has the features")
def extract(
    file: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    features: str | Iterable[str],
    *,
    transcript: str | os.PathLike[str] | None = None,
    audio: str | os.PathLike[str] | None = None,
    openface_csv: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    cache: bool | str | os.PathLike[str] = True,
    progress: Callable[[str, int, int], None] | None = None,
    **sections: Any,
) -> Any:
    """Extract features of recordings without a study or a server, by the same extractors and checks as a study.

    Features that analyse the frames share one pass over them; features that another one needs are extracted first.
    Features of plug-ins are named like any other. The results are kept in a private folder of this user's cache, so a
    second call only reads; a feature is extracted again when the file, the settings, a model or the extractor changed.

    Args:
        file: a video, or a file of sound alone. Of a list of files, a folder or a pattern (``"media/*.mp4"``) each
            recording is extracted by itself.
        features: names, as listed by ``storyframes extractors list``. A part of the feature may follow after a dot,
            which :meth:`ExtractedFile.to_pandas` then returns: an array (``"opensmile.per_frame"``), a group of columns
            (``"openface.gaze"``), a column (``"openface.AU12_r"``), the arrays whose names begin with it
            (``"mediapipe.face"``), or a kind of row (``"glove.frame"``); or several features side by side
            (``"vision.measured"``).
        transcript: the transcript, for features of words (docs/study.md lists the formats).
        audio: the sound, if it is another file.
        openface_csv: an earlier output of OpenFace, used instead of running it.
        config: a TOML file (docs/configuration.md).
        cache: False keeps nothing: the features last as long as the result. A folder is used instead of the cache.
        progress: called with (what, number, how many) before each step. None shows a bar where stderr is a terminal.
        **sections: sections of the configuration, by name, instead of the file's: ``opensmile={"feature_set": …}``,
            ``embed=[{"name": …}]``.

    Returns:
        :class:`ExtractedFile`: the features that were extracted, and for the others the reason (``failed``). Of several
        recordings :class:`ExtractedFiles`, a dict of them by file.

    Raises:
        PipelineMissingError: the pipeline is not installed.
        ExtractFileError: no feature was extracted, or the file is not a recording.
        ValueError: a feature, or a part of one, is unknown.
        flows.settings.SettingsError: the configuration cannot be used; every problem is named.
        OSError: a file is missing or cannot be read; or the cache cannot be written.

    Example:
        >>> import storyframes
        >>> talk = storyframes.extract("talk.avi", ["frames"])
        >>> talk.to_pandas("frames").index.name
        'time'
    """
    try:
        extract_one = load_pipeline("extract")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("flows", "tasks", "storyframes"):
            raise
        raise PipelineMissingError(
            f"extract() needs {error.name}: {install_line('pipeline')}", name=error.name
        ) from None
    given = {"transcript": transcript, "audio": audio, "openface": openface_csv}
    return extract_one(
        Path(file) if isinstance(file, str | os.PathLike) else [Path(one) for one in file],
        [features] if isinstance(features, str) else list(features),
        {kind: Path(path) for kind, path in given.items() if path is not None},
        config=None if config is None else Path(config),
        cache=cache if isinstance(cache, bool) else Path(cache),
        sections=sections,
        progress=progress,
    )


class ExtractedFiles(dict[str, "ExtractedFile"]):
    """What was extracted of several recordings, by file.

    Attributes:
        failed: by file, the reason why nothing was extracted of it.
    """

    def __init__(self, extracted: Mapping[str, ExtractedFile], failed: Mapping[str, str]) -> None:
        super().__init__(extracted)
        self.failed = dict(failed)

    def __missing__(self, file: object) -> ExtractedFile:
        """By a path, or by its text as it was given, which may begin with ``./``."""
        if isinstance(file, str | os.PathLike) and file != (path := str(Path(file))):
            return self[path]
        why = self.failed.get(str(file))
        raise KeyError(f"{file} failed: {why}" if why else unknown("", "file", file, self))

    def __repr__(self) -> str:
        lines = [f"ExtractedFiles: {len(self)}", *(f"  {file}: {', '.join(one.asked)}" for file, one in self.items())]
        return "\n".join([*lines, *(f"  {file} failed: {reason}" for file, reason in self.failed.items())])

    def to_pandas(self, feature: str | None = None, **options: Any) -> pd.DataFrame:
        """The data frames of a feature below one another, with the file as the first level of the index.

        Args:
            **options: as of :meth:`ExtractedFile.to_pandas`.

        Raises:
            KeyError: the feature was not extracted of a recording.
        """
        return pd.concat({file: one.to_pandas(feature, **options) for file, one in self.items()}, names=["file"])


class ExtractedFile(SessionView):
    """The features that were extracted of one recording.

    Attributes:
        asked: the requested features that were extracted, with the part if one was named.
        failed: by requested feature, the reason why it was not extracted.
        store: the :class:`storyframes.FeatureStore` with the features, in which ``session_id`` is the recording.

    Example:
        >>> import storyframes
        >>> talk = storyframes.extract("talk.avi", ["opensmile", "glove"])
        >>> talk.to_pandas("opensmile").shape  # a number of the row, a mask and 65 values every 10 ms
        (196, 67)
        >>> talk.failed["glove"][:35]
        'it is made of a transcript, and non'
    """

    def __init__(
        self,
        store: FeatureStore,
        session_id: str,
        name: str,
        asked: Iterable[str],
        extracted: Iterable[str],
        failed: Mapping[str, str],
    ) -> None:
        super().__init__(store, session_id)
        self.name = name
        self.asked = list(asked)
        self.failed = dict(failed)
        self._extracted = in_order(extracted)

    def __repr__(self) -> str:
        _, *lines = super().__repr__().splitlines()
        lines += [f"  {feature} failed: {reason}" for feature, reason in self.failed.items()]
        return "\n".join([f"ExtractedFile {self.name}: {', '.join(self.asked)}", *lines])

    def _repr_html_(self) -> str:
        failed = f"failed: {', '.join(self.failed)}; the attribute failed says why"
        return self._html("ExtractedFile", [failed] if self.failed else [])

    def plot(
        self,
        feature: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        labels: str | pd.DataFrame | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw columns of a feature, or of a part of one, against time; see :meth:`SessionView.plot`.

        Args:
            feature: as of :meth:`to_pandas`; or a list of columns of any features.

        Raises:
            KeyError: as of :meth:`to_pandas`.
        """
        if labels is not None or not (feature is None or isinstance(feature, str)):
            return super().plot(feature or [], columns, labels=labels, ax=ax)
        return plot_columns(self.to_pandas(feature), columns, ax)

    def to_pandas(
        self,
        feature: str | None = None,
        *,
        rows: str | None = None,
        rate: float | None = None,
        unmeasured: bool = False,
    ) -> pd.DataFrame:
        """A feature as a data frame: the times as its index, a column for each value, preceded by ``mask`` and others.

        Args:
            feature: an extracted feature, or a part of one (see :func:`extract`); None takes the requested feature, if
                it was only one.
            rows: what a row stands for, as in :meth:`SessionView.to_pandas`.
            rate: as in :meth:`SessionView.to_pandas`.
            unmeasured: also gives the stored values of rows that are no measurements. Otherwise they are NaN, so that
                no mean includes them; whole numbers stay.

        Raises:
            KeyError: the feature was not extracted; the message says why. Or several were requested, and none is named.
            StoreError: it has no such part, or no such rows.
        """
        if feature is None:
            if len(self.asked) != 1:
                raise KeyError(f"name one of {', '.join(self.asked)}: their rows are at other times")
            feature = self.asked[0]
        chosen = chosen_tables(self.store, self.session_id, self._asked(feature), rows, rate)
        frame = pandas_frame(chosen)
        return frame if unmeasured else _measured(frame, chosen)

    def _frame(self, name: str, start: int, stop: int | None) -> pd.DataFrame:
        chosen = chosen_tables(self.store, self.session_id, name)
        return _measured(pandas_frame(chosen, start, stop), chosen)

    def _asked(self, name: str) -> str:
        for feature in parse_address(name, self._extracted).stored:
            if feature not in self._extracted:
                why = next((why for failed, why in self.failed.items() if feature in parse_address(failed).stored), "")
                asked = unknown(self.name, "feature", feature, self._extracted, so="it was asked for")
                raise KeyError(f"{feature} failed: {why}" if why else asked)
        return name

    def _features(self) -> list[str]:
        return self._extracted


def _measured(frame: pd.DataFrame, chosen: Sequence[Table]) -> pd.DataFrame:
    """The frame with NaN in the rows that are no measurement, so that they do not enter a mean; integers stay."""
    if not frame[MASK].all():
        names = {column.name for table in chosen for column in table.columns}
        floats = [name for name in frame if name in names and np.issubdtype(frame[name].dtype, np.floating)]
        frame[floats] = frame[floats].where(frame[MASK])
    return frame
