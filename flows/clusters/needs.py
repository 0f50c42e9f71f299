"""What a task needs of a worker (processors, a GPU), and whether there is a worker that has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Needs = Mapping[str, float]


class ClusterError(Exception):
    """The work cannot be done on this cluster; the message says what is asked for and what there is."""


def check_needs(needs: Sequence[Needs], workers: Sequence[Needs]) -> None:
    """Refuse tasks that no worker can do: Dask would let them wait in silence.

    Args:
        needs: the resources of every task.
        workers: the resources of every worker there is or will be.

    Raises:
        ClusterError: with the first need that cannot be met.
    """
    for need in needs:
        if not any(all(worker.get(name, 0) >= amount for name, amount in need.items()) for worker in workers):
            wanted = ", ".join(f"{amount:g} {name}" for name, amount in need.items())
            there = "; ".join(sorted({_show(worker) for worker in workers})) or "no worker"
            raise ClusterError(f"a feature asks for {wanted}, but no worker has that (there is: {there})")


def _show(worker: Needs) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in worker.items()) or "a worker that declares no resources"
