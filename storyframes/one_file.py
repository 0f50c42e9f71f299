"""One recording in one line: ``storyframes.extract``, and what it gives to look at.

The work is the pipeline's (the extra ``storyframes[pipeline]``), which is looked for when it is asked to work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storyframes.features import in_order
from storyframes.installation import install_line
from storyframes.plug_ins import load_pipeline
from storyframes.store.feature_store import SessionView, part_frame

if TYPE_CHECKING:
    import pandas as pd

    from storyframes.store.feature_store import FeatureStore


class ExtractFileError(Exception):
    """Nothing can be extracted of a file; the message says why, for each feature."""


class PipelineMissingError(ImportError):
    """The extra that extracts is not installed; the message says how to install it."""


def extract(
    file: str | os.PathLike[str],
    features: str | Iterable[str],
    *,
    transcript: str | os.PathLike[str] | None = None,
    audio: str | os.PathLike[str] | None = None,
    openface_csv: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    cache: bool | str | os.PathLike[str] = True,
    progress: Callable[[str], None] = lambda _: None,
    **sections: Any,
) -> ExtractedFile:
    """Features of one recording: no study, no server; the same extractors and checks as for a study of hundreds.

    Features that look at the frames share one pass over them, and what a feature needs first is made on the way.
    Features of plug-ins are called as any other. What was made is kept in a private folder of this user's cache, so the
    second call only reads: it is made again when the file, the settings, a model or the extractor has changed.

    Args:
        file: a video, or a file of sound alone.
        features: names, as ``storyframes extractors list`` shows them. Behind a dot a part of the feature may follow,
            which is what :meth:`ExtractedFile.to_pandas` then gives: an array (``"opensmile.per_frame"``), a group of
            columns (``"openface.gaze"``), the arrays whose names begin so (``"mediapipe.face"``), or a kind of row
            (``"glove.frame"``).
        transcript: what was said, for features of words (docs/study.md says which formats).
        audio: its sound, where that is another file.
        openface_csv: what OpenFace wrote of it before, where it is not to be run.
        config: a TOML file (docs/configuration.md).
        cache: False keeps nothing: the features last as long as the result. A folder is used in the cache's place.
        progress: told what is under way.
        **sections: of the configuration, by name, in the place of the file's: ``opensmile={"feature_set": …}``,
            ``embed=[{"name": …}]``.

    Returns:
        What came, and for what did not, why (``failed``).

    Raises:
        PipelineMissingError: the pipeline is not installed.
        ExtractFileError: nothing came, or the file is no recording.
        ValueError: there is no such feature, or no such part of it.
        flows.settings.SettingsError: the configuration cannot be used; every problem is named.
        OSError: a file is not there, or cannot be read; or the cache cannot be written.

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
    """What was extracted of one recording.

    Attributes:
        name: the file's.
        asked: the features that were asked for and came, with the part where one was named.
        failed: by feature that was asked for, why it did not come.
        store: the :class:`storyframes.FeatureStore` that it is in, and ``session_id`` what it is called there.

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
        there: Iterable[str],
        failed: Mapping[str, str],
    ) -> None:
        super().__init__(store, session_id)
        self.name = name
        self.asked = list(asked)
        self.failed = dict(failed)
        self._there = in_order(there)

    def __repr__(self) -> str:
        _, *lines = super().__repr__().splitlines()
        lines += [f"  {feature} failed: {reason}" for feature, reason in self.failed.items()]
        return "\n".join([f"ExtractedFile {self.name}: {', '.join(self.asked)}", *lines])

    def to_pandas(
        self,
        feature: str | None = None,
        *,
        rows: str | None = None,
        rate: float | None = None,
        unmeasured: bool = False,
    ) -> pd.DataFrame:
        """A feature as a data frame: the times as its index, a column for each value, before them ``mask`` and others.

        Args:
            feature: one of those that came, or a part of one (see :func:`extract`); what was asked for, where that was
                one feature.
            rows: what a row is to stand for, as in :meth:`SessionView.to_pandas`.
            rate: as there.
            unmeasured: also the numbers of rows that are no measurement, as they are stored. Without it they are NaN,
                so that no mean is made of them; whole numbers stay.

        Raises:
            KeyError: it did not come; the message says why. Or several were asked for, and none is named.
            StoreError: it has no such part, or no such rows.
        """
        if feature is None:
            if len(self.asked) != 1:
                raise KeyError(f"name one of {', '.join(self.asked)}: their rows are at other times")
            feature = self.asked[0]
        kind, _, part = feature.partition(".")
        if kind not in self._there:
            why = next((reason for name, reason in self.failed.items() if name.partition(".")[0] == kind), "")
            raise KeyError(f"{kind} failed: {why}" if why else f"{kind} was not asked for; {', '.join(self.asked)} was")
        return part_frame(self.store, self.session_id, kind, part or rows or "", rate, unmeasured=unmeasured)

    def _features(self) -> list[str]:
        return self._there
