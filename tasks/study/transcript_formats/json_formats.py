"""Which program wrote a JSON document, by its keys."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self, TypeGuard

from pydantic import BaseModel, Field, ValidationError, model_validator

from tasks.study.transcript_formats.drafts import SURE_LANGUAGE, Draft, FormatError
from tasks.study.transcript_formats.service_formats import Assembly, Aws, AwsJob, Deepgram
from tasks.study.transcript_formats.whisper_formats import HuggingFace, Whisper, WhisperCpp, is_segment

_MADE_BY = ("storyframes-transcribe", "storyframes-labels")  # their speakers with a person_id are roles or ids
_KNOWN = (
    "'utterances' (own, AssemblyAI), 'segments' or 'words' (Whisper, WhisperX, OpenAI), 'transcription' (whisper.cpp), "
    "'chunks' (Hugging Face), 'results' (Deepgram, AWS Transcribe)"
)


class Own(BaseModel):
    """The study's own format: utterances with speaker, start_s, end_s, text and, optionally, words with times and
    confidences.
    """

    utterances: list[Draft]
    provenance: Any = None

    def drafts(self) -> Iterable[Draft]:
        made_with = self.provenance if isinstance(self.provenance, dict) else {}
        is_made = str(made_with.get("made_by")).startswith(_MADE_BY)
        probability = made_with.get("language_probability")
        has_doubtful_voices = is_made and not made_with.get("speakers") and _has_doubtful_voices(made_with)
        for utterance in self.utterances:
            if not is_made:
                utterance.person_id = None  # anybody who wrote the file may call the speaker by name
            utterance.in_guessed_language = (
                is_made and isinstance(probability, int | float) and probability < SURE_LANGUAGE
            )
            utterance.has_doubtful_voice = has_doubtful_voices
        return self.utterances


class Turn(BaseModel):
    """When one voice speaks, seconds of the recording, and how probable it is that it is this one."""

    start_s: float = Field(ge=0, allow_inf_nan=False)
    end_s: float = Field(allow_inf_nan=False)
    speaker: str
    person_id: str | None = None  # of the table of persons; None where it is not known whose voice it is
    probability: float = Field(ge=0, le=1)

    @model_validator(mode="after")
    def _is_forwards(self) -> Self:
        if self.end_s < self.start_s:
            raise ValueError(f"end_s is {self.end_s}, before start_s, which is {self.start_s}")
        return self


class Turns(BaseModel):
    """Who speaks when on a microphone of several people, in the study's own format."""

    turns: list[Turn] = []
    provenance: Any = None

    @property
    def are_doubtful(self) -> bool:
        """Whether it is doubtful which voice is whose."""
        return _has_doubtful_voices(self.provenance)


def read_turns(path: Path) -> Turns:
    """The turns of the voices; none of a document that does not have them, as of another format.

    Raises:
        FormatError: it is not JSON, or a turn is malformed.
        OSError: it cannot be read.
    """
    try:
        content = json.loads(path.read_bytes()) if path.suffix.lower() == ".json" else None
        has_turns = isinstance(content, dict) and content.get("turns") is not None
        return Turns.model_validate(content) if has_turns else Turns()
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        _, number, field = (*fault["loc"], "", "")[:3]
        where = f"turn {number + 1}" if isinstance(number, int) else "turns"
        is_number = isinstance(fault["input"], int | float)  # a text could be somebody's name
        shown = f" {field} {fault['input']}" if is_number else f" {field}"
        raise FormatError(f"{where},{shown}: {fault['msg']}") from None
    except (ValueError, RecursionError):
        raise FormatError("is not JSON") from None


def _has_doubtful_voices(provenance: Any) -> bool:
    by_voice = provenance.get("by_voice") if isinstance(provenance, dict) else None
    return bool(isinstance(by_voice, dict) and by_voice.get("doubts"))


Format = Own | Whisper | WhisperCpp | HuggingFace | Assembly | Deepgram | Aws | AwsJob


def read_json(path: Path) -> list[Draft]:
    """The utterances of a document, as its program wrote them.

    Raises:
        FormatError: it is not JSON, no program's, damaged, or of an unfinished job.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    try:
        content = json.loads(data)
    except UnicodeDecodeError:
        content = _read_broken_characters(data)
    except (ValueError, RecursionError):
        raise FormatError("is not JSON") from None
    model = _format(content)
    if model is None:
        raise FormatError(f"no known transcript: it has none of {_KNOWN}")
    try:
        return list(model.model_validate({"segments": content} if isinstance(content, list) else content).drafts())
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in fault["loc"])
        raise FormatError(f"{field}: {fault['msg']}") from None


def _read_broken_characters(data: bytes) -> Any:
    """A document of whisper.cpp, which cuts characters between tokens."""
    try:
        content = json.loads(data.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        raise FormatError("is not JSON") from None
    if _format(content) is not WhisperCpp:
        raise FormatError("is not JSON: it is not UTF-8")
    return content


def _format(content: Any) -> type[Format] | None:
    if isinstance(content, list):
        return Whisper if all(map(is_segment, content)) else None
    if not isinstance(content, dict):
        return None
    if isinstance(content.get("transcription"), list):
        return WhisperCpp
    if isinstance(content.get("chunks"), list):
        return HuggingFace
    if isinstance(content.get("TranscriptionJob"), dict):
        return AwsJob
    if isinstance(results := content.get("results"), dict) and results.keys() & {"items", "channels", "utterances"}:
        return Aws if "items" in results else Deepgram
    return _format_of_lists(content)


def _format_of_lists(content: dict[str, Any]) -> type[Format] | None:
    segments, utterances, words = (content.get(key) for key in ("segments", "utterances", "words"))
    if isinstance(segments, list) or (_are_dicts(words) and any("word" in word for word in words)):
        return Whisper
    is_job = isinstance(content.get("status"), str) and "id" in content
    if utterances == [] and (is_job or words):
        return Assembly
    if _are_dicts(utterances) and all("start_s" in utterance for utterance in utterances[:1]):
        return Own
    return Assembly if isinstance(utterances, list) or isinstance(words, list) or is_job else None


def _are_dicts(items: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(items, list) and all(isinstance(item, dict) for item in items)
