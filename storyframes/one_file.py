"""Features of one recording: ``storyframes.extract``, and its result.

The pipeline (the extra ``storyframes[pipeline]``) does the work; it is looked up when ``extract`` is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from storyframes.features import in_order
from storyframes.installation import install_line
from storyframes.notebook import plot_columns
from storyframes.plug_ins import load_pipeline
from storyframes.spec import MAIN_ARRAY, FeatureSpec
from storyframes.store.feature_reader import FeatureReader
from storyframes.store.feature_store import FeatureStore, SessionView, pandas_frame
from storyframes.store.layout import StoreError
from storyframes.store.tables import MASK, chosen_table


class ExtractFileError(Exception):
    """No feature can be extracted from a file; the message says why, for each."""


class PipelineMissingError(ImportError):
    """The pipeline is not installed; the message says how to install it."""


def extract(
    file: str | os.PathLike[str],
    features: str | Iterable[str],
    *,
    transcript: str | os.PathLike[str] | None = None,
    audio: str | os.PathLike[str] | None = None,
    openface_csv: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    cache: bool | str | os.PathLike[str] = True,
    progress: Callable[[str, int, int], None] | None = None,
    **sections: Any,
) -> ExtractedFile:
    """Extract features of one recording, without a study or a server, by the same extractors and checks as a study.

    Features that analyse the frames share one pass over them; features that another one needs are extracted first.
    Features of plug-ins are named like any other. The results are kept in a private folder of this user's cache, so a
    second call only reads; a feature is extracted again when the file, the settings, a model or the extractor changed.

    Args:
        file: a video, or a file of sound alone.
        features: names, as listed by ``storyframes extractors list``. A part of the feature may follow after a dot,
            which :meth:`ExtractedFile.to_pandas` then returns: an array (``"opensmile.per_frame"``), a group of columns
            (``"openface.gaze"``), the arrays whose names begin with it (``"mediapipe.face"``), or a kind of row
            (``"glove.frame"``).
        transcript: the transcript, for features of words (docs/study.md lists the formats).
        audio: the sound, if it is another file.
        openface_csv: an earlier output of OpenFace, used instead of running it.
        config: a TOML file (docs/configuration.md).
        cache: False keeps nothing: the features last as long as the result. A folder is used instead of the cache.
        progress: called with (what, number, how many) before each step. None shows a bar where stderr is a terminal.
        **sections: sections of the configuration, by name, instead of the file's: ``opensmile={"feature_set": …}``,
            ``embed=[{"name": …}]``.

    Returns:
        The features that were extracted, and for the others the reason (``failed``).

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
    extracted: ExtractedFile = extract_one(
        Path(file),
        [features] if isinstance(features, str) else list(features),
        {kind: Path(path) for kind, path in given.items() if path is not None},
        config=None if config is None else Path(config),
        cache=cache if isinstance(cache, bool) else Path(cache),
        sections=sections,
        progress=progress,
    )
    return extracted


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
        kind, _, part = feature.partition(".")
        if kind not in self._extracted:
            why = next((reason for name, reason in self.failed.items() if name.partition(".")[0] == kind), "")
            raise KeyError(f"{kind} failed: {why}" if why else f"{kind} was not asked for; {', '.join(self.asked)} was")
        return part_frame(self.store, self.session_id, kind, part or rows or "", rate, unmeasured=unmeasured)

    def _features(self) -> list[str]:
        return self._extracted


@dataclass(frozen=True)
class Part:
    """Which rows, arrays and columns of a feature a name selects.

    Attributes:
        rows: the kind of row; None for that of the feature's main array.
        arrays: the arrays; empty for all with such rows.
        columns: the columns of the main array; empty for all.
    """

    rows: str | None = None
    arrays: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def part_of(spec: FeatureSpec, name: str) -> Part:
    """The part of this name: a group of columns, an array, several arrays whose names begin alike, or a kind of row.

    An empty name is the whole feature.

    Raises:
        StoreError: the feature has no such part, or its arrays have different kinds of row.
    """
    if not name:
        return Part()
    if name in spec.groups:
        return Part(str(spec.arrays[MAIN_ARRAY].axis), (MAIN_ARRAY,), spec.columns[spec.groups[name]])
    arrays = (name,) if name in spec.arrays else tuple(array for array in spec.arrays if array.startswith(f"{name}_"))
    axes = {str(spec.arrays[array].axis) for array in arrays}
    if len(axes) > 1:
        raise StoreError(f"{spec.name}: {', '.join(arrays)} have different kinds of row: name one of them")
    if arrays:
        return Part(axes.pop(), arrays)
    kinds = list(dict.fromkeys(str(array.axis) for array in spec.arrays.values()))
    if name in kinds:
        return Part(name)
    raise StoreError(f"{spec.name} has no part {name!r}; it has {', '.join((*spec.groups, *spec.arrays, *kinds))}")


def part_frame(
    store: FeatureReader, session_id: str, feature: str, name: str, rate: float | None, *, unmeasured: bool
) -> pd.DataFrame:
    """A part of a feature as a data frame; see :meth:`SessionView.to_pandas`.

    Args:
        name: of the part; see :func:`part_of`.
        rate: points a second; None takes the rows as they are stored.
        unmeasured: keep the numbers of rows that are no measurement; else they are NaN, so that they do not enter a
            mean. Integers stay.

    Raises:
        StoreError: the session has no such feature, or the feature no such part.
    """
    part = part_of(store.spec(session_id, feature), name)
    table = chosen_table(store, session_id, feature, part.rows, rate)
    if part.arrays:  # a part that is an array of times has them as its index only
        table = replace(table, arrays={array: table.arrays[array] for array in table.arrays if array in part.arrays})
    frame = pandas_frame(table)
    values = [column.name for column in table.columns]
    if part.columns:
        names = {column.place: column.name for column in table.columns}
        kept = [names[table.arrays[MAIN_ARRAY].columns.index(column)] for column in part.columns]
        frame = frame.drop(columns=[name for name in values if name not in set(kept)])
        values = kept
    if not unmeasured and not frame[MASK].all():
        floats = [name for name in values if np.issubdtype(frame[name].dtype, np.floating)]
        frame[floats] = frame[floats].where(frame[MASK])
    return frame
