"""The two small JSON files beside a feature's versions: what is current, and why the last attempt gave nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from storyframes.store.validation import (
    InvalidError,
    check_array,
    check_file,
    check_fits,
    check_names,
    check_version,
    is_whole,
    parse_json,
    shard_name,
    shown,
)

STORE_FORMAT = 1
CURRENT = "current.json"
ATTEMPT = "attempt.json"
_REMEMBERED = 1000  # forbidden versions: a writer would have to sleep while this many others are removed


class Status(StrEnum):
    """How the last attempt at a feature ended."""

    DONE = "done"
    MISSING = "missing"  # the session lacks the input: no failure
    FAILED = "failed"


class Caveat(StrEnum):
    """What users of the values must know. Shown by ``status``; in the store the key is ``stamps``."""

    UNTRAINED = "untrained weights"
    MADE_ELSEWHERE = "made elsewhere"  # adopted from a file: nobody here knows by which program
    DEMO_VECTORS = "demo word vectors"
    INTERPOLATED_WORD_TIMES = "interpolated word times"
    LOW_CONFIDENCE = "words of low confidence"  # more than a twentieth, see quality
    UNKNOWN_CONFIDENCES = "confidences that are not from 0 to 1"  # a percentage, a log probability: none is stored
    MALFORMED_CUES = "malformed cues left out"
    UNCERTAIN_SPEAKERS = "captions whose speakers are uncertain"  # a name may be part of the text, or missing
    GUESSED_LANGUAGE = "transcript in a guessed language"  # the recogniser was less than 80 % sure of it
    CUT_TEXT = "texts longer than the model reads"  # the embedding is of their beginning
    UNKNOWN_SCRIPT = "texts in a script that the model does not know"  # the embedding is of what is left of them
    SPEECH_AFTER_END = "speech after the end of the recording"
    TRUNCATED_VIDEO = "truncated video"
    INTERLACED_VIDEO = "interlaced video"
    LONGER_FRAMES = "no pictures between the files of a recording"  # where the sound goes on; how long: see quality
    MAPPED_COLOURS = "HDR or wide gamut mapped to BT.709"  # as a player shows it on an ordinary screen
    CODED_COLOURS = "HDR or wide gamut as coded"  # not mapped: flat and pale
    TOOL_COLOURS = "HDR or wide gamut as a tool's own decoder shows it"  # whether that maps it depends on its version
    OTHER_TIMESTAMPS = "timestamps that are not the frames' times"  # OpenFace's own column; the array time is right
    UNKNOWN_ORIENTATION = "landmarks of a turned video, from elsewhere"  # whether that tool saw it upright is unknown
    DOUBTFUL_REGION = "stretches in which a region may show somebody else"  # their times: the attribute doubtful_s
    STATIC_ACTION_UNITS = "action units that are not adjusted to the person"  # as OpenFace gives those of several faces
    SHORT_SOUND = "sound shorter than the picture"  # begins late, ends early or has a hole: by half a second or more
    LONG_SOUND = "sound longer than the picture"
    DAMAGED_SOUND = "damaged sound"  # parts of it do not decode, and count as silence; how many: see quality
    CHUNKED_SOUND = (
        "values that depend on where chunks of the sound lie"  # by more than a twentieth, or by construction
    )
    REPEATED_FRAMES = "windows in which a frame is taken twice"  # the model wants more a second than the video has
    VARYING_NOISE = "noise that is not always as loud, as with automatic gain"  # what is measured by it is less sure
    ANYBODYS_SPEECH = "speech of anybody whom the microphone hears"  # there is no other person's to compare it with
    BY_VOICE = "speakers of one microphone told apart by voice"  # often wrong far away and where two speak
    DOUBTFUL_VOICES = "doubtful speakers by voice"  # what is doubtful: the transcript's by_voice.doubts
    SPARSE_CURVE = "curve without values between its moments"  # at more than a twentieth of its length, see quality
    MIXED_PARTS = "extracted with other settings or code than other parts"  # of the same array, with --allow-mixed
    UNFLUSHED = "folders not flushed"  # the file system cannot: after a loss of power, run 'storyframes verify'


class RecordError(ValueError):
    """A record is damaged or of a format that this version does not read."""


@dataclass(frozen=True)
class StoredArray:
    """Shape, dtype and chunking of one array, so that a reader needs no other metadata."""

    shape: tuple[int, ...]
    dtype: str
    chunk_rows: int

    @classmethod
    def parse_all(cls, content: Any) -> dict[str, Self]:
        """The arrays that JSON describes, by their names.

        Raises:
            InvalidError: it describes none, or one that cannot exist.
        """
        if not isinstance(content, dict) or not content:
            raise InvalidError(f"{shown(content)} are no arrays, by their names")
        arrays = {}
        for name, array in content.items():
            if not isinstance(array, dict) or array.keys() != {"shape", "dtype", "chunk_rows"}:
                raise InvalidError(f"{shown(name)}: {shown(array)} is not the shape, dtype and chunk_rows of an array")
            check_array(name, **array)
            arrays[name] = cls(tuple(array["shape"]), array["dtype"], array["chunk_rows"])
        return arrays

    def check_fits(self, name: str, file_bytes: int) -> None:
        """Check that the array of this name fits into a file of this size.

        Raises:
            InvalidError: it does not.
        """
        check_fits(name, self.shape, self.dtype, self.chunk_rows, file_bytes)


@dataclass(frozen=True)
class StoredFile:
    """One file of a version. As long as ``mtime_ns`` is the same, the file need not be read again."""

    bytes: int
    sha256: str
    mtime_ns: int


_KEYS = {"caveats": "stamps"}  # keys of records that differ from the fields' names: the format keeps its keys
_FIELDS = {key: field for field, key in _KEYS.items()}


@dataclass(frozen=True)
class _Record:
    """What both records have: the session (or ``stories``) and the feature."""

    session_id: str
    feature: str

    def to_json(self) -> bytes:
        return seal({_KEYS.get(name, name): value for name, value in dataclasses.asdict(self).items()})

    @classmethod
    def parse(cls, data: bytes | None, where: str) -> Self | None:
        """The record in ``data``, None for None; ``where`` is its path, for messages.

        Raises:
            RecordError: it is damaged, of another format, or has an impossible value: a path that leads out of the
                store, an array that its file cannot hold.
        """
        content = unseal(data, where)
        if content is None or content.get("version", "") is None:  # gc forbade versions before the first was published
            return None
        try:
            record = cls(**cls._typed({_FIELDS.get(key, key): value for key, value in content.items()}))
            record._check()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RecordError(f"{where}: not a record of this format ({error})") from None
        return record

    @classmethod
    def parse_of(cls, session_id: str, feature: str, data: bytes | None, where: str) -> Self | None:
        """:meth:`parse` of the record in this feature's folder.

        Raises:
            RecordError: as there; or it is another session's or feature's, whose folder was copied or renamed.
        """
        record = cls.parse(data, where)
        if record and (record.session_id, record.feature) != (session_id, feature):
            raise RecordError(
                f"{where}: is the record of {record.session_id}/{record.feature}, whose folder was copied or renamed"
            )
        return record

    @classmethod
    def _typed(cls, content: dict[str, Any]) -> dict[str, Any]:
        """The content of the JSON, with its parts as the types of the fields."""
        return content

    def _check(self) -> None:
        """Check every value."""
        check_names(self.session_id, self.feature)


MEASURED = "measured"
"""Key of :attr:`Current.quality`: the share of the rows that are measurements by the feature's mask."""


@dataclass(frozen=True)
class Current(_Record):
    """``current.json``: the commit point of a feature. The version that it names is complete.

    Attributes:
        version: name of the version's folder beside this file.
        fingerprint: of everything that determines the values (inputs, settings, models, extractor).
        created_at: UTC, ISO 8601.
        files: every file of the version, by path below its folder.
        caveats: what users of the values must know, see :class:`Caveat`.
        quality: numbers about the values (tracked share, known words, …).
        provenance: inputs, settings, models, tools and code; no host, no absolute path.
        sequence: counts the records of this feature, of versions and of failed attempts: the higher is the later,
            even where clocks were wrong. 0 in records of older versions, which had no count.
        condemned: versions that ``gc`` removes, and that may never become current (docs/store.md).
    """

    version: str
    fingerprint: str
    created_at: str
    arrays: dict[str, StoredArray]
    files: dict[str, StoredFile]
    caveats: list[str] = field(default_factory=list)
    quality: dict[str, float] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    sequence: int = 0
    condemned: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        where = f"{self.session_id}/{self.feature}/{self.version}"
        arrays = ", ".join(f"{name} {array.shape} {array.dtype}" for name, array in self.arrays.items())
        caveats = f"; caveats: {', '.join(self.caveats)}" if self.caveats else ""
        return f"Current({where}: {arrays}; {self.nbytes:,} bytes{caveats})"

    @property
    def rows(self) -> int:
        """Rows of the feature's main array."""
        main = "values" if "values" in self.arrays else next(iter(self.arrays))  # arrays are in the order of the spec
        return self.arrays[main].shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files.values())

    @classmethod
    def _typed(cls, content: dict[str, Any]) -> dict[str, Any]:
        return content | {
            "arrays": StoredArray.parse_all(content["arrays"]),
            "files": {name: StoredFile(**file) for name, file in content["files"].items()},
        }

    def _check(self) -> None:
        super()._check()
        check_version(self.version)
        _check_moment("created_at", self.created_at)
        _check_sequence(self.sequence)
        for name, file in self.files.items():
            check_file(name, file.bytes, file.sha256, file.mtime_ns)
        for name, array in self.arrays.items():
            if array.shape[0]:
                path = f"{name}/{shard_name(array.shape)}"
                if path not in self.files:
                    raise InvalidError(f"{name} has {array.shape[0]} rows, and no file {path}")
                array.check_fits(name, self.files[path].bytes)
        if not isinstance(self.fingerprint, str) or not isinstance(self.provenance, dict):
            raise InvalidError(f"fingerprint {shown(self.fingerprint)}, provenance {shown(self.provenance)}")
        _check_texts("stamps", self.caveats)
        _check_texts("condemned", self.condemned)
        check_quality(self.quality)


@dataclass(frozen=True)
class Attempt(_Record):
    """``attempt.json``: the last attempt gave no version. Removed when a later one does.

    Attributes:
        status: :attr:`Status.FAILED` or :attr:`Status.MISSING`.
        reason: for a person; no transcript text, no path outside the study.
        fingerprint: what was attempted, empty where it could not be computed.
        at: UTC, ISO 8601.
        sequence: see :class:`Current`.
    """

    status: Status
    reason: str
    fingerprint: str
    at: str
    sequence: int = 0

    @classmethod
    def _typed(cls, content: dict[str, Any]) -> dict[str, Any]:
        return content | {"status": Status(content["status"])}

    def _check(self) -> None:
        super()._check()
        _check_moment("at", self.at)
        _check_sequence(self.sequence)
        _check_texts("reason and fingerprint", [self.reason, self.fingerprint])


def condemned(data: bytes | None, where: str) -> list[str]:
    """The versions that the ``current.json`` in ``data`` forbids.

    Raises:
        RecordError: it is damaged or of another format.
    """
    return _condemned(unseal(data, where) or {}, where)


def condemn(data: bytes | None, where: str, version: str) -> bytes:
    """The ``current.json`` in ``data``, changed to forbid ``version`` as well.

    Raises:
        RecordError: it is damaged or of another format.
    """
    content = unseal(data, where) or {"version": None}
    forbidden = [*_condemned(content, where), version]
    return seal(content | {"condemned": forbidden[-_REMEMBERED:]})


def sequence(data: bytes | None, where: str) -> int:
    """The count in a record; 0 for None.

    Raises:
        RecordError: it is damaged or of another format.
    """
    number = (unseal(data, where) or {}).get("sequence", 0)
    if not is_whole(number):
        raise RecordError(f"{where}: sequence {shown(number)} is no count")
    return number


def check_quality(quality: Any) -> None:
    """Check that ``quality`` is numbers by name.

    Raises:
        InvalidError: it is not.
    """
    is_mapping = isinstance(quality, dict) and all(isinstance(name, str) for name in quality)
    if not is_mapping or not all(isinstance(number, int | float) for number in quality.values()):
        raise InvalidError(f"quality {shown(quality)} is to be numbers by name")


def _condemned(content: dict[str, Any], where: str) -> list[str]:
    condemned = content.get("condemned", [])
    try:
        _check_texts("condemned", condemned)
    except InvalidError as error:
        raise RecordError(f"{where}: not a record of this format ({error})") from None
    return list(condemned)


def _check_texts(what: str, texts: Any) -> None:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InvalidError(f"{what} {shown(texts)}: to be texts")


def _check_moment(what: str, moment: Any) -> None:
    if not isinstance(moment, str) or datetime.fromisoformat(moment).tzinfo is None:
        raise InvalidError(f"{what} {shown(moment)} is no time in UTC")


def _check_sequence(number: Any) -> None:
    if not is_whole(number):
        raise InvalidError(f"sequence {shown(number)} is no count")


def now() -> str:
    """This moment, UTC, ISO 8601 with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def canonical_json(content: Any) -> bytes:
    """JSON whose bytes depend on the content alone."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def seal(content: dict[str, Any]) -> bytes:
    """``content`` as a record: JSON with the store's format number and a checksum over all of it."""
    content = {"format": STORE_FORMAT, **content}
    content["checksum"] = hashlib.sha256(canonical_json(content)).hexdigest()
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def unseal(data: bytes | None, where: str) -> dict[str, Any] | None:
    """The content of a record, None for None.

    Raises:
        RecordError: it is damaged or of another format.
    """
    if data is None:
        return None
    try:
        content = parse_json(data)
        checksum = content.pop("checksum")
        number = content.pop("format")
        digest = hashlib.sha256(canonical_json({"format": number, **content})).hexdigest()
    except InvalidError as error:
        raise RecordError(f"{where}: not a record ({error})") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise RecordError(f"{where}: not a record (damaged JSON)") from None
    if number != STORE_FORMAT:
        raise RecordError(
            f"{where}: format {shown(number)}, but this version of storyframes reads format {STORE_FORMAT}"
        )
    if checksum != digest:
        raise RecordError(f"{where}: damaged, its checksum does not match")
    return content
