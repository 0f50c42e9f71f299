"""The table of planted faults fits the code: ``python tests/plant.py`` plants them, which takes long."""

from __future__ import annotations

from pathlib import Path

from plant import Fault, read_faults

ROOT = Path(__file__).parents[2]


def _applies(fault: Fault) -> bool:
    try:
        fault.planted((ROOT / fault.file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def test_every_planted_fault_applies() -> None:
    faults = read_faults()
    assert len({fault.id for fault in faults}) == len(faults) >= 60
    assert [fault.id for fault in faults if not _applies(fault)] == []
