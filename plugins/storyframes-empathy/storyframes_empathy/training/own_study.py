"""The defaults of ``train`` that depend on the store: phases, label, features, rate, splits.

The paper's kind of study (ratings of empathy that are about stories, with the paper's features) keeps every default of
:class:`~storyframes_empathy.training.settings.TrainSettings`. Any other study has what its own store holds; what cannot
be taken from there is said at once, with the option or command that says it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from storyframes import CLOCK, FRAME_ROW, STORIES, Axis, FeatureName, FeatureStore, SplitSpec, percent
from storyframes.clips import SPLITS, filter_clips, lacking_clips, needed_features, parse_filter
from storyframes_empathy.statistics.study_ratings import rated_together
from storyframes_empathy.training.labels import numbers
from storyframes_empathy.training.opened import CannotTrainError
from storyframes_empathy.training.settings import MODALITIES, PRESETS, InputSettings, TrainSettings

MODALITY_OF = {Axis.FRAME: "v", Axis.AUDIO_FRAME: "a", Axis.WORD: "t", Axis.UTTERANCE: "t"}
"""The modality of a feature, by what a row of it stands for."""
MOST_ROWS_PER_S = 15
"""The most rows a second that inputs are given where windows differ in frames; the recordings' median if lower."""
_DRAWS = 500  # of splits, until each has clips with a label


@dataclass(frozen=True)
class TrainingPlan:
    """What is trained.

    Attributes:
        phases: one model is trained for each.
        modalities: what models are given.
        settings: by seed.
        runs: by phase and seed the modalities and the settings of a run, without the inputs that all of its training
            clips lack.
        remarks: sentences about what was taken from the store, and which share of clips lacks an input.
    """

    phases: tuple[str, ...]
    modalities: tuple[str, ...]
    settings: Mapping[int, TrainSettings]
    runs: Mapping[tuple[str, int], tuple[tuple[str, ...], TrainSettings]]
    remarks: tuple[str, ...]


def plan_training(
    store: FeatureStore,
    settings: TrainSettings,
    phase: str | None,
    modalities: tuple[str, ...] | None,
    seeds: Sequence[int],
) -> TrainingPlan:
    """Complete what was asked for by what the store holds.

    Args:
        store: the features.
        settings: as they were given; only fields that nobody set are changed.
        phase: the only one; None takes all with labels.
        modalities: None takes all that the store has features of.
        seeds: of the runs; without ``split_seed`` each draws its own splits.

    Raises:
        CannotTrainError: something is lacking; the message lists all of it.
        StoreError: there is no clip index.
    """
    index = store.clips()
    study = _Study(store, index, settings)
    problems = []
    if phase is not None and phase not in study.phases:
        problems.append(f"there is no phase {phase!r} in the clip index; there are {', '.join(study.phases) or 'none'}")
    problems += study.take_label()
    clips = study.labelled(phase)
    problems += study.take_inputs(clips)
    named = modalities or study.with_features
    problems += [
        f"no session has a feature of {name} ({what}): name one in 'features' and 'storyframes extract STUDY STORE', "
        f"or train --modalities {'+'.join(study.with_features) or '…'}"
        for name, what in (("v", "pictures"), ("a", "sound"), ("t", "text"))
        if name in named and name not in study.with_features
    ]
    if problems:
        raise CannotTrainError("\n".join(problems))
    study.take_rate_and_masks(clips, named)
    usable = study.with_inputs(clips, named) if study.is_own else clips
    by_seed = {seed: study.with_splits(seed, usable, problems) for seed in seeds}
    if problems:
        raise CannotTrainError("\n".join(dict.fromkeys(problems)))
    phases = tuple(sorted(clips["phase"].astype(str).unique()))
    shares = {of_seed.split_shares for of_seed in by_seed.values()} - {settings.split_shares}
    runs = {(one, seed): study.trained(clips, one, seed, by_seed[seed], named) for one in phases for seed in seeds}
    remarks = [*study.remarks(clips, phases, named, shares), *study.left_out]
    return TrainingPlan(phases, named, by_seed, runs, tuple(remarks))


class _Study:
    """A store as training sees it, and the settings while they are completed."""

    def __init__(self, store: FeatureStore, index: pd.DataFrame, settings: TrainSettings) -> None:
        self.store, self.asked, self.settings = store, settings, settings
        self.index = self.whole_index = index
        if settings.where is not None:
            try:
                self.index = filter_clips(index, parse_filter(settings.where, index.columns))
            except (ValueError, SyntaxError) as error:
                raise CannotTrainError(f"--where: {error}") from None
        self.given = settings.model_fields_set
        columns = [name for name in ("participant_id", "split", "split_group") if name in index]
        self.people = index[columns].drop_duplicates()
        self.phases = sorted(index["phase"].astype(str).unique())
        self.is_own = False
        self.with_features: tuple[str, ...] = ()
        self.left_out: list[str] = []

    def _take(self, **values: object) -> None:
        self.settings = self.settings.model_copy(update=values)

    # --- what is learned

    def take_label(self) -> list[str]:
        """The label, and whether it is about a story; what is lacking."""
        if "label" not in self.given and not self._has_values("empathy"):
            candidates = self._candidates()
            if len(candidates) != 1:
                return [self._no_single_label(candidates)]
            self._take(label=candidates[0])
        label = self.settings.label
        about_stories = (
            label in self.index
            and (self.index[label].notna() & self.index["story_id"].notna()).any()
            and self.store.has(STORIES, "sbert")
        )
        says_story = "preset" in self.given or ("target" in self.given and self.settings.target == "story")
        if not says_story and not about_stories:
            self.is_own = True
            preset = {name: value for name, value in PRESETS["regression"].items() if name not in self.given}
            self._take(**preset)
        if self.is_own or self.settings.preset == "regression":
            limits = self._limits(label)
            if limits and "label_range" not in self.given:
                self._take(label_range=limits)
        return []

    def _limits(self, label: str) -> tuple[float, float] | None:
        """The range of a label's scheme, else of its values; None for curves, and for ratings, which have their own."""
        index = self.whole_index
        if said := index.attrs.get("ranges", {}).get(label):
            return (float(said[0]), float(said[1]))
        if label not in index or (label == "empathy" and (index[label].notna() & index["story_id"].notna()).any()):
            return None
        column = index[label].dropna()
        values = numbers(column)
        if isinstance(column.dtype, pd.CategoricalDtype):
            values = np.arange(len(column.cat.categories), dtype=float)
        return (float(values.min()), float(values.max())) if len(values) and values.min() < values.max() else None

    def _has_values(self, column: str) -> bool:
        return column in self.index and bool(self.index[column].notna().any())

    def _candidates(self) -> list[str]:
        """The labels of the store that can be learned: numbers or steps that are not all equal, and curves."""
        kinds = self.index.attrs.get("schemes", {})
        columns = [name for name, kind in kinds.items() if name in self.index and kind in ("ordinal", "interval")]
        varied = [name for name in columns if len(np.unique(numbers(self.index[name].dropna()))) > 1]
        return [*varied, *(name for name in self.store.all_features if FeatureName(name).is_label_curve)]

    def _no_single_label(self, candidates: Sequence[str]) -> str:
        if candidates:
            return f"several labels can be learned: name one, --label {' or --label '.join(candidates)}"
        kinds = self.index.attrs.get("schemes", {})
        others = [f"{name} ({kind})" for name, kind in kinds.items() if self._has_values(name)]
        found = f"there are {', '.join(others)}" if others else "there is none"
        return (
            "the clip index has no label that can be learned, an ordinal or interval scheme with at least two values, "
            f"and no curve; {found}: 'storyframes import labels' takes them from a sheet, and 'storyframes index STUDY "
            "STORE' joins them to the clips"
        )

    def labelled(self, phase: str | None) -> pd.DataFrame:
        """The clips with a label (of a curve, of its sessions) of one phase or of all; all of these if none has one."""
        label, clips = self.settings.label, self.index
        if phase in self.phases:
            clips = clips[clips["phase"] == phase]
        chosen = np.ones(len(clips), bool)  # where there is no such label, open_splits says it
        if label in clips:
            chosen = clips[label].notna().to_numpy()
        elif FeatureName(label).is_label_curve:
            chosen = np.array([self.store.has(session, label) for session in clips["session_id"]], bool)
        return (clips[chosen] if chosen.any() else clips).reset_index(drop=True)

    # --- from what

    def take_inputs(self, clips: pd.DataFrame) -> list[str]:
        """The inputs of each modality: the defaults that the store has, else all its features of that kind."""
        sessions = clips["session_id"].unique().tolist()
        stored = {name for session in sessions for name in self.store.features(session)}
        by_modality = self._features_by_modality(sessions, stored)
        found = []
        for name in MODALITIES:
            parts = getattr(self.settings, name)
            if name not in self.given:
                usual = tuple(part for part in parts if self._is_stored(part, stored))
                features = by_modality.get(name, [])
                parts = usual or tuple(InputSettings(input=feature) for feature in features) or parts
                if parts != getattr(self.settings, name):
                    self._take(**{name: parts})
            if all(self._is_stored(part, stored) for part in parts):
                found.append(name)
        self.with_features = tuple(found)
        if found:
            return []
        return ["no session with a label has a feature to learn from: 'storyframes extract STUDY STORE' extracts them"]

    def _is_stored(self, part: InputSettings, stored: set[str]) -> bool:
        try:
            return "@" in part.input or set(needed_features(part.clip_input(), self.store)) <= stored | {CLOCK}
        except ValueError:
            return False

    def _features_by_modality(self, sessions: Sequence[str], stored: set[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for feature in sorted(stored - {CLOCK}):
            if not feature.startswith("label."):
                session = next(name for name in sessions if self.store.has(name, feature))
                values = self.store.spec(session, feature).arrays.get("values")
                if values is not None and values.axis in MODALITY_OF:
                    found.setdefault(MODALITY_OF[values.axis], []).append(feature)
        return found

    def take_rate_and_masks(self, clips: pd.DataFrame, modalities: Sequence[str]) -> None:
        """A rate where windows differ in frames or inputs have no rows for them, and masks where inputs are missing."""
        frames = clips["stop_frame"] - clips["start_frame"]
        parts = [part for name in modalities for part in self.settings.parts(name)]
        is_by_frame = all(self._is_by_frame(part, clips) for part in parts) or not self.is_own
        if (
            "rate" not in self.given
            and not any(part.rate for part in parts)
            and (frames.nunique() > 1 or not is_by_frame)
        ):
            usual = float(np.median(frames / (clips["stop_s"] - clips["start_s"])))
            self._take(rate=float(max(1, min(MOST_ROWS_PER_S, round(usual)))))
        if self.settings.rate:
            for name in modalities:
                own = tuple(self._at_rate(part, clips) for part in getattr(self.settings, name))
                if own != getattr(self.settings, name):
                    self._take(**{name: own})
        if self.is_own and "keep_partial" not in self.given:
            lacks = self._lacking(clips, modalities).any()
            if lacks and "missing" not in self.given:
                self._take(missing="mask")
            if self.settings.missing == "drop":  # what models of other modalities would need does not count
                self._take(keep_partial=True)

    def _axis_and_arrays(self, part: InputSettings, clips: pd.DataFrame) -> tuple[Axis | None, list[Mapping[str, Any]]]:
        """What a row of an input's feature stands for, and the feature's arrays in each session that has it."""
        found = []
        for feature in needed_features(part.clip_input(), self.store):
            sessions = [name for name in clips["session_id"].unique() if self.store.has(name, feature)]
            found += [spec.arrays for spec in self.store.specs(sessions, feature).values()]
        main = found[0].get("values") if found else None
        return (main.axis if main else None), found

    def _is_by_frame(self, part: InputSettings, clips: pd.DataFrame) -> bool:
        """Whether an input has a row for each frame in every session that has it."""
        axis, arrays = self._axis_and_arrays(part, clips)
        if axis is None or axis not in (Axis.AUDIO_FRAME, *FRAME_ROW):
            return True
        name = FRAME_ROW.get(axis, "per_frame")
        sessions = clips["session_id"].unique()
        return all(name in of_session for of_session in arrays) and all(self.store.has(one, CLOCK) for one in sessions)

    def _at_rate(self, part: InputSettings, clips: pd.DataFrame) -> InputSettings:
        """Sound that has no row for each frame everywhere, by the times of its own rows."""
        if part.axis is not Axis.FRAME or part.rate or self._is_by_frame(part, clips):
            return part
        if self._axis_and_arrays(part, clips)[0] is not Axis.AUDIO_FRAME:
            return part
        return part.model_copy(update={"axis": Axis.AUDIO_FRAME, "rate": self.settings.rate})

    def _lacking(self, clips: pd.DataFrame, modalities: Sequence[str]) -> np.ndarray:
        """Which clips lack each input of the modalities, (inputs, clips) bool."""
        inputs = self.settings.clip_inputs(modalities)
        return np.array([lacking_clips(clips, self.store, requested) for requested in inputs], bool)

    def with_inputs(self, clips: pd.DataFrame, modalities: Sequence[str]) -> pd.DataFrame:
        """The clips that models are given: with any of their inputs where others are masked, else with all of them."""
        lacking = self._lacking(clips, modalities)
        chosen = ~(lacking.all(axis=0) if self.settings.missing == "mask" else lacking.any(axis=0))
        return clips[chosen] if chosen.any() else clips  # open_splits says which input no clip has

    # --- with whom

    def with_splits(self, seed: int, clips: pd.DataFrame, problems: list[str]) -> TrainSettings:
        """The settings of a seed, with splits that have clips in every phase, as far as there are participants.

        Only where labels are about no story. The seed's own draw is kept if it will do; else shares are those of one
        group of participants for val and one for test, or equal ones, and draws are tried in the order of their seeds.
        """
        settings = self.settings
        if not self.is_own or {"split_seed", "split_shares"} & self.given:
            return settings
        group = "split_group" if "split_group" in clips else "participant_id"
        by_phase = clips.groupby(clips["phase"].astype(str))
        groups, people = by_phase[group].nunique(), by_phase["participant_id"].unique()
        if settings.keep == "best" and (groups == 1).any():
            problems.append(
                f"all recordings of the phase {groups.index[groups == 1][0]!r} with a label and an input are of one "
                "participant, or of participants who met: nobody is left to validate with. Give each person an id of "
                "their own in the column participant_id of the table 'sessions' and index again, or train with --keep "
                "last, which scores what it was trained with, or another --phase"
            )
            return settings
        count = clips[group].nunique()
        if count == 1:
            return settings.model_copy(update={"split_shares": (1.0, 0.0, 0.0)})
        few = ((count - 2) / count, 1 / count, 1 / count) if count > 2 else (0.5, 0.5, 0.0)
        wanted = {phase: set(SPLITS[:number]) for phase, number in groups.items()}
        for shares in (settings.split_shares, few, (1 / 3, 1 / 3, 1 / 3)):
            for draw in (seed, *range(10_000 * (seed + 1), 10_000 * (seed + 1) + _DRAWS)):
                split_of = SplitSpec(draw, shares).by_participant(self.people)
                if all({split_of[person] for person in people[phase]} >= splits for phase, splits in wanted.items()):
                    return settings.model_copy(update={"split_seed": draw, "split_shares": shares})
        problems.append(
            f"of {count} participants (or groups who met) with labels and inputs none can be drawn for "
            f"{' and '.join(SPLITS[1 : min(count, 3)])} of each phase: give split_shares and split_seed in the section "
            "[train], or one --phase"
        )
        return settings

    def trained(
        self, clips: pd.DataFrame, phase: str, seed: int, settings: TrainSettings, modalities: tuple[str, ...]
    ) -> tuple[tuple[str, ...], TrainSettings]:
        """The modalities and settings of a run without the inputs that all of its training clips lack."""
        draw = SplitSpec(seed if settings.split_seed is None else settings.split_seed, settings.split_shares)
        splits = clips["participant_id"].map(draw.by_participant(self.people))
        training = clips[(splits == "train") & (clips["phase"].astype(str) == phase)].reset_index(drop=True)
        if settings.missing != "mask" or training.empty:
            return modalities, settings
        kept = {
            name: tuple(
                part
                for part, asked in zip(getattr(settings, name), settings.parts(name), strict=True)
                if not lacking_clips(training, self.store, asked.clip_input("mask")).all()
            )
            for name in modalities
        }
        lost = [part.input for name in modalities for part in getattr(settings, name) if part not in kept[name]]
        if not lost or not any(kept.values()):  # open_splits says that no clip has any
            return modalities, settings
        self.left_out.append(f"{phase}, seed {seed}: no training clip has {', '.join(lost)}, which is left out")
        left = {name: parts for name, parts in kept.items() if parts}
        return tuple(left), settings.model_copy(update=left)

    # --- what is said of it

    def remarks(
        self,
        clips: pd.DataFrame,
        phases: Sequence[str],
        modalities: Sequence[str],
        drawn_shares: Collection[tuple[float, float, float]],
    ) -> Iterator[str]:
        settings = self.settings
        if self.is_own:
            limits = settings.label_range
            scale = f" ({limits[0]:g} to {limits[1]:g})" if limits else ""
            yield f"label {settings.label}{scale}, phase{'s' * (len(phases) > 1)} {', '.join(phases)}"
        yield from rated_together(self.whole_index, settings.label)
        for name in modalities:
            if self.is_own or getattr(settings, name) != getattr(self.asked, name):
                yield f"{name}: {', '.join(part.input for part in settings.parts(name))}"
        if "rate" not in self.given and settings.rate:
            yield (
                "windows have different numbers of frames, or an input has no row for each frame: inputs have "
                f"{settings.rate:g} rows a second (--rate)"
            )
        names = [f"{part.input} ({name})" for name in modalities for part in settings.parts(name)]
        for name, lacking in zip(names, self._lacking(clips, modalities), strict=True):
            if lacking.any():
                sessions = clips.loc[lacking, "session_id"].nunique()
                what = "masked" if settings.missing == "mask" else "left out (--missing mask keeps them)"
                yield (
                    f"{name} is missing in {percent(lacking.mean())} of the labelled clips, of {sessions} of "
                    f"{clips['session_id'].nunique()} sessions: {what}"
                )
        for shares in sorted(drawn_shares):
            said = ", ".join(f"{name} {share:.0%}" for name, share in zip(SPLITS, shares, strict=True) if share)
            yield f"few participants: {said} of them (split_shares)"
