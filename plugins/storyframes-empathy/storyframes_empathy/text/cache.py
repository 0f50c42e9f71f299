"""Answers that were paid for once: by a digest of all that was asked, without a word of it.

A prompt is kept only where the user asks for it (``keep_prompts``): for one's own eyes, on this machine.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    question TEXT PRIMARY KEY,   -- SHA-256 of model, URL, messages and parameters
    score REAL,                  -- NULL: no answer was one number on the scale
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    answered_at REAL NOT NULL,   -- seconds since 1970
    kept TEXT                    -- messages and answers as JSON; NULL unless they were to be kept
)
"""


@dataclass(frozen=True)
class Answer:
    """What a model said of one sample.

    Attributes:
        score: on the scale; None where no answer was one number.
        input_tokens, output_tokens: of all requests, as the service counted them.
        requests: how often it was asked.
        kept: what was said, where that is to be kept.
    """

    score: float | None
    input_tokens: int
    output_tokens: int
    requests: int
    kept: str | None = None


class AnswerCache:
    """A file of answers, safe to share between threads and processes.

    Raises:
        OSError: the file cannot be made.
        sqlite3.DatabaseError: it is none of these files.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._lock = Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, timeout=60)
        self._database.execute(_TABLE)

    def get(self, question: str) -> Answer | None:
        """The answer to a question, if it was asked before."""
        wanted = "SELECT score, input_tokens, output_tokens, requests, kept FROM answers WHERE question = ?"
        with self._lock:
            row = self._database.execute(wanted, (question,)).fetchone()
        return Answer(*row) if row else None

    def put(self, question: str, answer: Answer) -> None:
        """Keep it, at once: whatever happens next, it is not paid for again."""
        row = (question, answer.score, answer.input_tokens, answer.output_tokens, answer.requests, time.time())
        with self._lock, self._database:
            self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, answer.kept))

    def close(self) -> None:
        self._database.close()


def question_digest(base_url: str, model: str, messages: list[dict[str, str]], parameters: Mapping[str, Any]) -> str:
    """SHA-256 of all that decides an answer."""
    asked = [base_url, model, messages, dict(sorted(parameters.items()))]
    return hashlib.sha256(json.dumps(asked, ensure_ascii=False).encode()).hexdigest()
