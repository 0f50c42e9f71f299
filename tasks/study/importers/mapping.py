"""Which tier is which scheme, and which file is which session: what the user says, and nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from storyframes.store.layout import ID_PATTERN
from tasks.study.importers.annotation_file import AnnotationFile, ImportFaultError
from tasks.study.labels import SchemeType

ALL_OTHERS = "*"


@dataclass(frozen=True)
class Target:
    """The scheme that a tier's values belong to; ``type`` is None where the study's tables say it."""

    scheme: str
    type: SchemeType | None = None


def parse_map(pairs: Sequence[str]) -> dict[str, Target]:
    """What ``--map tier=scheme`` and ``--map tier=scheme:type`` say.

    Raises:
        ImportFaultError: one of them is no such pair, or a tier is there twice.
    """
    targets: dict[str, Target] = {}
    for pair in pairs:
        tier, sign, target = pair.rpartition("=")
        scheme, _, kind = target.partition(":")
        kinds = [one.value for one in SchemeType if one is not SchemeType.CURVE]
        if not sign or not tier or not ID_PATTERN.fullmatch(scheme) or (kind and kind not in kinds):
            raise ImportFaultError(
                f"--map {pair}: write tier=scheme, or tier=scheme:type with one of {', '.join(kinds)}"
            )
        if tier in targets:
            raise ImportFaultError(f"--map {pair}: the tier {tier!r} is mapped already")
        targets[tier] = Target(scheme, SchemeType(kind) if kind else None)
    return targets


def check_tiers(file: AnnotationFile, targets: Mapping[str, Target], skip: Sequence[str]) -> None:
    """Every tier of the file is mapped or skipped, and everything that is mapped or skipped is there.

    Raises:
        ImportFaultError: naming the tiers.
    """
    counts = Counter(tier.name for tier in file.tiers)
    absent = [name for name in (*targets, *skip) if name not in counts and name != ALL_OTHERS]
    if absent:
        there = ", ".join(map(repr, counts)) or "none"
        raise ImportFaultError(f"{file.name}: has no tier {', '.join(map(repr, absent))}; its tiers are {there}")
    both = [name for name in targets if name in skip]
    if both:
        raise ImportFaultError(f"{file.name}: mapped and skipped: {', '.join(map(repr, both))}")
    twice = [name for name, count in counts.items() if count > 1 and name in targets]
    if twice:
        raise ImportFaultError(
            f"{file.name}: has several tiers of the name {', '.join(map(repr, twice))}: give each a name of its own"
        )
    if ALL_OTHERS not in skip and (unmapped := [name for name in counts if name not in (*targets, *skip)]):
        raise ImportFaultError(
            f"{file.name}: not mapped: {', '.join(map(repr, unmapped))}. "
            f"Say --map TIER=SCHEME or --skip TIER for each, or "
            f"--skip '{ALL_OTHERS}' for all others"
        )


def session_from(pattern: str, name: str) -> str:
    """The session that a file's name tells.

    Args:
        pattern: with ``{session}`` where the session's id stands, and ``*`` where anything may; it is held against
            the whole path where it has a ``/``, else against its last part.
        name: the path.

    Raises:
        ImportFaultError: it does not fit.
    """
    if pattern.count("{session}") != 1:
        raise ImportFaultError(f"--session-from {pattern}: write {{session}} where the session's id stands, once")
    path = name.replace("\\", "/")
    against = path if "/" in pattern else PurePosixPath(path).name
    before, after = (re.escape(part).replace(r"\*", ".*") for part in pattern.split("{session}"))
    found = re.fullmatch(f"{before}({ID_PATTERN.pattern}){after}", against)
    if found is None:
        raise ImportFaultError(f"--session-from {pattern}: does not fit {against!r}")
    return found.group(1)
