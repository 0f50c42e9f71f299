"""Transcripts that earlier rules made, for ``storyframes check``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress

from storyframes_transcribe.models import PUBLISHED
from storyframes_transcribe.recordings import transcript_path
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.transcript_file import RULES, KeptError, TranscriptFile, read_made
from tasks.study import Study


def find_outdated(study: Study) -> Iterator[str]:
    """A sentence for each transcript that earlier rules made, with the command that makes it again."""
    for session_id, tracks in study.tracks.items():
        for track, files in tracks.items():
            relative = transcript_path(session_id, track)
            if files.transcript not in (None, relative):
                continue
            with suppress(KeptError, OSError):
                made = read_made(study.root / relative, also_corrected=True)
                if made is None:
                    continue
                if made.provenance.rules < RULES:
                    yield _remark(study, relative, made)
                elif made.provenance.joined and not made.provenance.crosstalk_by:
                    yield (
                        f"{relative}: joined from microphones among which an earlier rule looked for crosstalk: "
                        f"{_command(study, made)} looks for it again, without transcribing"
                    )


def _command(study: Study, made: TranscriptFile) -> str:
    return f"'storyframes transcribe {shlex.quote(str(study.root))}{_option(made.provenance.model.get('name', ''))}'"


def _remark(study: Study, relative: str, made: TranscriptFile) -> str:
    command = _command(study, made)
    rules = f"{relative}: made by rules {made.provenance.rules} of storyframes transcribe, the current ones are {RULES}"
    if made.is_corrected:
        return f"{rules}, and corrected by hand: remove it, and {command} makes it again without the corrections"
    return f"{rules}: {command} makes it again"


def _option(model: str) -> str:
    """The option that names the model; of one in a folder the file has the last part of the path alone."""
    if model in ("", TranscribeSettings().model):
        return ""
    return f" --model {model if model in PUBLISHED else shlex.quote(f'PATH/{model}')}"
