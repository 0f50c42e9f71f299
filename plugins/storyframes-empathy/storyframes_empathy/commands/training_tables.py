"""Runs of training as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from storyframes_empathy.training.runs import Outcome


def outcomes_table(outcomes: Sequence[Outcome]) -> Table:
    """A row for each run."""
    table = Table("run", "status", "epoch kept", "val_mse", "folder")
    for one in outcomes:
        status = one.status.value if one.is_new or one.reason else f"{one.status.value} before"
        epoch, epochs, mse = (one.weights.get(key) for key in ("epoch", "epochs", "val_mse"))
        kept = f"{epoch} of {epochs}" if epoch else ""
        row = (str(one.name), one.reason or status, kept, "" if mse is None else f"{mse:.4f}", str(one.folder))
        table.add_row(*map(escape, row))
    return table


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """A run for scripts."""
    return {
        "phase": outcome.name.phase,
        "model": outcome.name.model.value,
        "modalities": "+".join(outcome.name.modalities),
        "seed": outcome.name.seed,
        "status": outcome.status.value,
        "trained_now": outcome.is_new,
        "reason": outcome.reason,
        "weights": dict(outcome.weights),
        "dropped_clips": outcome.dropped,
        "no_untrained_baseline": outcome.untrained,
        "folder": str(outcome.folder),
    }
