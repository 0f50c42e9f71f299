"""The feature store: reading it, writing it, keeping it.

Its files: ``layout`` and ``records``; ``description`` is what they say of features, and ``validation`` checks all that
is read from them. ``record_status`` says of each feature of each session what is current, and why not.
``catalogue`` keeps these statuses in one of the ``table_files``; ``record_index`` says which records changed since.

Reading: ``feature_reader`` opens a ``snapshot`` of the catalogue; ``rows`` are mapped (through ``shards``), decoded, or
fetched from an object store by ``far_rows``, and kept in ``caches``. ``tables`` give a feature's rows names and times
(``session_times``); ``feature_store`` makes data frames and xarray trees of them. ``clip_table`` is the clip index.

Writing: ``publish``, through ``shards``. ``storage`` is where a store is: a folder, or an object store. ``maintenance``
verifies it, removes garbage and makes archives. ``study`` is what the store knows of its study and of who is forgotten.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from storyframes.store.catalogue import compact
    from storyframes.store.feature_store import FeatureStore
    from storyframes.store.layout import CLIPS, RunMark, StoreError, create_store, leave_mark, open_storage
    from storyframes.store.publish import FeatureWriter
    from storyframes.store.storage import StorageError
    from storyframes.store.storage.access import keep_private
    from storyframes.store.storage.files import sha256_file, write_atomically
    from storyframes.store.storage.locks import if_free, lock_new_file, locked
    from storyframes.store.storage.scratch import scratch_beside, scratch_folder

__all__ = [
    "CLIPS",
    "FeatureStore",
    "FeatureWriter",
    "RunMark",
    "StorageError",
    "StoreError",
    "compact",
    "create_store",
    "if_free",
    "keep_private",
    "leave_mark",
    "lock_new_file",
    "locked",
    "new_version",
    "open_storage",
    "scratch_beside",
    "scratch_folder",
    "sha256_file",
    "write_atomically",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "catalogue": "compact",
        "feature_store": "FeatureStore",
        "layout": "CLIPS RunMark StoreError create_store leave_mark new_version open_storage",
        "publish": "FeatureWriter",
        "storage": "StorageError",
        "storage.files": "sha256_file write_atomically",
        "storage.locks": "if_free lock_new_file locked",
        "storage.access": "keep_private",
        "storage.scratch": "scratch_beside scratch_folder",
    },
)
