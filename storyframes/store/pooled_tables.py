"""A feature's frames or sound as a table with a row for each word or utterance (:mod:`storyframes.pooling`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from storyframes.pooling import MEAN, POOLED_OVER, can_be_pooled, check_functionals, pool, pooled_spec, pools
from storyframes.spec import Axis, FeatureSpec, of_track
from storyframes.store.feature_reader import FeatureReader
from storyframes.store.layout import StoreError
from storyframes.store.session_times import SessionTimes
from storyframes.store.tables import Block, Key, Table, tables_of


@dataclass(frozen=True)
class PooledTable(Table):
    """Functionals of the rows during each word; ``mask`` says during which words a row is a measurement.

    Attributes:
        words: the table of the words or utterances.
        pooled_axis: of the rows that are pooled.
    """

    words: Table
    pooled_axis: Axis
    functionals: tuple[str, ...]

    @cached_property
    def rows(self) -> int:
        return self.words.rows

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """Those of the words."""
        about = {
            "mask": f"whether a row of {self.feature} during the {self.axis} is a measurement",
            str(self.axis): f"which {self.axis} of {self.words.feature} it is, from 0",
        }
        return tuple(key._replace(about=about.get(key.name, key.about)) for key in self.words.keys)

    @property
    def caveats(self) -> list[str]:
        """Those of the feature, and of the words, whose times may be interpolated."""
        return list(dict.fromkeys([*super().caveats, *self.words.caveats]))

    def unit(self, column: str) -> str:
        """The unit of a column: that of what is pooled, whichever functional is computed."""
        return super().unit(column if self.functionals == MEAN else column.rpartition(".")[0])

    def read(self, start: int, stop: int) -> Block:
        spans = self._spans[start:stop]
        first, last = (int(spans[:, 0].min()), int(spans[:, 1].max())) if len(spans) else (0, 0)

        def take(array: str) -> np.ndarray:
            return self.store.view(self.session_id, self.feature, first, last, array=array)

        measured = np.array(np.broadcast_to(self.mask.of(take), last - first))
        before = np.append(0, np.cumsum(measured))
        keys = self.words.read(start, stop).keys
        keys["mask"] = before[spans[:, 1] - first] > before[spans[:, 0] - first]
        pooled = {
            name: pool(self.chosen(name, take(name)), measured, spans - first, self.functionals).astype(spec.dtype)
            for name, spec in self.arrays.items()
        }
        return Block(keys, pooled)

    @cached_property
    def _spans(self) -> np.ndarray:
        return self.times.rows_during(self.feature, self.pooled_axis, self.words.feature, self.axis)


@dataclass(frozen=True)
class Pooling:
    """What rows are pooled over, and what is computed of each column.

    Attributes:
        over: words or utterances.
        functionals: names, see ``docs/training.md``.
    """

    OVER: ClassVar[Mapping[Axis, str]] = POOLED_OVER  # the features that say when words and utterances are
    MEAN: ClassVar[tuple[str, ...]] = MEAN

    over: Axis
    functionals: tuple[str, ...] = MEAN

    check_functionals = staticmethod(check_functionals)

    @staticmethod
    def pools(spec: FeatureSpec) -> bool:
        """Whether a feature's rows are pooled where words or utterances are asked."""
        return pools(spec)

    def tables(
        self, store: FeatureReader, session_id: str, feature: str, times: SessionTimes, *, part: str = ""
    ) -> list[Table]:
        """The table of a feature with a row for each word or utterance: pooled, or its own; none of a clock.

        Args:
            times: of the session.
            part: what of the feature; empty for all.

        Raises:
            StoreError: the feature has no such rows and cannot be pooled, or the session has no words.
        """
        over, functionals = self.over, self.functionals
        if times.is_clock(feature):
            return []
        own = tables_of(store, session_id, feature, times=times, part=part)
        if has_them := [table for table in own if table.axis is over]:
            return has_them
        words, main, where = POOLED_OVER[over], own[0], f"{session_id}/{feature}"
        arrays = {
            name: pooled_spec(spec, over, functionals) for name, spec in main.arrays.items() if can_be_pooled(spec)
        }
        if not pools(store.spec(session_id, feature)) or not arrays:
            raise StoreError(f"{where} has a row for each {main.axis}, which cannot be pooled over {over}s")
        of_tracks = [of_track(words, track) for track in store.tracks(session_id)]
        there = [name for name in of_tracks if store.has(session_id, name)]
        if words not in there and len(there) != 1:
            why = f"{' and '.join(there)} are both there" if there else f"the session has no {words}"
            raise StoreError(f"{where} cannot be pooled, because nothing says whose {over}s are meant: {why}")
        spoken = words if words in there else there[0]
        (of_words,) = [table for table in tables_of(store, session_id, spoken, times=times) if table.axis is over]
        table = PooledTable(
            store, session_id, feature, over, False, arrays, None, main.mask, times,
            replace(of_words, arrays={}), main.axis, functionals,
            part=f"{part}.{over}" if part else "", places=main.places,
        )  # fmt: skip
        table.read(0, 0)  # a clock that is not known is an error now, and not of a file that is half written
        return [table]
