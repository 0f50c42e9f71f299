"""``storyframes empathy topics``: which of the study's stories are about similar things."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli import (
    JsonOption,
    StoreArgument,
    StudyArgument,
    cannot_write,
    console,
    error_console,
    fail,
    need,
    usage_errors,
)
from storyframes_empathy import DISTRIBUTION

if TYPE_CHECKING:
    import numpy as np


def topics(
    study: StudyArgument,
    features: StoreArgument,
    out: Annotated[Path, typer.Option(help="A new folder for the page and topics.parquet, or an older report.")],
    count: Annotated[
        int | None, typer.Option("--topics", min=2, help="Number of topics; by default the number that separates best.")
    ] = None,
    embedding: Annotated[
        bool, typer.Option("--embedding", help="Group by the embeddings instead of the two dimensions that are shown.")
    ] = False,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Show the topics' words and the stories' beginnings.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the layout and the groups.")] = 0,
    model: Annotated[
        str | None, typer.Option(help="Embed the stories by a service's model instead of the store's sbert.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="The OpenAI-compatible service's address.")] = None,
    send_transcripts_to: Annotated[
        str | None, typer.Option(help="That service's host: the stories may leave this machine for it.")
    ] = None,
    key_variable: Annotated[
        str, typer.Option(help="The environment variable that holds the service's key.")
    ] = "OPENAI_API_KEY",
    json: JsonOption = False,
) -> None:
    """Group stories into topics by their sentence embeddings, and draw them in two dimensions."""
    need("umap", "topics", DISTRIBUTION)
    need("plotly", "report", DISTRIBUTION)
    import json as jsonlib
    from importlib.metadata import version

    import pandas as pd

    from storyframes import STORIES, FeatureStore
    from storyframes_empathy.report.topics_page import TopicsPage, write_topics
    from storyframes_empathy.text.topics import Space, TopicError, find_topics, topic_terms
    from storyframes_report import ReportError, check_target
    from tasks.study import check_study_record, load_study

    if (model is None) != (base_url is None):
        fail("--model and --base-url go together: which model, and where", 2)
    with usage_errors():
        loaded, store = load_study(study), FeatureStore(features)
        check_study_record(store.storage, loaded)
    texts = {story.story_id: story.text for story in loaded.stories}
    if model is not None and base_url is not None:
        story_ids = tuple(sorted(texts))
        embeddings = _embedded(
            [texts[one] for one in story_ids], base_url, send_transcripts_to, model, os.environ.get(key_variable)
        )
        source, caveats = f"{model} of {base_url}", []
    else:
        with usage_errors():
            story_ids = store.story_ids("sbert")
            if not story_ids:
                fail(f"{features} has no embeddings of stories: 'storyframes extract STUDY STORE --features sbert'", 2)
            embeddings = store.read(STORIES, "sbert")
            made = store.catalogue.set_index(["session_id", "feature"]).loc[(STORIES, "sbert")]
        source, caveats = f"stories/sbert, version {made['version']}", [f"sbert: {one}" for one in made["stamps"]]
    if gone := [one for one in story_ids if one not in texts]:
        fail(f"the study has no story {gone[0]!r} any more: extract sbert again", 2)
    space = Space.EMBEDDING if embedding else Space.LAYOUT
    try:
        check_target(out)
        with error_console().status("laying out and grouping"):
            found = find_topics(embeddings, topics=count, seed=seed, space=space)
    except (TopicError, ReportError) as error:
        fail(str(error), 2)
    number = int(found.labels.max()) + 1
    table = pd.DataFrame(
        {"story_id": story_ids, "x": found.points[:, 0], "y": found.points[:, 1], "topic": found.labels}
    )
    shown = [texts[story_id] for story_id in story_ids]
    settings = {
        "embeddings": source,
        "layout": f"UMAP, cosine distance, seed {seed}, umap-learn {version('umap-learn')}",
        "groups": f"K-means on the {space}, scikit-learn {version('scikit-learn')}",
        "number of topics": "given" if count else "best silhouette of 2 to 20",
    }
    silhouette, of_chance = max(found.silhouettes.values()), max(found.of_chance)
    settings["silhouette"] = f"{silhouette:.2f}; of {len(found.of_chance)} without topics at most {of_chance:.2f}"
    terms = topic_terms(shown, found.labels) if with_text else None
    caveats += found.caveats
    page = TopicsPage(
        study.resolve().name, table, silhouette, settings, tuple(caveats), terms, shown if with_text else None
    )
    try:
        write_topics(page, out)
    except OSError as error:
        cannot_write(out, error)
    if json:
        told = {"stories": len(table), "topics": number, "silhouettes": found.silhouettes, "terms": terms}
        print(jsonlib.dumps({**told, "silhouettes_of_chance": found.of_chance, "caveats": caveats}))  # noqa: T201
        return
    for caveat in caveats:
        error_console().print(f"[yellow]caveat:[/] {escape(caveat)}")
    console().print(
        f"{len(table)} stories in {number} topics (silhouette {silhouette:.2f}; {of_chance:.2f} without topics)"
    )
    console().print(f"Open {escape(str(out / 'index.html'))}", soft_wrap=True)


def _embedded(texts: list[str], base_url: str, send_to: str | None, model: str, key: str | None) -> np.ndarray:
    """The stories' embeddings by a service that the user agreed to."""
    need("openai", "llm", DISTRIBUTION)
    from storyframes_empathy.text.embeddings import EmbeddingError, EmbeddingService, embed
    from storyframes_empathy.text.endpoint import EndpointError, agree

    try:
        service = EmbeddingService(agree(base_url, [send_to] if send_to else []), model, key or "none")
        with error_console().status("embedding the stories"):
            return embed(texts, service)
    except EndpointError as error:
        fail(str(error), 2)
    except EmbeddingError as error:
        fail(str(error), 1)
