"""The feature store: reading it, writing it, keeping it.

Its files: ``layout`` and ``records``; ``description`` is what they say of features, and ``validation`` checks all that
is read from them. ``record_status`` says of each feature of each session what is current, and why not.
``catalogue`` keeps these statuses in one of the ``table_files``.

Reading: ``feature_reader`` opens the catalogue, and arrays as rows of ``shards`` that are mapped, as ``zarr_rows`` that
are decoded, or as ``far_rows`` that are fetched from an object store; both are kept in ``caches``. ``tables`` give a
feature's rows names and times (``session_times``), ``pooled_tables`` a row for each word; ``address`` parses names,
``selection`` is what a name selects, as rows and data frames, and ``feature_store`` a store with its sessions.
``clip_table`` is the clip index.

Writing: ``publish``, through ``shards``. ``storage`` is where a store is: a folder, or an object store. ``maintenance``
verifies it, removes garbage and makes archives. ``study`` is what the store knows of its study and of who is forgotten.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from storyframes.store.catalogue import compact
    from storyframes.store.clip_table import write_clips
    from storyframes.store.layout import (
        CLIPS,
        ID_PATTERN,
        StoreError,
        create_store,
        open_storage,
        why_no_session,
    )
    from storyframes.store.maintenance import is_intact
    from storyframes.store.pooled_tables import Pooling
    from storyframes.store.publish import FeatureWriter
    from storyframes.store.record_status import FeatureStatus
    from storyframes.store.records import Caveat, Current
    from storyframes.store.session_times import SessionTimes
    from storyframes.store.storage import Storage, StorageError
    from storyframes.store.storage.files import sha256_file, write_atomically
    from storyframes.store.storage.locks import lock_new_file, locked
    from storyframes.store.storage.scratch import new_folder, scratch_folder
    from storyframes.store.study import (
        Forgotten,
        StudyRecord,
    )
    from storyframes.store.tables import Table
    from storyframes.store.validation import parse_json

__all__ = [
    "CLIPS",
    "ID_PATTERN",
    "Caveat",
    "Current",
    "FeatureStatus",
    "FeatureWriter",
    "Forgotten",
    "Pooling",
    "SessionTimes",
    "Storage",
    "StorageError",
    "StoreError",
    "StudyRecord",
    "Table",
    "compact",
    "create_store",
    "is_intact",
    "lock_new_file",
    "locked",
    "new_folder",
    "open_storage",
    "parse_json",
    "scratch_folder",
    "sha256_file",
    "why_no_session",
    "write_atomically",
    "write_clips",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "pooled_tables": "Pooling",
        "catalogue": "compact",
        "clip_table": "write_clips",
        "layout": "CLIPS ID_PATTERN StoreError create_store open_storage why_no_session",
        "maintenance": "is_intact",
        "publish": "FeatureWriter",
        "record_status": "FeatureStatus",
        "records": "Caveat Current",
        "session_times": "SessionTimes",
        "storage": "Storage StorageError",
        "storage.files": "sha256_file write_atomically",
        "storage.locks": "lock_new_file locked",
        "storage.scratch": "new_folder scratch_folder",
        "study": "Forgotten StudyRecord",
        "tables": "Table",
        "validation": "parse_json",
    },
)
