"""Keeping a feature store sound.

``verification`` reads every byte and names what is damaged, ``losses`` what is gone; ``intact`` compares the files of
one version; ``garbage`` removes what nothing refers to; ``archive`` copies the current versions, compressed;
``sharing`` is with a group of users.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from storyframes.store.maintenance.garbage import Garbage, Removal, collect
    from storyframes.store.maintenance.intact import is_intact
    from storyframes.store.maintenance.losses import Finding, LookedAt
    from storyframes.store.maintenance.verification import repair, verify

__all__ = ["Finding", "Garbage", "LookedAt", "Removal", "collect", "is_intact", "repair", "verify"]

__getattr__, __dir__ = exports(
    __name__,
    {
        "garbage": "Garbage Removal collect",
        "intact": "is_intact",
        "losses": "Finding LookedAt",
        "verification": "repair verify",
    },
)
