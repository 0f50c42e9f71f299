"""``storyframes empathy score``: how much participants empathize with stories, by models that are not trained here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli import (
    ConfigOption,
    JsonOption,
    StoreArgument,
    StudyArgument,
    console,
    error_console,
    fail,
    need,
    usage_errors,
)
from storyframes_empathy import DISTRIBUTION
from storyframes_empathy.commands.language_model import (
    KEY_VARIABLE,
    AnswerTokensOption,
    BaseUrlOption,
    ConcurrencyOption,
    DryRunOption,
    KeepPromptsOption,
    KeyVariableOption,
    MaxCostOption,
    ModelOption,
    PriceInOption,
    PriceOutOption,
    ProxyOption,
    RecipientsOption,
    RetriesOption,
    SeedOption,
    TimeoutOption,
    ask_service,
    end_unanswered,
    most_tokens_and_cost,
    open_service,
)
from tasks.inspect import counted

if TYPE_CHECKING:
    from storyframes_empathy.scores.run_record import Run
    from storyframes_empathy.text.llm import Question, Service
    from storyframes_empathy.text.samples import Samples
    from tasks.study import Study

score_app = typer.Typer(
    help="Score a study's texts; the predictions are files like a trained model's.", no_args_is_help=True
)

PhaseOption = Annotated[str, typer.Option(help="A phase of the clip index.")]
OutOption = Annotated[Path, typer.Option(help="The folder of runs, for 'storyframes empathy evaluate'.")]
PromptOption = Annotated[
    str | None,
    typer.Option(
        help="share: the participant's words; reflection: the whole conversation. By default by the phase's name."
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


@score_app.command(epilog="Next: storyframes empathy evaluate OUT")
def llm(
    study: StudyArgument,
    features: StoreArgument,
    phase: PhaseOption,
    out: OutOption,
    model: ModelOption,
    base_url: BaseUrlOption,
    send_transcripts_to: RecipientsOption = None,
    prompt: PromptOption = None,
    speaker: SpeakerOption = "participant",
    splits: SplitsOption = None,
    key_variable: KeyVariableOption = KEY_VARIABLE,
    proxy: ProxyOption = None,
    concurrency: ConcurrencyOption = 4,
    timeout_s: TimeoutOption = 60,
    retries: RetriesOption = 5,
    answer_tokens: AnswerTokensOption = 16,
    seed: SeedOption = 0,
    max_cost: MaxCostOption = None,
    price_in: PriceInOption = None,
    price_out: PriceOutOption = None,
    dry_run: DryRunOption = False,
    keep_prompts: KeepPromptsOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a language model, with the prompts of the paper.

    A question is asked once: what was answered is kept below OUT. Texts leave this machine only for the host that
    --send-transcripts-to names, and only of sessions whose participants have consent_external in the study.
    """
    service = open_service(
        model, base_url=base_url, recipients=send_transcripts_to, proxy=proxy, key_variable=key_variable,
        max_cost=max_cost, price_in=price_in, price_out=price_out, sending=not dry_run, concurrency=concurrency,
        timeout_s=timeout_s, retries=retries, seed=seed, answer_tokens=answer_tokens,
    )  # fmt: skip
    from importlib.metadata import version

    from storyframes_empathy.text.llm import questions
    from storyframes_empathy.text.prompts import Prompt

    loaded, samples, chosen = _read(study, features, phase, prompt, speaker, config)
    as_trained = _splits(features, splits, config)
    if not service.endpoint.is_here:
        samples = samples.of_consenting(loaded)
    asked = questions(samples.samples, Prompt(chosen), service)
    if dry_run:
        _show_what_would_be_sent(asked, service, samples, as_json)
        return
    _need_samples(samples, study)
    answered, done = ask_service(asked, service, out, max_cost=max_cost, keep_prompts=keep_prompts)
    if answered.stopped or answered.unanswered:
        end_unanswered(answered, asked, done, unwritten="predictions", as_json=as_json)
    settings = {
        "scorer": "llm", "prompt": chosen, "base_url": service.endpoint.base_url, "speaker": speaker,
        "temperature": 0.0, "answer_tokens": answer_tokens,
    }  # fmt: skip
    scores = {
        (sample.session_id, sample.story_id): answered.answers[question.digest].score
        for sample, question in zip(samples.samples, asked, strict=True)
    }
    versions = {"openai": version("openai")}
    _write(
        out, phase, f"LLM {model}", samples, scores, settings, versions, as_trained or {seed: None}, (), done, as_json
    )


@score_app.command(epilog="Next: storyframes empathy evaluate OUT")
def bart(
    study: StudyArgument,
    features: StoreArgument,
    phase: PhaseOption,
    out: OutOption,
    weights: Annotated[Path, typer.Option(help="A folder as transformers' save_pretrained writes one.")],
    name: Annotated[str, typer.Option(help="The model's name in tables.")] = "EmpathicStoriesBART",
    prompt: PromptOption = None,
    speaker: SpeakerOption = "participant",
    splits: SplitsOption = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score by the cosine of a BART model's vectors of two texts. Nothing leaves this machine."""
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


@score_app.command(epilog="Next: storyframes empathy score bart --help")
def convert(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint of PyTorch Lightning, or a saved state_dict.")],
    base: Annotated[Path, typer.Option(help="A folder of the same BART with its config.json and tokenizer.")],
    out: Annotated[Path, typer.Option(help="The folder to make, for 'storyframes empathy score bart --weights'.")],
) -> None:
    """Convert a checkpoint into a folder for 'score bart'; a file that would run code is refused."""
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
    from flows import load_settings
    from storyframes import FeatureStore
    from storyframes_empathy.text.prompts import Prompt
    from storyframes_empathy.text.samples import SampleChoice, SampleError, read_samples
    from tasks.study import load_study

    chosen = prompt or next((one for one in Prompt if one in phase), "")
    if chosen not in set(Prompt):
        fail(f"--prompt is {' or '.join(Prompt)}; the name of the phase {phase!r} does not tell", 2)
    with usage_errors():
        settings = load_settings(config)
        loaded = load_study(study, recordings=settings.recording.root)
        choice = SampleChoice(phase, chosen == Prompt.REFLECTION, speaker, settings.common)
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


def _show_what_would_be_sent(questions: list[Question], service: Service, samples: Samples, as_json: bool) -> None:
    tokens, cost = most_tokens_and_cost(questions, service)
    if as_json:
        counts = {"samples": len(questions), "tokens_at_most": tokens, "cost_at_most": cost}
        typer.echo(json.dumps({**counts, "left_out": samples.left_out}))
        return
    console().print(
        f"{counted(len(questions), 'question')}, at most {tokens:,} tokens to send"
        f"{f', at most {cost:.4g} to pay' if cost else ''}; nothing was sent"
    )
    _show_left_out(samples)


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
        _show_left_out(samples)
    if missing == len(scores):
        fail("no sample has a score: no answer holds a number on the scale; another model may follow the prompt", 1)
    if samples.damaged:
        raise typer.Exit(1)


def _show_left_out(samples: Samples) -> None:
    for why, sessions in Counter(samples.left_out.values()).items():
        console().print(f"[yellow]left out:[/] {counted(sessions, 'session')}: {escape(why)}")
