"""Keeping a feature store sound: find every damaged byte, remove what nobody refers to."""

from storyframes.store.garbage import Garbage, Removal, collect
from storyframes.store.losses import LookedAt
from storyframes.store.verify import Finding, is_intact, repair, verify

__all__ = ["Finding", "Garbage", "LookedAt", "Removal", "collect", "is_intact", "repair", "verify"]
