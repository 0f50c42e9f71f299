"""One unit of work: one feature of one session, from its files to its published version.

A plain function that an orchestrator wraps. It gives back a small outcome, never arrays, and never raises for what is
wrong with an input: that is an outcome too, recorded beside the versions, and leaves siblings and older versions alone.
"""

from __future__ import annotations

import errno
import logging
import os
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from storyframes.catalogue import read_entry
from storyframes.durable import sha256_file
from storyframes.layout import feature_folder
from storyframes.maintenance import is_intact
from storyframes.publish import FeatureWriter, PublishError, record_attempt
from storyframes.records import Current, Status
from tasks.extractor import ExtractionError, Extractor, Fingerprint, MissingInputError, Source
from tasks.extractors import ExtractorsSettings, build_extractors

_LOG = logging.getLogger("storyframes")
_TEXT_FEATURES = ("glove", "sbert")  # an unexpected error's message could quote the transcript


@dataclass(frozen=True)
class Work:
    """One feature of one session that is due.

    Attributes:
        root: the feature store.
        source: the session's files as they were when the work was planned.
        feature: the feature.
        settings: of all extractors.
        since: a sound version published since then (UTC, ISO 8601) with the right fingerprint is this work done, by
            whomever; empty accepts any.
    """

    root: Path
    source: Source
    feature: str
    settings: ExtractorsSettings
    since: str = ""

    @property
    def session_id(self) -> str:
        return self.source.session_id


@dataclass(frozen=True)
class Outcome:
    """What came of one unit of work: small, and free of anything private.

    Attributes:
        status: as recorded.
        skipped: nothing was done because the current version is up to date.
        reason: why not done.
        rows, bytes: of the current version.
        seconds: how long it took.
        stamps: what a user of the values must know.
    """

    session_id: str
    feature: str
    status: Status
    skipped: bool = False
    reason: str = ""
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    stamps: tuple[str, ...] = ()


def extract_feature(work: Work) -> Outcome:
    """Skip if current, else extract and publish; whatever goes wrong with the input becomes a recorded outcome."""
    os.umask(0o077)  # recordings are intimate: what this process writes is its owner's alone
    started = time.monotonic()
    extractor = build_extractors(work.settings, work.session_id)[work.feature]
    digest = ""
    try:
        fingerprint = extractor.fingerprint(work.source)
        digest = fingerprint.digest
        if current := up_to_date(work.root, work.session_id, work.feature, digest, work.since):
            return done(current, skipped=True)
        current = _publish(work, extractor, fingerprint)
        return done(current, seconds=time.monotonic() - started)
    except MissingInputError as error:
        return not_done(work.root, work.session_id, work.feature, Status.MISSING, str(error), digest)
    except (ExtractionError, PublishError) as error:
        reason = str(error)
    except OSError as error:
        reason = _explain_os_error(error)
    except Exception as error:
        reason = _explain_unexpected(error, work.feature)
    return not_done(work.root, work.session_id, work.feature, Status.FAILED, reason, digest)


def _publish(work: Work, extractor: Extractor, fingerprint: Fingerprint) -> Current:
    with FeatureWriter(work.root, work.session_id, work.feature) as out:
        extractor.extract(work.source, out)
        _check_unchanged(fingerprint)
        return out.publish(fingerprint.digest, fingerprint.provenance(extractor.libraries))


def _check_unchanged(fingerprint: Fingerprint) -> None:
    """Refuse values of a file that changed after its digest was taken: they would carry the wrong fingerprint."""
    for file in fingerprint.inputs.values():
        status = file.path.stat()
        same = (status.st_size, status.st_mtime_ns) == (file.bytes, file.mtime_ns)
        if not same and sha256_file(file.path) != file.sha256:
            raise ExtractionError(f"{file.relative}: changed while it was being read; run the extraction again")


def up_to_date(root: Path, session_id: str, feature: str, fingerprint: str, since: str = "") -> Current | None:
    """The current version if it has this fingerprint, is intact, and was published since then; None otherwise."""
    folder = feature_folder(root, session_id, feature)
    entry = read_entry(folder, session_id, feature)
    current = entry.current if entry else None
    if current is None or current.fingerprint != fingerprint or current.created_at < since:
        return None
    return current if is_intact(folder, current) else None


def done(current: Current, *, skipped: bool = False, seconds: float = 0.0) -> Outcome:
    """The outcome of a version that is current."""
    return Outcome(
        current.session_id,
        current.feature,
        Status.DONE,
        skipped=skipped,
        rows=current.rows,
        bytes=current.nbytes,
        seconds=seconds,
        stamps=tuple(current.stamps),
    )


def not_done(root: Path, session_id: str, feature: str, status: Status, reason: str, fingerprint: str) -> Outcome:
    """The outcome of an attempt that gave no version, noted in the store."""
    try:
        record_attempt(root, session_id, feature, status, reason, fingerprint)
    except OSError as error:  # a full disk takes this note too; the outcome still says what happened
        _LOG.error("%s/%s: the outcome cannot be noted in the store: %s", session_id, feature, error.strerror)
    return Outcome(session_id, feature, status, reason=reason)


def _explain_os_error(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk of the feature store is full: nothing was published, make room and extract again"
    where = f"{Path(error.filename).name}: " if isinstance(error.filename, str) else ""
    return f"{where}{error.strerror or type(error).__name__}"


def _explain_unexpected(error: Exception, feature: str) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    message = "" if feature in _TEXT_FEATURES else f": {str(error)[:300]}"
    return f"unexpected {type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}{message}"
