"""One recording by itself: what ``storyframes.extract`` and ``storyframes extract-file`` run.

By the same units, extractors and checks as a study's, in this process: without Prefect and Dask.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import locale
import math
import os
import resource
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from flows.in_process import do_in_process
from flows.progress import progress_bar
from flows.settings import Settings, load_settings
from storyframes.one_file import ExtractedFile, ExtractedFiles, ExtractFileError
from storyframes.spec import FeatureSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import INPUTS, create_store
from storyframes.store.maintenance import collect
from storyframes.store.named.address import AddressError, locate, parse_address
from storyframes.store.records import STORE_FORMAT, Status, canonical_json
from storyframes.store.storage import Storage, reason_of
from storyframes.store.storage.local_folder import LocalStorage
from storyframes.store.storage.locks import locked
from storyframes.store.storage.scratch import make_scratch_folder, scratch_beside
from tasks.extract import ExtractionUnit, Outcome
from tasks.extractors.base import Scope
from tasks.extractors.registry import ExtractorsSettings, build_extractors, extractor_classes, unknown_feature
from tasks.media.container import RecordingError
from tasks.models.digests import DigestCache, user_cache
from tasks.planning.selection import SelectionError, selected_extractors, without_frames
from tasks.planning.sources import RECORDING, FileSource, file_source
from tasks.planning.units import joined_with_clocks, on_all_processors, sharing_a_pass
from tasks.study.first_tables.sessions_from_files import RECORDING_SUFFIXES

_READERS_S = 7 * 24 * 3600.0  # for so long a reader of features of other settings can go on

_one_at_a_time = threading.RLock()  # permissions and the way numbers are read are the whole process's


def cache_folder() -> Path:
    """Where the features of single recordings are kept: a folder of this user's cache, a store for each recording."""
    return user_cache() / "extracted"


def extract_one(
    file: Path | Sequence[Path],
    features: Sequence[str],
    others: Mapping[str, Path],
    *,
    config: Path | None,
    cache: bool | Path,
    sections: Mapping[str, Any],
    progress: Callable[[str, int, int], None] | None,
) -> ExtractedFile | ExtractedFiles:
    """What :func:`storyframes.extract` does; arguments and errors are its.

    Args:
        others: by kind of input, what comes with the file.
    """
    if progress is None:
        with progress_bar("extracting") as shown:
            return extract_one(file, features, others, config=config, cache=cache, sections=sections, progress=shown)
    settings = load_settings(config, sections)
    asked = _asked(features, settings)
    if isinstance(file, Path) and not is_several(file):
        return _extract_one(file, asked, others, settings, cache, progress)
    files = _recordings(file) if isinstance(file, Path) else file
    if others:
        raise ExtractFileError(f"{', '.join(others)} of {len(files)} recordings cannot be one file: extract one by one")
    extracted, failed = {}, {}
    for number, path in enumerate(files, start=1):
        progress(path.name, number, len(files))
        try:
            extracted[str(path)] = _extract_one(path, asked, others, settings, cache, lambda *_: None)
        except (ExtractFileError, OSError) as error:
            failed[str(path)] = str(error)
    if not extracted:
        raise ExtractFileError("\n".join(["nothing was extracted:", *failed.values()]))
    return ExtractedFiles(extracted, failed)


def is_several(place: Path) -> bool:
    """Whether it is a folder, or a pattern of files' names."""
    return os.path.isdir(place) or (not os.path.exists(place) and not {*"*?["}.isdisjoint(str(place)))


def _recordings(place: Path) -> list[Path]:
    """The recordings in a folder, or the files of a pattern, by name.

    Raises:
        ExtractFileError: there are none.
    """
    if os.path.isdir(place):
        files = sorted(path for path in place.iterdir() if path.suffix.lower() in RECORDING_SUFFIXES)
        what = "no recordings; a folder's own files are taken, by their names' endings"
    else:
        files = sorted(Path(name) for name in glob.glob(str(place), recursive=True))
        what = "no file matches this pattern"
    if not files:
        raise ExtractFileError(f"{place}: {what}")
    return files


def _extract_one(
    file: Path,
    asked: Mapping[str, tuple[str, ...]],
    others: Mapping[str, Path],
    settings: Settings,
    cache: bool | Path,
    progress: Callable[[str, int, int], None],
) -> ExtractedFile:
    if cache is not False:
        root = cache_folder() if cache is True else cache
        with _as_in_a_worker():
            return _extract(file, asked, others, settings, root, progress)
    with _as_in_a_worker():
        root = make_scratch_folder("file")
        try:
            view = _extract(file, asked, others, settings, root, progress)
        except BaseException:
            shutil.rmtree(root, ignore_errors=True)
            raise
    weakref.finalize(view.store, shutil.rmtree, root, ignore_errors=True)
    return view


def _asked(names: Sequence[str], settings: Settings) -> dict[str, tuple[str, ...]]:
    """By name, the features that it needs.

    Raises:
        SelectionError: no such feature, or no such part of it.
    """
    classes = extractor_classes(settings, Scope.SESSION)
    if not names:
        raise SelectionError(f"name a feature; there are {', '.join(classes)}")

    def spec_of(feature: str) -> FeatureSpec:
        if feature not in classes:
            raise SelectionError(unknown_feature(feature, [model.name for model in settings.embed]))
        return classes[feature].spec

    try:
        return {name: tuple(feature for feature, _ in locate(parse_address(name), spec_of)) for name in names}
    except AddressError as error:
        raise SelectionError(str(error)) from None


def _extract(
    file: Path,
    asked: Mapping[str, tuple[str, ...]],
    others: Mapping[str, Path],
    settings: Settings,
    root: Path,
    progress: Callable[[str, int, int], None],
) -> ExtractedFile:
    kept = LocalStorage(root)
    digests = DigestCache(kept, INPUTS, Path("/"), on_this_machine=True)
    try:
        source = file_source(file, others, digests)
    except RecordingError as error:
        raise ExtractFileError(str(error)) from None
    try:
        kept.prepare()
    except OSError as error:
        why = f"{reason_of(error)}; features are kept there, and cache=False (--no-cache) keeps none"
        raise OSError(error.errno, why, error.filename) from None
    digests.save()
    name = _store_name(source, settings)
    with locked(root / f".{name}.lock", wait_s=math.inf):  # another process may be at the same recording for long
        storage = create_store(root / name)
        needed = dict.fromkeys(feature for features in asked.values() for feature in features)
        outcomes = extract_file(storage, source, settings, tuple(needed), progress)
        if not all(outcome.skipped for outcome in outcomes.values()):
            for _ in collect(storage, _READERS_S):
                """What other settings made before, long ago."""
        catalogue.compact(storage)
        store = FeatureStore(root / name)
    return _view(store, file.name, asked, outcomes)


def _store_name(source: FileSource, settings: Settings) -> str:
    """A store's name by the recording's content, and by how strictly it is read: its clock depends on that."""
    recording = source.files["audio" if source.frameless else "video"].sha256
    common = [
        settings.recording.value_settings(of_pictures=True) | settings.recording.sound_settings(),
        settings.transcript.model_dump(mode="json"),
    ]
    return hashlib.sha256(canonical_json([STORE_FORMAT, recording, common])).hexdigest()[:32]


def _view(
    store: FeatureStore, name: str, asked: Mapping[str, tuple[str, ...]], outcomes: Mapping[str, Outcome]
) -> ExtractedFile:
    """What came; a feature whose last attempt failed is not there, though an older version of it may be."""
    done = {feature for feature, outcome in outcomes.items() if outcome.status is Status.DONE}
    failed = {
        name: outcomes[feature].reason
        for name, features in asked.items()
        for feature in features
        if feature not in done
    }
    if len(failed) == len(asked):
        reasons = [f"  {name}: {reason}" for name, reason in failed.items()]
        raise ExtractFileError("\n".join([f"{name}: nothing that was asked for came of it:", *reasons]))
    return ExtractedFile(store, RECORDING, name, [one for one in asked if one not in failed], done, failed)


def write_table(table: pd.DataFrame, target: Path) -> None:
    """Write a table with its index, as the target's suffix says; what was there is replaced in one step.

    Raises:
        OSError: it cannot be written; what was there before is as it was.
    """
    with scratch_beside(target) as scratch:
        made = scratch / target.name
        if target.suffix == ".csv":
            table.to_csv(made)
        else:
            table.to_parquet(made)
        os.replace(made, target)


@contextmanager
def _as_in_a_worker() -> Iterator[None]:
    """What extraction sets for its process, and a notebook wants back."""
    with _one_at_a_time:
        umask, core = os.umask(0o077), resource.getrlimit(resource.RLIMIT_CORE)
        numbers = locale.setlocale(locale.LC_NUMERIC)
        try:
            yield
        finally:
            locale.setlocale(locale.LC_NUMERIC, numbers)
            os.umask(umask)
            resource.setrlimit(resource.RLIMIT_CORE, core)


def extract_file(
    storage: Storage,
    source: FileSource,
    settings: ExtractorsSettings,
    features: Iterable[str],
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> dict[str, Outcome]:
    """Bring features of one recording up to date, with those that they need first; one that fails leaves the others.

    Args:
        storage: a feature store of this recording alone; no other process may extract into it meanwhile.

    Returns:
        The outcome of each, by feature, in the order in which they ran.
    """
    settings = settings.resolved()
    extractors = selected_extractors(build_extractors(settings, RECORDING), tuple(features))
    outcomes = {}
    if source.frameless:
        possible = without_frames(extractors)
        reason = f"{source.name} has no picture"
        lacking = (name for name in extractors if name not in possible)
        outcomes = {name: Outcome(RECORDING, name, Status.MISSING, skipped=True, reason=reason) for name in lacking}
        extractors = possible
    due = [
        ExtractionUnit(storage.location, source, (name,), settings, after=extractor.after)
        for name, extractor in extractors.items()
    ]
    units = joined_with_clocks(sharing_a_pass(due, extractors), extractors)
    units = on_all_processors(units, len(os.sched_getaffinity(0)))
    features_of = {unit.name: " and ".join(unit.features) for unit in units}
    numbers = itertools.count(1)
    done = do_in_process(units, begins=lambda unit: progress(features_of[unit.name], next(numbers), len(units)))
    return outcomes | {outcome.feature: outcome for outcome in done}
