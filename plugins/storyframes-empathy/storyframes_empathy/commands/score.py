"""``storyframes empathy score``: how much participants empathize with stories, by models that are not trained here."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.terminal import (
    ConfigOption,
    StoreArgument,
    StudyArgument,
    console,
    error_console,
    fail,
    need,
    usage_errors,
)
from storyframes_empathy import DISTRIBUTION
from tasks.inspect.formatting import counted

if TYPE_CHECKING:
    from storyframes_empathy.scores.run_record import Run
    from storyframes_empathy.text.llm import Asked, Question
    from storyframes_empathy.text.samples import Samples
    from tasks.study import Study

score_app = typer.Typer(
    help="Score a study's texts; the predictions are files like a trained model's.", no_args_is_help=True
)

PhaseOption = Annotated[str, typer.Option(help="Of the clip index.")]
OutOption = Annotated[Path, typer.Option(help="The folder of runs, for 'storyframes empathy evaluate'.")]
PromptOption = Annotated[
    str | None,
    typer.Option(
        help="share: what the participant said; reflection: the whole conversation. Without it by the phase's name."
    ),
]
SpeakerOption = Annotated[str, typer.Option(help="The participant among the speakers: a role, a label or a name.")]
SplitsOption = Annotated[
    str | None,
    typer.Option(
        help="Split as the runs of 'storyframes empathy train' with these seeds (0,1,2): predictions once for each. "
        "Without it as the clip index is."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")]


@score_app.command()
def llm(
    study: StudyArgument,
    features: StoreArgument,
    phase: PhaseOption,
    out: OutOption,
    model: Annotated[str, typer.Option(help="As the service calls it.")],
    base_url: Annotated[str, typer.Option(help="An OpenAI-compatible service, such as http://127.0.0.1:8001/v1.")],
    send_transcripts_to: Annotated[
        list[str] | None,
        typer.Option(help="The service's host: the study's texts may leave this machine for it; repeat for a proxy."),
    ] = None,
    prompt: PromptOption = None,
    speaker: SpeakerOption = "participant",
    splits: SplitsOption = None,
    key_variable: Annotated[
        str, typer.Option(help="The environment variable that holds the service's key.")
    ] = "OPENAI_API_KEY",
    proxy: Annotated[
        str | None,
        typer.Option(help="Reach the service through it, a recipient that is agreed to likewise; no other is used."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Questions at once.")] = 4,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="For one whole answer.")] = 60,
    retries: Annotated[int, typer.Option(min=0, help="Of a question that is not answered.")] = 5,
    answer_tokens: Annotated[int, typer.Option(min=1, help="Of an answer at most.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Sent with every question.")] = 0,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Never spend more; needs both prices.")] = None,
    price_in: Annotated[float | None, typer.Option(min=0, help="Of a million tokens that are sent.")] = None,
    price_out: Annotated[float | None, typer.Option(min=0, help="Of a million tokens of answers.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be sent and what it may cost; send nothing.")
    ] = False,
    keep_prompts: Annotated[
        bool, typer.Option("--keep-prompts", help="Keep texts and answers in the cache, for your eyes only.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a language model, with the prompts of the paper.

    A question is asked once: what was answered is kept below OUT. Texts leave this machine only for the host that
    --send-transcripts-to names, and only of sessions whose participants have consent_external in the study.
    """
    need("openai", "llm", DISTRIBUTION)
    if max_cost is not None and (price_in is None or price_out is None):
        fail("--max-cost needs --price-in and --price-out: what a million tokens cost", 2)
    from importlib.metadata import version

    from storyframes_empathy.text.budget import Budget, Prices
    from storyframes_empathy.text.cache import AnswerCache
    from storyframes_empathy.text.endpoint import Endpoint, EndpointError, agree
    from storyframes_empathy.text.llm import Service, ask, questions
    from storyframes_empathy.text.prompts import Prompt

    try:
        endpoint: Endpoint = agree(base_url, send_transcripts_to or (), proxy=proxy, sending=not dry_run)
    except EndpointError as error:
        fail(str(error), 2)
    loaded, samples, chosen = _read(study, features, phase, prompt, speaker, config)
    as_trained = _splits(features, splits, config)
    if not endpoint.is_here:
        samples = samples.of_consenting(loaded)
    service = Service(
        endpoint, model, os.environ.get(key_variable) or "none", concurrency, timeout_s, retries, seed,
        answer_tokens, Prices(price_in or 0.0, price_out or 0.0),
    )  # fmt: skip
    asked = questions(samples.samples, Prompt(chosen), service)
    if dry_run:
        _say_what_would_be_sent(asked, service.prices.cost, answer_tokens, samples, as_json)
        return
    _need_samples(samples, study)
    cache, budget = AnswerCache(out / "answers.sqlite"), Budget(max_cost)
    with error_console().status("asking") as spinner:
        told = ask(
            asked, service, cache, budget,
            keep_prompts=keep_prompts,
            progress=lambda done: spinner.update(f"asking: {done} of {len(asked)} answered"),
        )  # fmt: skip
    done = {"requests": told.requests, "spent": budget.spent, "answers": len(told.answers)}
    if told.stopped or told.unanswered:
        _say_what_is_open(told, asked, done, as_json)
    settings = {
        "scorer": "llm", "prompt": chosen, "base_url": endpoint.base_url, "speaker": speaker, "temperature": 0.0,
        "answer_tokens": answer_tokens,
    }  # fmt: skip
    scores = {
        (one.session_id, one.story_id): told.answers[question.digest].score
        for one, question in zip(samples.samples, asked, strict=True)
    }
    versions = {"openai": version("openai")}
    _write(
        out, phase, f"LLM {model}", samples, scores, settings, versions, as_trained or {seed: None}, (), done, as_json
    )


@score_app.command()
def bart(
    study: StudyArgument,
    features: StoreArgument,
    phase: PhaseOption,
    out: OutOption,
    weights: Annotated[Path, typer.Option(help="A folder as transformers' save_pretrained writes one.")],
    name: Annotated[str, typer.Option(help="What the model is called in tables.")] = "EmpathicStoriesBART",
    prompt: PromptOption = None,
    speaker: SpeakerOption = "participant",
    splits: SplitsOption = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take the cosine of what a BART model makes of two texts. Nothing leaves this machine."""
    need("transformers", "pipeline", DISTRIBUTION)
    from importlib.metadata import version

    from storyframes_empathy.text.bart import Bart, BartError

    _, samples, chosen = _read(study, features, phase, prompt, speaker, config)
    as_trained = _splits(features, splits, config)
    _need_samples(samples, study)
    try:
        with error_console().status("reading texts") as spinner:
            model = Bart(weights, device)
            made = model.score(samples.samples, lambda done: spinner.update(f"{counted(done, 'text')} read"))
    except BartError as error:
        fail(str(error), 2)
    scores: dict[tuple[str, str], float | None] = {
        (one.session_id, one.story_id): float(value) for one, value in zip(samples.samples, made.scores, strict=True)
    }
    settings = {"scorer": "bart", "prompt": chosen, "speaker": speaker, "sha256": model.sha256}
    caveats = (f"{counted(made.truncated, 'text')} longer than the model reads",) if made.truncated else ()
    versions = {"transformers": version("transformers"), "torch": version("torch")}
    more = {"truncated": made.truncated}
    _write(out, phase, name, samples, scores, settings, versions, as_trained or {0: None}, caveats, more, as_json)


@score_app.command()
def convert(
    checkpoint: Annotated[Path, typer.Argument(help="Of PyTorch Lightning, or a saved state_dict.")],
    base: Annotated[Path, typer.Option(help="A folder of the same BART with its config.json and tokenizer.")],
    out: Annotated[Path, typer.Option(help="The folder to make, for 'storyframes empathy score bart --weights'.")],
) -> None:
    """Make a folder for 'score bart' of somebody's checkpoint; one that would have to be run to be read is refused."""
    need("transformers", "pipeline", DISTRIBUTION)
    from storyframes_empathy.text.bart import BartError
    from storyframes_empathy.text.bart_checkpoint import convert_checkpoint

    with usage_errors():
        try:
            done = convert_checkpoint(checkpoint, base, out)
        except BartError as error:
            fail(str(error), 2)
    more = f"; {counted(done.left_out, 'tensor')} of other parts left out" if done.left_out else ""
    console().print(f"{counted(done.tensors, 'tensor')} in {escape(str(out))}{more}")


def _read(
    study: Path, features: str, phase: str, prompt: str | None, speaker: str, config: Path | None
) -> tuple[Study, Samples, str]:
    """The study, what of it is scored, and by which prompt."""
    from flows.settings import load_settings
    from storyframes import FeatureStore
    from storyframes_empathy.text.prompts import Prompt
    from storyframes_empathy.text.samples import SampleChoice, SampleError, read_samples
    from tasks.study import load_study

    chosen = prompt or next((one for one in Prompt if one in phase), "")
    if chosen not in set(Prompt):
        fail(f"--prompt is {' or '.join(Prompt)}; the name of the phase {phase!r} does not tell", 2)
    with usage_errors():
        settings, loaded = load_settings(config), load_study(study)
        choice = SampleChoice(phase, chosen == Prompt.REFLECTION, speaker, settings.transcript)
        try:
            samples = read_samples(loaded, FeatureStore(features), choice)
        except SampleError as error:
            fail(str(error), 2)
    for session_id, why in samples.damaged.items():
        error_console().print(f"[bold red]failed[/] {escape(f'{session_id}: {why}')}")
    return loaded, samples, chosen


def _splits(features: str, seeds: str | None, config: Path | None) -> dict[int, Mapping[str, str] | None]:
    """By seed, in which split a training run of that seed has each participant; empty where nothing is asked for."""
    if seeds is None:
        return {}
    from storyframes import FeatureStore, SplitSpec
    from storyframes_empathy.training.settings import TrainSettingsError, load_train_settings

    named = [one.strip() for one in seeds.split(",")]
    if not all(one.isascii() and one.isdecimal() for one in named) or len(set(map(int, named))) < len(named):
        fail(f"--splits {seeds!r}: whole numbers from 0, each once, with commas between them (0,1,2)", 2)
    try:
        settings = load_train_settings(config)
    except TrainSettingsError as error:
        fail(str(error), 2)
    with usage_errors():
        index = FeatureStore(features).clips()
    found: dict[int, Mapping[str, str] | None] = {}
    for seed in map(int, named):
        spec = SplitSpec(seed if settings.split_seed is None else settings.split_seed, settings.split_shares)
        split = spec.applied(index)
        found[seed] = dict(zip(split["participant_id"], split["split"].astype(str), strict=True))
    return found


def _need_samples(samples: Samples, study: Path) -> None:
    if not samples.samples:
        why = Counter(samples.left_out.values()).most_common(1)
        fail(f"nothing to score in {study}: {why[0][0] if why else 'see above'}", 1)


def _say_what_would_be_sent(
    asked: list[Question], cost: Any, answer_tokens: int, samples: Samples, as_json: bool
) -> None:
    tokens = sum(one.most_input_tokens for one in asked)
    most = cost(tokens, answer_tokens * len(asked))
    if as_json:
        told = {"samples": len(asked), "tokens_at_most": tokens, "cost_at_most": most, "left_out": samples.left_out}
        typer.echo(json.dumps(told))
        return
    console().print(
        f"{counted(len(asked), 'question')}, at most {tokens:,} tokens to send"
        f"{f', at most {most:.4g} to pay' if most else ''}; nothing was sent"
    )
    _say_left_out(samples)


def _say_what_is_open(told: Asked, asked: list[Question], done: Mapping[str, Any], as_json: bool) -> None:
    """Ends the command: predictions of a part would be taken for those of the whole."""
    open_ = len({one.digest for one in asked} - told.answers.keys())
    why = told.stopped or next(iter(told.unanswered.values()))
    if as_json:
        typer.echo(json.dumps({**done, "unanswered": open_, "reason": why}))
    fail(
        f"{counted(open_, 'question')} of {len(asked)} not answered: {why}. No predictions were written; the answers "
        "are kept, so the same command goes on from here",
        1,
    )


def _write(
    out: Path, phase: str, name: str, samples: Samples, scores: Mapping[tuple[str, str], float | None],
    settings: Mapping[str, Any], versions: Mapping[str, str], splits: Mapping[int, Mapping[str, str] | None],
    caveats: tuple[str, ...],
    done: Mapping[str, Any], as_json: bool,
) -> None:  # fmt: skip
    from storyframes_empathy.text.score import text_run, write_scores

    folders = []
    for seed, split in splits.items():
        run: Run = text_run(phase, name, settings, versions, seed).model_copy(update={"caveats": caveats})
        those = samples.samples
        if split is not None:
            those = tuple(replace(one, split=split[one.participant_id]) for one in those)
        with usage_errors():
            folders.append(write_scores(out, run, those, scores))
    missing = sum(score is None for score in scores.values())
    if as_json:
        told = {
            "folder": str(folders[0]),
            "folders": [*map(str, folders)],
            "samples": len(scores),
            "missing": missing,
            "left_out": samples.left_out,
        }
        typer.echo(json.dumps({**told, "failed": samples.damaged, **done}))
    else:
        more = f", {missing} of them without a number in the answer" if missing else ""
        console().print(f"{counted(len(scores), 'sample')} scored{more}: {escape(', '.join(map(str, folders)))}")
        _say_left_out(samples)
    if missing == len(scores):
        fail("no sample has a score: no answer holds a number on the scale; another model may follow the prompt", 1)
    if samples.damaged:
        raise typer.Exit(1)


def _say_left_out(samples: Samples) -> None:
    for why, sessions in Counter(samples.left_out.values()).items():
        console().print(f"[yellow]left out:[/] {counted(sessions, 'session')}: {escape(why)}")
