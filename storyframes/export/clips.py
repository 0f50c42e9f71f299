"""Exports clips, each with its labels and split, to the formats that others train from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import storyframes
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import MASK, ClipInput
from storyframes.clips.named_inputs import INPUTS, RATING
from storyframes.clips.splits import SPLITS
from storyframes.export.clip_formats import CLIP_WRITERS, LOST, MODALITIES, OPENED, Labelled
from storyframes.export.formats import ExportError
from storyframes.export.readme import README, markdown_table
from storyframes.export.whole_folder import MANIFEST, seal, whole_folder
from storyframes.pooling import MEAN, pools
from storyframes.spec import Axis
from storyframes.store.feature_store import FeatureStore
from storyframes.store.storage.local_folder import LocalStorage

Texts = Callable[[str, float, float], str]
"""What is said in a session from one second to another."""


@dataclass
class ExportedClips:
    """The result of an export of clips.

    Attributes:
        splits: by split, its clips.
        fields: by array, its shape in a clip, dtype and names of columns.
        features: by feature, the versions and fingerprints of its sessions, and the caveats.
        label: the column of MMSA's labels.
        has_text: whether what is said is in the files.
        left_out: what is not in it, and why.
        files: by path below the folder, size and SHA-256.
    """

    to: str
    splits: dict[str, int]
    fields: dict[str, dict[str, Any]]
    features: dict[str, dict[str, Any]]
    per: Axis | None
    functionals: list[str]
    label: str
    has_text: bool
    left_out: list[str] = field(default_factory=list)
    files: dict[str, dict[str, int | str]] = field(default_factory=dict)

    def to_json(self) -> str:
        """``export.json``."""
        content = {"format": 1, "storyframes": storyframes.__version__, **asdict(self)}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def export_clips(
    store: FeatureStore,
    target: Path,
    to: str,
    *,
    features: Sequence[str] = (),
    where: str | None = None,
    label: str = "",
    per: Axis | None = None,
    functionals: Sequence[str] = MEAN,
    texts: Texts | None = None,
    replace: bool = False,
) -> ExportedClips:
    """Write the clips of a store into a new folder, with a README that says what each file is, and what is lost.

    Args:
        target: the folder; it appears complete or not at all.
        to: mmsa, datasets or webdataset.
        features: any of the store, as inputs of clips; for mmsa three, the text, the sound and the picture, which are
            glove, opensmile and openface unless others are named.
        where: which clips, as in :class:`ClipDataset`.
        label: for mmsa, the column of the clip index with the label; the rating unless another is named.
        per: pools features of frames and sound over words or utterances.
        functionals: what is computed then.
        texts: gives what is said, for mmsa's ``raw_text``; None leaves these empty.
        replace: whether an earlier export at ``target`` may be replaced.

    Raises:
        ExportError: there is no such format, feature or label, nothing to export, or ``target`` exists.
        StoreError: the store has no clip index, or cannot be read.
        OSError: the folder cannot be written.
    """
    if to not in CLIP_WRITERS:
        raise ExportError(f"--clips cannot be exported to {to!r}: there are {', '.join(CLIP_WRITERS)}")
    if isinstance(store.storage, LocalStorage) and target.resolve().is_relative_to(store.storage.root.resolve()):
        raise ExportError(f"{target} is inside the feature store: give a place outside of it")
    is_mmsa = to == "mmsa"
    if texts is not None and not is_mmsa:
        raise ExportError("--raw-text is what the format mmsa has; other formats have no text of what is said")
    names = list(features) or (list(MODALITIES.values()) if is_mmsa else [])
    if not names or (is_mmsa and len(names) != len(MODALITIES)):
        which = ", ".join(MODALITIES) if is_mmsa else "at least one"
        raise ExportError(f"--features {','.join(names)}: name {which}, as inputs of clips")
    try:
        dataset = ClipDataset(store, [_input(store, name, per, functionals, bare=is_mmsa) for name in names], where)
    except (ValueError, TypeError) as error:
        raise ExportError(str(error)) from None
    label = _label(dataset, label) if is_mmsa else label
    is_chosen = dataset.clips[label].notna().to_numpy(bool) if is_mmsa else np.ones(len(dataset), bool)
    splits = dataset.clips["split"].astype(str).to_numpy()
    rows = {split: np.flatnonzero((splits == split) & is_chosen) for split in sorted({*splits}, key=SPLITS.index)}
    done = ExportedClips(
        to,
        {split: len(numbers) for split, numbers in rows.items()},
        {
            name: {"shape": [*of.shape], "dtype": str(of.dtype), "columns": [*of.columns]}
            for name, of in dataset.fields.items()
        },
        _about_features(store, sorted(dataset.clips["session_id"].unique()), names),
        per,
        list(functionals) if per else [],
        label,
        texts is not None,
    )
    if not is_chosen.all():
        done.left_out.append(f"{int((~is_chosen).sum())} clips without a value of {label!r}")
    columns = ("session_id", "start_s", "stop_s")
    spoken = [
        "" if texts is None else texts(*row) for row in zip(*(dataset.clips[name] for name in columns), strict=True)
    ]
    os.makedirs(target.absolute().parent, exist_ok=True)
    with whole_folder(target, replace=replace) as folder:
        CLIP_WRITERS[to](dataset, rows, folder, Labelled(label, spoken))
        (folder / README).write_text("\n".join(_readme(done)) + "\n", encoding="utf-8")
        done.files = seal(folder)
        (folder / MANIFEST).write_text(done.to_json(), encoding="utf-8")
        (folder / MANIFEST).chmod(0o600)
    return done


def _input(store: FeatureStore, name: str, per: Axis | None, functionals: Sequence[str], *, bare: bool) -> ClipInput:
    """A feature as an input, masked where a session lacks it; for MMSA without columns that are no measurements."""
    needed = _needed(name)
    having = [session for session in store.sessions if all(store.has(session, feature) for feature in needed)]
    if not needed or not having:
        why = "is no feature: labels are in every clip's row of the index" if not needed else "is in no session"
        raise ExportError(f"--features: {name!r} {why}")
    spec = store.spec(having[0], needed[0])
    over = per if per is not None and pools(spec) else None
    columns = ["measurements"] if bare and "measurements" in spec.groups else None
    return ClipInput(name, columns, over, functionals=functionals if over else MEAN, missing=MASK)


def _needed(name: str) -> tuple[str, ...]:
    """The features that an input is made of."""
    return INPUTS[name].features if name in INPUTS else (name,)


def _label(dataset: ClipDataset, label: str) -> str:
    numeric = [name for name in dataset.clips.select_dtypes("number") if name in {RATING, *dataset.schemes}]
    numeric = [name for name in numeric if dataset.clips[name].notna().any()]
    chosen = label or next((name for name in (RATING, *numeric) if name in numeric), "")
    if chosen not in numeric:
        raise ExportError(
            f"--label {label!r}: MMSA's labels are numbers, and the clips have {', '.join(numeric) or 'none'}"
        )
    return chosen


def _about_features(store: FeatureStore, sessions: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    table = store.catalogue[store.catalogue["session_id"].isin(sessions)]
    about = {}
    for name in dict.fromkeys(feature for given in names for feature in _needed(given)):
        of = table[table["feature"] == name]
        caveats = [
            caveat for session in of["session_id"] for caveat in store.attributes(session, name).get("stamps", [])
        ]
        versions = {row.session_id: [row.version, row.fingerprint] for row in of.itertuples()}
        about[name] = {"caveats": list(dict.fromkeys(caveats)), "versions": versions}
    return about


def _readme(done: ExportedClips) -> Iterator[str]:
    if done.to == "datasets":  # which files are which split
        yield "---\nconfigs:\n- config_name: clips\n  data_files:"
        yield from (f"  - split: {split}\n    path: {split}.parquet" for split, count in done.splits.items() if count)
        yield "---\n"
    counts = ", ".join(f"{split} {count:,}" for split, count in done.splits.items())
    total = sum(done.splits.values())
    yield f"# Exported clips\n\n{total:,} clips ({counts}), exported by storyframes {storyframes.__version__}."
    yield "They are measurements of persons: keep them as private as the recordings. Splits are those of the clip"
    yield "index: no participant is in two."
    yield OPENED[done.to]
    if done.label:
        text = "what is said in each clip" if done.has_text else "empty: what is said has not left the study"
        yield f"`regression_labels` are `{done.label}`, as it is. `raw_text` is {text}.\n"
    if done.per:
        yield f"Frames and sound are pooled over each {done.per} ({', '.join(done.functionals)}).\n"
    yield f"## What is lost\n{LOST[done.to]}"
    yield from (f"Left out: {line}.\n" for line in done.left_out)
    yield "## Arrays\n\nA mask is true where a row is a measurement; rows beyond `_length` are padding, 0.\n"
    rows = [[f"`{name}`", " x ".join(map(str, of["shape"])), of["dtype"]] for name, of in done.fields.items()]
    yield from markdown_table(("array", "shape of a clip", "dtype"), rows)
    yield "`export.json` has the names of all columns, and the size and the SHA-256 of every file.\n\n## Features\n"
    caveats = [[name, "; ".join(of["caveats"]) or "none"] for name, of in done.features.items()]
    yield from markdown_table(("feature", "caveats"), caveats)
