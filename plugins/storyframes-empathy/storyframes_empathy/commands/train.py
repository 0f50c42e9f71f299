"""``storyframes empathy train``: models of the benchmark, from a feature store alone; no server, no cluster."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows import promise
from flows.cli import ConfigOption, JsonOption, StoreArgument, console, error_console, fail, need, refused_if
from storyframes import FeatureName
from storyframes_empathy import DISTRIBUTION

if TYPE_CHECKING:
    from storyframes_empathy.training.runs import Outcome
    from storyframes_empathy.training.settings import TrainSettings

GOES_ON = "at most the epoch that it was in is lost, the same command goes on from there"


def train(
    features: StoreArgument,
    out: Annotated[Path, typer.Option(help="The folder of all runs: RUNS/phase/model/modalities/seed/.")] = Path(
        "runs"
    ),
    model: Annotated[str, typer.Option(help="amer, tfn, ef_lstm or lf_lstm.")] = "lf_lstm",
    phase: Annotated[
        str | None,
        typer.Option(help="The phase whose windows are used; by default one model for each phase with labels."),
    ] = None,
    modalities: Annotated[
        str | None,
        typer.Option(help="The model's inputs: v+a+t are vision, audio, text. By default what the store has."),
    ] = None,
    seeds: Annotated[str, typer.Option(help="One run for each seed of weights, order and split.")] = "0,1,2",
    preset: Annotated[
        str | None,
        typer.Option(help="empathicstories; paper, its own recipe; or regression, for labels without a story."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="The ordinal or interval scheme, or the curve, to learn; by default empathy, or the only one."
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Rows a second of all inputs, for recordings of several frame rates.")
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="Clips whose session lacks a modality: drop them, or mask it.")
    ] = None,
    keep: Annotated[str | None, typer.Option(help="The weights of the best epoch on val, or of the last.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Instead of the configuration's.")] = None,
    split_seed: Annotated[int | None, typer.Option(help="One split for all seeds.")] = None,
    reflection_story: Annotated[
        str | None, typer.Option(help="In the phase reflection: all stories' ratings, or the chosen one's.")
    ] = None,
    pca: Annotated[
        int | None,
        typer.Option(help="Reduce v to this many principal components of the training frames; this is another model."),
    ] = None,
    personality: Annotated[
        str | None,
        typer.Option(
            metavar="STUDY", help="For AMER only: the study whose surveys give seven traits of each participant."
        ),
    ] = None,
    where: Annotated[str | None, typer.Option(help="Only these clips: an expression over the clip index.")] = None,
    keep_partial: Annotated[
        bool, typer.Option("--keep-partial", help="Also clips that lack a modality which is not used.")
    ] = False,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    threads: Annotated[int | None, typer.Option(help="Processor threads; the same number gives the same bits.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace runs made with other settings.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Train models on a feature store and score their clips; finished runs are skipped.

    Exit 0: all runs are done; 1: a run failed (its loss was not a number); 2: the request cannot be carried out.
    """
    need("torch", "train", DISTRIBUTION)
    need("safetensors", "train", DISTRIBUTION)
    from storyframes_empathy.commands.tables import outcome_json, outcomes_table
    from storyframes_empathy.training.settings import TrainSettingsError, load_train_settings, modalities_of

    given: dict[str, object] = {
        "preset": preset,
        "label": label,
        "epochs": epochs,
        "split_seed": split_seed,
    }
    given |= {"where": where, "pca": pca, "rate": rate, "missing": missing, "keep": keep}
    if preset is None and label is not None and FeatureName(label).is_label_curve:  # which is about no story
        given |= {"target": "none", "oversampling": "none"}
    given |= {"reflection_story": reflection_story, "keep_partial": keep_partial or None}
    given |= {"device": device, "threads": threads}
    try:
        of_whom = {"study": personality} if personality else None
        settings = load_train_settings(config, personality=of_whom, **given)
        named = None if modalities is None else modalities_of(modalities)
    except TrainSettingsError as error:
        fail(str(error), 2)
    if phase is not None and reflection_story == "chosen" and not settings.only_chosen(phase):
        fail(f"--reflection-story chosen is of the phase reflection, and --phase is {phase}", 2)
    if pca is not None and named is not None and "v" not in named:
        fail(f"--pca {pca} is of v, and --modalities {modalities} has none", 2)
    done = _train_all(features, out, model, phase, named, _numbers(seeds), settings, replace)
    if json:
        print(jsonlib.dumps({"runs": [outcome_json(one) for one in done]}))  # noqa: T201
    else:
        console().print(outcomes_table(done))
    if any(one.reason for one in done):
        raise typer.Exit(1)


def _train_all(
    features: str,
    out: Path,
    model: str,
    phase: str | None,
    modalities: tuple[str, ...] | None,
    seeds: list[int],
    settings: TrainSettings,
    replace: bool,
) -> list[Outcome]:
    from storyframes import FeatureStore
    from storyframes.store import StorageError, StoreError
    from storyframes_empathy.commands.train_progress import TrainProgress
    from storyframes_empathy.scores.run_record import RunError
    from storyframes_empathy.training.opened import CannotTrainError
    from storyframes_empathy.training.own_study import plan_training
    from storyframes_empathy.training.run_folder import RunName
    from storyframes_empathy.training.runs import RunDiffersError, train_run
    from storyframes_empathy.training.settings import ModelName
    from storyframes_empathy.training.train import CheckpointError

    if model not in list(ModelName):
        fail(f"there is no model {model!r}; there are {', '.join(ModelName)}", 2)
    _check_device(settings.device)
    promise(GOES_ON)
    outcomes = []
    with refused_if(StoreError, StorageError, CannotTrainError, RunDiffersError, CheckpointError, RunError):
        store = FeatureStore(features)
        plan = plan_training(store, settings, phase, modalities, seeds)
        names = [RunName(one, ModelName(model), plan.runs[one, seed][0], seed) for one in plan.phases for seed in seeds]
        with TrainProgress(error_console()) as progress:
            progress.plan(plan.remarks)
            for number, name in enumerate(names):
                progress.run(name, len(names) - number - 1)
                settings = plan.runs[name.phase, name.seed][1]
                outcomes.append(train_run(store, name, settings, out, progress, replace=replace))
                progress.ended(outcomes[-1])
    return outcomes


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts) or len(set(parts)) < len(parts):
        fail(f"--seeds {text!r}: whole numbers from 0, each once, with commas between them (0,1,2)", 2)
    return [int(part) for part in parts]


def _check_device(device: str) -> None:
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError:
        fail(f"there is no device {device!r}: cpu or cuda", 2)
    if kind not in ("cpu", "cuda") or (kind == "cuda" and not torch.cuda.is_available()):
        fail(f"the device {device!r} cannot be used here: PyTorch finds none", 2)
