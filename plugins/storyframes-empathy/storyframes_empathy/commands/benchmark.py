"""``storyframes empathy benchmark``: the paper's grid of models on a cluster, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli import ConfigOption, JsonOption, StoreArgument, console, error_console, fail, listed, need, usage_errors
from storyframes_empathy import DISTRIBUTION

if TYPE_CHECKING:
    from storyframes_empathy.benchmark import BenchmarkRequest, BenchmarkResult
    from storyframes_empathy.training.grid import TrainingOutcome


def benchmark(
    features: StoreArgument,
    out: Annotated[Path, typer.Option(help="The folder of all runs: RUNS/phase/model/modalities/seed/.")],
    phase: Annotated[
        list[str] | None, typer.Option(help="A phase of the clip index; repeat for more. By default all.")
    ] = None,
    models: Annotated[str, typer.Option(help="With commas between them.")] = "amer,tfn,ef_lstm,lf_lstm",
    modalities: Annotated[str, typer.Option(help="With commas between them.")] = "t,v+a,v+t,a+t,v+a+t",
    seeds: Annotated[str, typer.Option(help="Seeds, one run for each, with commas between them.")] = "0,1,2",
    replace: Annotated[bool, typer.Option("--replace", help="Replace runs made with other settings.")] = False,
    config: ConfigOption = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="A cluster's YAML file (deploy/clusters), or tls://host:port of a Dask scheduler."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Train the grid of models on a cluster, one task a run; finished runs are skipped.

    Exit 0: all runs are done; 1: some failed; 2: the request cannot be carried out.
    """
    need("prefect", "pipeline", DISTRIBUTION)
    need("torch", "train", DISTRIBUTION)
    need("safetensors", "train", DISTRIBUTION)
    import json as jsonlib

    from pydantic import ValidationError

    from storyframes_empathy.benchmark import BenchmarkRequest

    try:
        request = BenchmarkRequest.model_validate(
            {
                "features": features,
                "out": out,
                "phases": tuple(phase or ()),
                "models": listed("--models", [models]),
                "modalities": listed("--modalities", [modalities]),
                "seeds": listed("--seeds", [seeds]),
                "config": config,
                "cluster": cluster,
                "replace": replace,
            }
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        fail(f"--{fault['loc'][0]}: {fault['input']!r}: {fault['msg']}", 2)
    result = _run(request)
    if json:
        print(jsonlib.dumps(_as_json(result)))  # noqa: T201
    else:
        console().print(f"This run: {result}. What they are worth: storyframes empathy evaluate {out}", soft_wrap=True)
    if result.failed:
        raise typer.Exit(1)


def _run(request: BenchmarkRequest) -> BenchmarkResult:
    from rich.markup import escape

    from flows import promise
    from flows.cli import run_work
    from storyframes_empathy.benchmark import BenchmarkResult, go_on, prepare_benchmark
    from storyframes_empathy.commands.train import GOES_ON
    from storyframes_empathy.training.settings import TrainSettingsError
    from tasks.inspect import counted

    shown = error_console()
    promise(GOES_ON)
    with usage_errors():
        ended = 0

        def tell(outcome: TrainingOutcome | str) -> None:
            nonlocal ended
            if isinstance(outcome, str):
                shown.print(f"[yellow]{escape(outcome)}")
                return
            ended += 1
            how = f"[bold red]failed[/] {escape(outcome.reason)}" if outcome.failed else _how(outcome)
            shown.print(f"{ended} of {due}: {escape(str(outcome.run))}: {how}")

        try:
            prepared = prepare_benchmark(request, tell)
        except TrainSettingsError as error:
            fail(str(error), 2)
        due = len(prepared.units)
        shown.print(f"{counted(due, 'run')} asked for")
        return run_work(prepared, lambda run_id: go_on(request, run_id, return_state=True), BenchmarkResult)


def _how(outcome: TrainingOutcome) -> str:
    return f"[green]done[/] in {outcome.seconds:.1f} s" if outcome.is_new else "done before"


def _as_json(result: BenchmarkResult) -> dict[str, object]:
    return {
        "seconds": round(result.seconds, 1),
        "runs": [
            {
                "phase": outcome.run.phase,
                "model": outcome.run.model.value,
                "modalities": "+".join(outcome.run.modalities),
                "seed": outcome.run.seed,
                "status": outcome.status.value,
                "trained_now": outcome.is_new,
                "reason": outcome.reason,
                "seconds": round(outcome.seconds, 1),
            }
            for outcome in result.outcomes
        ],
    }
