"""One unit: a session's feature, or features that share a pass over its frames, from files to versions.

A plain function that an orchestrator wraps. It gives back small outcomes, never arrays, and never raises for what is
wrong with an input: that is an outcome too, recorded beside the versions, and leaves siblings and older versions alone.
"""

from __future__ import annotations

import contextlib
import locale
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from storyframes.features import CLOCK
from storyframes.spec import Axis, of_track
from storyframes.store.layout import ZARR_JSON, current_path, open_storage
from storyframes.store.maintenance import is_intact
from storyframes.store.publish import FeatureWriter, OvertakenError, latest_sequence, record_attempt
from storyframes.store.record_status import FeatureStatus, read_status
from storyframes.store.records import CURRENT, Current, RecordError, Status
from storyframes.store.storage import FileInfo, Storage, StorageError, may_pass
from storyframes.store.storage.files import sha256_file
from storyframes.store.storage.processes import keep_private
from tasks.extractors.base import ExtractionError, Extractor, Fingerprint, Input, MissingInputError, Source
from tasks.extractors.earlier_fingerprints import has_fingerprint
from tasks.extractors.frame_pass import FrameExtractor, contained, run_frame_pass
from tasks.extractors.frames import Frames
from tasks.extractors.regions import begin_region, region_spec
from tasks.extractors.registry import ExtractorsSettings, build_extractor
from tasks.failures import explain
from tasks.media.container import recording_digest, recording_state
from tasks.media.recording import FrameTimes
from tasks.media.video_header import missing_bytes

_LOG = logging.getLogger("storyframes")


@dataclass(frozen=True, slots=True)  # a study may have a million
class ExtractionUnit:
    """What is due of one track of a session, done in one go."""

    store: str  # the feature store's location
    source: Source  # the track's files as they were when the unit was planned
    features: tuple[str, ...]  # one feature, or several that share one pass over the frames
    settings: ExtractorsSettings  # of all extractors
    # by feature that is forced, the count of the version that was current when the unit was planned: a later one with
    # the right fingerprint is this unit done, by whichever run. Of other features any version will do
    since: Mapping[str, int] = field(default_factory=dict)
    # features of the same track that must have ended before this begins, well or not, where they are due as well
    after: tuple[str, ...] = ()
    # what it needs of a worker, in Dask's resources
    needs: Mapping[str, float] = field(default_factory=lambda: {"CPU": 1})
    # CPU-seconds that it will take, in order of magnitude; what costs most should begin first. 0 where nothing says how
    # long the recording is
    cost: float = 0.0
    # units of other tracks of the session that share its pass over the frames: regions of the same video's picture
    beside: tuple[ExtractionUnit, ...] = ()
    caveats: tuple[str, ...] = ()  # of every version that it makes, besides what the extractor finds
    store_id: str = ""  # of the store; empty for whichever lies at the location

    @property
    def session_id(self) -> str:
        return self.source.session_id

    @property
    def track(self) -> str:
        return self.source.track

    @property
    def name(self) -> str:
        return f"{self.session_id}/{'+'.join(feature for _, feature in self.makes)}"

    @property
    def makes(self) -> list[tuple[str, str]]:
        """The features that it makes, as the store calls them, of its session."""
        return [(self.session_id, unit.stored(feature)) for unit in self.tracks for feature in unit.features]

    @property
    def tracks(self) -> tuple[ExtractionUnit, ...]:
        """This unit, and those of other tracks that share its pass."""
        return (self, *self.beside)

    @property
    def awaits(self) -> list[tuple[str, str]]:
        """Those that must have ended before it begins, where they are due as well."""
        region = self.source.region
        parents_clock = [of_track(CLOCK, region.of)] if region and CLOCK in self.features else []  # it is copied
        awaited = dict.fromkeys(unit.stored(feature) for unit in self.tracks for feature in unit.after)
        return [(self.session_id, feature) for feature in (*parents_clock, *awaited)]

    def stored(self, feature: str) -> str:
        """The feature's name in the store."""
        return of_track(feature, self.track)

    def open_store(self) -> Storage:
        """The feature store.

        Raises:
            StorageError: another folder is there now than when the unit was planned, or none.
        """
        return open_storage(self.store).pinned(self.store_id)

    def do(self) -> tuple[Outcome, ...]:
        """See :func:`extract`."""
        return extract(self)

    def left_behind(self) -> list[Outcome] | None:
        """The outcomes where all of its features are published, whichever run did it; None otherwise."""
        outcomes = [published(unit, feature) for unit in self.tracks for feature in unit.features]
        return None if None in outcomes else [outcome for outcome in outcomes if outcome]

    def apart(self) -> list[ExtractionUnit]:
        """The unit, or its clock and its features where one pass makes both: features that kill it leave the clock."""
        features = tuple(feature for feature in self.features if feature != CLOCK)
        if features in (self.features, ()):
            return [self]
        since = dict(self.since)
        of_clock = {CLOCK: since.pop(CLOCK)} if CLOCK in since else {}
        clock = replace(self, features=(CLOCK,), since=of_clock, beside=())
        return [clock, replace(self, features=features, since=since, after=(CLOCK,))]

    def lost(self, reason: str) -> list[Outcome]:
        """The outcomes where its worker could not say them: the store knows what was published before it died."""
        try:
            storage = self.open_store()
        except StorageError as error:
            return self.unrecorded(str(error), transient=may_pass(error))
        return [
            published(unit, feature)
            or not_done(storage, self.session_id, unit.stored(feature), Status.FAILED, reason, "")
            for unit in self.tracks
            for feature in unit.features
        ]

    def unrecorded(self, reason: str, *, transient: bool = False) -> list[Outcome]:
        """The outcomes where it was not begun, for this reason; the store does not note them."""
        return [
            Outcome(session_id, feature, Status.FAILED, reason=reason, transient=transient)
            for session_id, feature in self.makes
        ]


@dataclass(frozen=True, slots=True)  # a study may have a million
class Outcome:
    """What came of one feature of one session: small, and free of anything private."""

    session_id: str
    feature: str  # as it is called in the store: of another track than the session's own, ``<feature>@<track>``
    status: Status  # as recorded
    skipped: bool = False  # nothing was done because the current version is up to date
    reason: str = ""  # why not done
    transient: bool = False  # it failed for a reason that may pass (a network file system, a busy object store)
    # rows, bytes: of the current version
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0  # how long the unit took, with what shared its pass
    caveats: tuple[str, ...] = ()  # what a user of the values must know
    version: str = ""  # which is current; empty where none is

    @property
    def failed(self) -> bool:
        return self.status is Status.FAILED

    def __str__(self) -> str:
        """As a line of a log."""
        name = f"{self.session_id}/{self.feature}"
        if self.status is Status.DONE:
            return f"{name}: done, {self.rows} rows in {self.seconds:.1f} s"
        return f"{name}: {self.status}: {self.reason}"


@dataclass(frozen=True)
class _Due:
    """A feature that has to be extracted now."""

    unit: ExtractionUnit  # of its track
    extractor: Extractor[Any]
    fingerprint: Fingerprint
    after: int  # the latest count when the work began


def extract(unit: ExtractionUnit) -> tuple[Outcome, ...]:
    """Skip what is current, else extract and publish; whatever goes wrong with the input becomes a recorded outcome."""
    keep_private()
    locale.setlocale(locale.LC_NUMERIC, "C")  # openSMILE reads its configuration by it, and crashes on a decimal comma
    started = time.monotonic()
    try:
        storage = unit.open_store()
    except StorageError as error:
        return tuple(unit.unrecorded(str(error), transient=may_pass(error)))
    outcomes: list[Outcome] = []
    due: list[_Due] = []
    for track_unit in unit.tracks:
        for feature in track_unit.features:
            looked_at = _look_at(storage, track_unit, feature)
            if isinstance(looked_at, Outcome):
                outcomes.append(looked_at)
            else:
                due.append(looked_at)
    attempted = _extract_together(storage, due) if len(due) > 1 else [_extract_one(storage, one) for one in due]
    seconds = time.monotonic() - started
    return (*outcomes, *(replace(outcome, seconds=seconds) for outcome in attempted))


def _look_at(storage: Storage, unit: ExtractionUnit, feature: str) -> _Due | Outcome:
    extractor = build_extractor(unit.settings, unit.session_id, feature)
    try:
        after = latest_sequence(storage, unit.session_id, unit.stored(feature))
        fingerprint = extractor.fingerprint(unit.source)
        if current := up_to_date(storage, unit, feature, fingerprint.digest):
            return done(current, skipped=True)
    except Exception as error:
        return failed(storage, unit, extractor, error, "")
    return _Due(unit, extractor, fingerprint, after)


def _extract_one(storage: Storage, due: _Due) -> Outcome:
    try:
        _check_clock(storage, due)
        _check_reads(storage, due)
        with _writer(storage, due) as out:
            if due.unit.source.region and not isinstance(due.extractor, FrameExtractor):  # whose pass does so
                begin_region(due.extractor, due.unit.source, out)
            due.extractor.extract(due.unit.source, out)
            return done(_publish(due, out))
    except BaseException as error:
        return failed(storage, due.unit, due.extractor, contained(error), due.fingerprint.digest, due.after)


def _writer(storage: Storage, due: _Due) -> FeatureWriter:
    source, spec = due.unit.source, due.extractor.spec
    if source.region is not None and due.extractor.sees_pictures:
        spec = region_spec(spec, source.region.of)
    writer = FeatureWriter(storage, source.session_id, spec, track=source.track, frames=not source.frameless)
    for caveat in due.unit.caveats:
        writer.caveat(caveat)
    return writer


def _extract_together(storage: Storage, due: list[_Due]) -> list[Outcome]:
    """Several features from one pass over the frames; one that fails leaves the others alone."""
    outcomes: list[Outcome] = []
    clock = next((one for one in due if isinstance(one.extractor, Frames)), None)
    due = [one for one in due if one is not clock]
    if clock and _ends_early(clock):
        outcomes.append(_extract_one(storage, clock))
        clock = None

    def publish_clock(decoded: FrameTimes | Exception | None) -> None:
        assert clock is not None
        assert isinstance(clock.extractor, Frames)
        clock.extractor.decoded = decoded
        outcomes.append(_extract_one(storage, clock))

    with contextlib.ExitStack() as stack:
        writers: dict[FrameExtractor[Any], tuple[Source, FeatureWriter]] = {}
        for one in due:
            if not isinstance(one.extractor, FrameExtractor):
                raise TypeError(f"{one.extractor.name} does not work frame by frame")
            writers[one.extractor] = one.unit.source, stack.enter_context(_writer(storage, one))
        failures = run_frame_pass(writers, publish_clock if clock else None)
        for one, (extractor, (_, out)) in zip(due, writers.items(), strict=True):
            try:
                if failure := failures[extractor]:
                    raise failure
                _check_clock(storage, one)
                outcomes.append(done(_publish(one, out)))
            except Exception as error:
                outcomes.append(failed(storage, one.unit, extractor, error, one.fingerprint.digest, one.after))
    return outcomes


def _ends_early(clock: _Due) -> bool:
    """Whether a recording is refused because its file ends too early, so that a pass over its pictures is in vain."""
    if clock.extractor.common.recording.allow_truncated:
        return False
    try:
        return missing_bytes(clock.unit.source.file(Input.VIDEO).path) > 0
    except OSError:  # decoding it says why
        return False


def _publish(due: _Due, out: FeatureWriter) -> Current:
    out.storage.check_place()  # else what is compared with the store would be missing there, and blamed
    _check_unchanged(due.fingerprint)
    if dict(due.extractor.models()) != dict(due.fingerprint.models):
        raise ExtractionError(f"{due.extractor.name}: the model's files changed meanwhile; run the extraction again")
    _check_frames(due.extractor, out)
    private = {"private": due.extractor.is_private}  # whether words may be in the values, for releases
    provenance = due.fingerprint.provenance(due.extractor.libraries) | private
    return out.publish(due.fingerprint.digest, provenance, after=due.after)


def _check_clock(storage: Storage, due: _Due) -> None:
    """Refuse the times of another picture of the video, which the store still has where those of the chosen one failed.

    Nothing else tells them apart: they are of the same file, and may be as many.
    """
    if CLOCK not in due.extractor.after:
        return
    entry = read_status(storage, due.unit.session_id, due.unit.stored(CLOCK))
    if entry is None or entry.record is None:
        return
    stored = entry.record.provenance.get("settings", {}).get("video_stream", 0)
    if stored != (chosen := due.extractor.common.recording.video_stream):
        why = entry.reason or "extract frames first"
        raise ExtractionError(
            f"needs the frame times: those in the store are of [recording] video_stream = {stored}, not {chosen}: {why}"
        )


def _check_reads(storage: Storage, due: _Due) -> None:
    """Say which feature is not there that a private one reads: the text of an error of its own is withheld."""
    for feature in due.extractor.reads if due.extractor.is_private else ():
        name = due.unit.stored(feature)
        entry = read_status(storage, due.unit.session_id, name)
        if entry is None or entry.status is not Status.DONE:
            error = MissingInputError if entry and entry.status is Status.MISSING else ExtractionError
            why = f"is {entry.status}: {entry.reason}" if entry else "has not been extracted: extract it first"
            raise error(f"it reads {name}, which {why}")


def _check_frames(extractor: Extractor[Any], out: FeatureWriter) -> None:
    """Refuse arrays whose number of rows is not the session's number of frames: their rows would have wrong times."""
    rows = out.rows(Axis.FRAME)
    if rows is None or extractor.name == CLOCK:
        return
    entry = read_status(out.storage, out.session_id, of_track(CLOCK, out.track))
    frames = entry.record.rows if entry and entry.record else 0
    if rows != frames:
        raise ExtractionError(
            f"{extractor.name} has {rows} rows for frames, but the session's clock has {frames} frames: the extractor "
            "has to write one row for each of them"
        )


def _check_unchanged(fingerprint: Fingerprint) -> None:
    """Refuse values of a file that changed after its digest was taken: they would carry the wrong fingerprint."""
    for file in fingerprint.inputs.values():
        same = recording_state(file.path) == (file.bytes, file.mtime_ns)
        if not same and recording_digest(file.path, sha256_file) != file.sha256:
            raise ExtractionError(f"{file.relative}: changed while it was being read; run the extraction again")


def published(unit: ExtractionUnit, feature: str) -> Outcome | None:
    """The outcome of a feature that is in the store as the unit would give it, whichever run did it; None otherwise."""
    try:
        fingerprint = build_extractor(unit.settings, unit.session_id, feature).fingerprint(unit.source)
        current = up_to_date(unit.open_store(), unit, feature, fingerprint.digest)
    except Exception:  # an input or a tool is not as it was
        return None
    return done(current) if current else None


def up_to_date(storage: Storage, unit: ExtractionUnit, feature: str, fingerprint: str) -> Current | None:
    """The current version if it is what the unit would give, and intact; None otherwise.

    Raises:
        ExtractionError: it was adopted, and only its file could make it again.
    """
    entry = read_status(storage, unit.session_id, unit.stored(feature))
    if entry and entry.record and "adopted" in entry.record.provenance:
        raise ExtractionError(
            f"the store has a feature {feature!r} that was adopted from a file, and it is not replaced: give the "
            "section of the configuration another name"
        )
    return current_if_sound(storage, entry, fingerprint, unit.since.get(feature))


def current_if_sound(
    storage: Storage,
    entry: FeatureStatus | None,
    fingerprint: str,
    since: int | None,
    files: Mapping[str, FileInfo] | None = None,
) -> Current | None:
    """The entry's version if it has this fingerprint, is later than ``since``, and is intact.

    Raises:
        StorageError: whether it is intact cannot be determined.
    """
    current = entry.record if entry else None
    if current is None or (since is not None and current.sequence <= since):
        return None
    if not has_fingerprint(storage, current, fingerprint):
        return None
    return current if is_intact(storage, current, files) else None


def done(current: Current, *, skipped: bool = False) -> Outcome:
    """The outcome of a version that is current."""
    return Outcome(
        current.session_id,
        current.feature,
        Status.DONE,
        skipped=skipped,
        rows=current.rows,
        bytes=current.nbytes,
        caveats=tuple(current.caveats),
        version=current.version,
    )


def not_in_store(storage: Storage, outcomes: Sequence[Outcome]) -> dict[Outcome, str]:
    """The outcomes that are done by what a worker says and not by this process's view of the store, and why not.

    Here, the current version is the outcome's, or another process has published a later one beside it meanwhile.
    """
    paths = {done: current_path(done.session_id, done.feature) for done in outcomes if done.status is Status.DONE}
    unreadable: dict[str, str] = {}
    records = storage.read_many(paths.values(), unreadable.__setitem__)
    doubts = {}
    for done, path in paths.items():
        try:
            there = path in records and _names_version(records[path], path, done.version)
            there = there or storage.info(f"{path.removesuffix(CURRENT)}{done.version}/{ZARR_JSON}") is not None
        except StorageError as error:
            there, unreadable[path] = False, str(error)
        if not there:
            why = unreadable.get(path, "is another folder mounted there on a worker?")
            doubts[done] = (
                f"a worker says that version {done.version} of it is published, but {storage.location} does not have "
                f"it as this process sees it ({why}): extract again"
            )
    return doubts


def _names_version(record: bytes | None, path: str, version: str) -> bool:
    try:
        current = Current.parse(record, path)
    except RecordError:
        return False
    return current is not None and current.version == version


def failed(
    storage: Storage,
    unit: ExtractionUnit,
    extractor: Extractor[Any],
    error: Exception,
    fingerprint: str,
    after: int | None = None,
) -> Outcome:
    """The outcome of an error, whichever it is; ``after`` as :func:`record_attempt` has it."""
    if isinstance(error, OvertakenError) and (by_another := published(unit, extractor.name)):
        return by_another  # this process was stopped, or taken for dead, and the same was done again meanwhile
    try:
        storage.check_place()
    except StorageError as gone:  # whatever failed first, failed for that
        error = gone
    status = Status.MISSING if isinstance(error, MissingInputError) else Status.FAILED
    reason = explain(storage, extractor, error)
    outcome = not_done(storage, unit.session_id, unit.stored(extractor.name), status, reason, fingerprint, after)
    return replace(outcome, transient=may_pass(error))


def not_done(
    storage: Storage,
    session_id: str,
    feature: str,
    status: Status,
    reason: str,
    fingerprint: str,
    after: int | None = None,
) -> Outcome:
    """The outcome of an attempt that gave no version, noted in the store; ``feature`` as it is called there."""
    try:
        record_attempt(storage, session_id, feature, status, reason, fingerprint, after=after)
    except OSError as error:  # a full disk takes this note too; the outcome still says what happened
        _LOG.error("%s/%s: the outcome cannot be noted in the store: %s", session_id, feature, error)
    return Outcome(session_id, feature, status, reason=reason)
