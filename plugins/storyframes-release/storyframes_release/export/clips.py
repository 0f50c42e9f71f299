"""Exports clips, each with its labels and split, to the formats that others train from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

import storyframes
from storyframes import MAIN, Axis, ClipDataset, ClipInput, FeatureName, FeatureSpec, FeatureStore, ticks
from storyframes.clips import SPLITS, needed_features, parse_filter
from storyframes.store import Pooling, new_folder
from storyframes_release.export.clip_formats import CLIP_WRITERS, LOST, MODALITIES, OPENED, Clips, Tokenizer
from storyframes_release.export.formats import ExportError, check_pooling
from storyframes_release.export.readme import data_configs, front_matter, markdown_table
from storyframes_release.export.whole_folder import Described, refuse_inside, refuse_to_replace, seal
from storyframes_release.study_sessions import StudySessions, study_sessions

Words = Callable[[str], Sequence[tuple[float, str]]]
"""The words of a session's transcript in the order of their starts, each with its start in seconds."""


@dataclass
class ExportedClips(Described):
    """The result of an export of clips.

    Attributes:
        splits: by split, its clips.
        fields: by array, its shape in a clip, dtype and names of columns.
        features: by feature, the versions and fingerprints of its sessions, and the caveats.
        label: the column of MMSA's labels.
        has_text: whether what is said is in the files.
        tokenizer: what made MMSA's ``text_bert``; empty where there is none.
        left_out: what is not in it, and why.
        people: which study the sessions are of, and what is to be known of those who left it.
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
    tokenizer: dict[str, str]
    left_out: list[str] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    files: dict[str, dict[str, int | str]] = field(default_factory=dict)


def export_clips(
    store: FeatureStore,
    target: Path,
    to: str,
    *,
    features: Sequence[str] = (),
    where: str | None = None,
    label: str = "",
    per: Axis | str | None = None,
    functionals: Sequence[str] = Pooling.MEAN,
    words: Words | None = None,
    tokenizer: Tokenizer | None = None,
    replace: bool = False,
    known: StudySessions | None = None,
) -> ExportedClips:
    """Write the clips of a store into a new folder, with a README that says what each file is, and what is lost.

    Args:
        target: the folder; it appears complete or not at all.
        to: mmsa, datasets or webdataset.
        features: any of the store, as inputs of clips; for mmsa three, the text, the sound and the picture, which are
            glove, opensmile and openface unless others are named.
        where: which clips, as in :class:`ClipDataset`.
        label: for mmsa, the column of the clip index with the label; the rating unless another is named.
        per: pools features of frames and sound over words or utterances: those of the first feature that has rows of
            them, else of glove or sbert.
        functionals: what is computed then.
        words: gives what is said, for mmsa's ``raw_text``; None leaves these empty.
        tokenizer: splits it into tokens, for mmsa's ``text_bert``; with ``per`` words, rows of all features are then
            these tokens, each with what its word has.
        replace: whether an earlier export at ``target`` may be replaced.
        known: which sessions the study has; None takes the store's record of the study. Clips of others are left out.

    Raises:
        ExportError: there is no such format, feature or label, nothing to export, ``target`` exists, or words are not
            those that a session's features were made of.
        StoreError: the store has no clip index, or cannot be read.
        OSError: the folder cannot be written.
    """
    if to not in CLIP_WRITERS:
        raise ExportError(f"--format {to!r}: clips have the formats {', '.join(CLIP_WRITERS)}")
    refuse_inside(store, target)
    known = known or study_sessions(store, None)
    over = check_pooling(per, functionals)
    is_mmsa = to == "mmsa"
    if (label or words or tokenizer) and not is_mmsa:
        raise ExportError("--label and --raw-text are of mmsa: other formats have all labels, and no text")
    if tokenizer and not words:
        raise ExportError("--bert-tokenizer: tokens are what is said, so allow it to leave the study: --raw-text STUDY")
    names = list(features) or (list(MODALITIES.values()) if is_mmsa else [])
    if not names or (is_mmsa and len(names) != len(MODALITIES)):
        which = ", ".join(MODALITIES) if is_mmsa else "at least one"
        raise ExportError(f"--features {','.join(names)}: name {which}, as inputs of clips")
    try:
        inputs = _inputs(store, names, over, functionals, bare=is_mmsa)
        needed = dict.fromkeys(feature for given in inputs for feature in needed_features(given, store))
        dataset = ClipDataset(store, inputs, _of_study(store, known, where, needed))
    except (ValueError, TypeError) as error:
        raise ExportError(str(error)) from None
    if tokenizer and over is Axis.WORD:
        for name in needed:
            if FeatureName(name).track != MAIN and _of_words(store, name):
                raise ExportError(f"--bert-tokenizer: {name!r} has words of another track than --raw-text")
    if empty := [name for name, of in dataset.fields.items() if 0 in of.shape]:
        raise ExportError(f"--features: no clip of the index has a row of {empty[0]!r}: leave it out")
    label = _label(dataset, label) if is_mmsa else ""
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
        _about_features(store, sorted(dataset.clips["session_id"].unique()), list(needed)),
        over,
        list(functionals) if over else [],
        label,
        words is not None,
        tokenizer.about if tokenizer else {},
    )
    done.people = known.remarks(store.sessions)
    if not is_chosen.all():
        done.left_out.append(f"{int((~is_chosen).sum())} clips without a value of {label!r}")
    with new_folder(target, partial(refuse_to_replace, target, replace=replace)) as folder:
        spoken = _words_of_clips(store, dataset, words, needed) if words else None
        clips = Clips(dataset, rows, label, spoken, tokenizer, over is Axis.WORD)
        CLIP_WRITERS[to](clips, folder)
        for name in dataset.fields:
            if f"{name}_mask" in dataset.fields and name not in clips.measured:
                done.left_out.append(f"all of {name!r}: no clip has a measurement of it")
        seal(folder, "\n".join(_readme(done)) + "\n", done)
    store.note_given("export", target.name, {*dataset.clips["session_id"]})
    return done


def _of_study(
    store: FeatureStore, known: StudySessions, where: str | None, needed: Iterable[str]
) -> str | pc.Expression | None:
    """The filter ``where``, without sessions that the study does not have, alone or with a track that is needed."""
    clips = store.clips()
    sessions = {*clips["session_id"]}
    shared = [
        session
        for session in known.shared(sessions)
        if all(known.may_share_feature(session, name) or not store.has(session, name) for name in needed)
    ]
    if len(shared) == len(sessions):
        return where
    of_study = pc.field("session_id").isin(shared)
    return of_study if where is None else parse_filter(where, clips.columns) & of_study


def _words_of_clips(
    store: FeatureStore, dataset: ClipDataset, words: Words, features: Iterable[str]
) -> list[list[str]]:
    """The words that start in each clip, as an input of words has them."""
    made_of_words = [name for name in features if FeatureName(name).track == MAIN and _of_words(store, name)]
    sessions: dict[str, tuple[np.ndarray, list[str]]] = {}
    spoken = []
    for session_id, start_s, stop_s in zip(
        *(dataset.clips[name] for name in ("session_id", "start_s", "stop_s")), strict=True
    ):
        if session_id not in sessions:
            of_session = words(session_id)
            start = np.array([ticks(start) for start, _ in of_session], np.int64)
            _check_words(store, session_id, start, made_of_words)
            sessions[session_id] = start, [text for _, text in of_session]
        start, texts = sessions[session_id]
        first, stop = np.searchsorted(start, ticks((start_s, stop_s)))
        spoken.append(texts[first:stop])
    return spoken


def _check_words(store: FeatureStore, session_id: str, start: np.ndarray, features: Iterable[str]) -> None:
    """Refuse words that are not those of which a session's feature has rows."""
    for name in features:
        if not store.has(session_id, name):
            continue
        stored = np.sort(ticks(store.view(session_id, name, array="start")))
        if not np.array_equal(start, stored):
            raise ExportError(
                f"--raw-text: the transcript of {session_id} has {len(start)} words and its {name} {len(stored)}, or "
                "other times: it was changed, or is read in another way: give the --config of the extraction, or "
                "extract it again"
            )


def _of_words(store: FeatureStore, name: str) -> bool:
    return Axis.WORD in {array.axis for array in _spec(store, name, [name]).arrays.values()}


def _inputs(
    store: FeatureStore, names: Sequence[str], over: Axis | None, functionals: Sequence[str], *, bare: bool
) -> list[ClipInput]:
    """Features as inputs, masked where a session lacks them; for MMSA without columns that are no measurements."""
    needed = {name: needed_features(ClipInput(name), store) for name in names}
    specs = {name: _spec(store, name, features) for name, features in needed.items()}
    spoken = [name for name, spec in specs.items() if over in {array.axis for array in spec.arrays.values()}]
    aligned_to = needed[spoken[0]][0] if spoken else None
    inputs = []
    for name, spec in specs.items():
        part = ClipInput(name).part
        columns = ["measurements", *needed[name][1:]] if bare and "measurements" in spec.groups and not part else None
        if over and Pooling.pools(spec):
            pooled = ClipInput(name, columns, over, functionals=functionals, aligned_to=aligned_to, missing="mask")
            inputs.append(pooled)
        elif over and name not in spoken:
            raise ExportError(f"--per {over}: {name!r} has no row for each {over}, and cannot be pooled over them")
        else:
            inputs.append(ClipInput(name, columns, missing="mask"))
    return inputs


def _spec(store: FeatureStore, name: str, needed: Sequence[str]) -> FeatureSpec:
    """The specification of the first of the features that an input is made of."""
    having = [session for session in store.sessions if all(store.has(session, feature) for feature in needed)]
    if not needed or not having:
        why = "is no feature: labels are in every clip's row of the index" if not needed else "is in no session"
        raise ExportError(f"--features: {name!r} {why}")
    return store.spec(having[0], needed[0])


def _label(dataset: ClipDataset, label: str) -> str:
    numeric = [name for name in dataset.clips.select_dtypes("number") if name in {"empathy", *dataset.schemes}]
    numeric = [name for name in numeric if dataset.clips[name].notna().any()]
    chosen = label or next((name for name in ("empathy", *numeric) if name in numeric), "")
    if chosen not in numeric:
        raise ExportError(
            f"--label {label!r}: MMSA's labels are numbers, and the clips have {', '.join(numeric) or 'none'}"
        )
    return chosen


def _about_features(store: FeatureStore, sessions: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    table = store.catalogue[store.catalogue["session_id"].isin(sessions)]
    about = {}
    for name in names:
        of = table[table["feature"] == name]
        caveats = [
            caveat for session in of["session_id"] for caveat in store.attributes(session, name).get("stamps", [])
        ]
        versions = {row.session_id: [row.version, row.fingerprint] for row in of.itertuples()}
        about[name] = {"caveats": list(dict.fromkeys(caveats)), "versions": versions}
    return about


def _readme(done: ExportedClips) -> Iterator[str]:
    if done.to == "datasets":  # which files are which split
        files = {split: f"{split}.parquet" for split, count in done.splits.items() if count}
        yield from front_matter({"configs": data_configs({"clips": files})})
    counts = ", ".join(f"{split} {count:,}" for split, count in done.splits.items())
    total = sum(done.splits.values())
    yield f"# Exported clips\n\n{total:,} clips ({counts}), exported by storyframes {storyframes.__version__}."
    yield "They are measurements of persons: keep them as private as the recordings. Splits are those of the clip"
    yield "index: no participant is in two.\n"
    yield from (f"{line}\n" for line in done.people)
    yield OPENED[done.to]
    if done.label:
        text = "what is said in each clip" if done.has_text else "empty: what is said has not left the study"
        yield f"`regression_labels` are `{done.label}`, as it is. `raw_text` is {text}.\n"
        yield from _about_tokens(done)
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


def _about_tokens(done: ExportedClips) -> Iterator[str]:
    if not done.tokenizer:
        yield "There is no `text_bert`: models that need it (those with `use_bert`, as Self-MM) cannot be trained.\n"
        return
    yield "`text_bert` are ids, mask and segments of the tokens of `raw_text`: word pieces, after the first mark and"
    yield "before the last. The model has to be the one of this tokenizer:\n"
    yield from (f"- {name}: {value}" for name, value in done.tokenizer.items())
    yield ""
    if done.per == Axis.WORD:
        yield "Rows of `text`, `audio` and `vision` are these tokens, more than the words of the table below: each"
        yield "token has what its word has, and the marks are 0.\n"
