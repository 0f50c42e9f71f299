"""Reading the study's story texts, in the worker that needs them: no text travels through Prefect or Dask."""

from __future__ import annotations

from tasks.extractors.base import ExtractionError, Input, Source
from tasks.study.load import Story, StudyError, load_stories


def read_stories(source: Source) -> list[Story]:
    """The stories of the study in the order of their ids.

    Raises:
        ExtractionError: the table of the stories has become invalid since the work was planned.
    """
    try:
        stories = load_stories(source.file(Input.STORIES).path)
    except StudyError as error:
        raise ExtractionError(f"the study is not valid any more: {error.problems[0]}") from None
    return sorted(stories, key=lambda story: story.story_id)
