"""Keeping a feature store sound.

``verification`` reads every byte and names what is damaged, ``losses`` what is gone; ``garbage`` removes what nothing
refers to; ``archive`` copies the current versions, compressed; ``sharing`` is with a group of users.
"""

from storyframes.store.maintenance.garbage import Garbage, Removal, collect
from storyframes.store.maintenance.losses import Finding, LookedAt
from storyframes.store.maintenance.verification import is_intact, repair, verify

__all__ = ["Finding", "Garbage", "LookedAt", "Removal", "collect", "is_intact", "repair", "verify"]
