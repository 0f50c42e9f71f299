"""The steps of the work, as plain functions that flows wrap in tasks and tests call.

``extract`` makes one feature of one session. ``trial`` runs
one extractor for ``storyframes.testing``. ``strict_settings`` is the base of all sections of the configuration. The
rooms: ``study`` (what is handed in), ``media`` (recordings), ``extractors``, ``models`` and ``tools`` (what extractors
use), ``planning`` (what is due), ``clip_index``, ``inspect`` (looking at a study and its store).
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.strict_settings import StrictSettings

__all__ = ["StrictSettings"]

__getattr__, __dir__ = exports(
    __name__,
    {
        "strict_settings": "StrictSettings",
    },
)
