"""How this installation was made: the ``pip install`` line that brings one of its extras, here and now."""

from __future__ import annotations

import json
import re
import shlex
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

# Commands, features, options and sections of the configuration of our distributions, which may not be installed.
COMPANIONS = {
    "adopt": "storyframes-adopt",
    "align": "storyframes-transcribe",
    "baseline": "storyframes-empathy",
    "compare": "storyframes-report",
    "dyads": "storyframes-dyads",
    "empathy": "storyframes-empathy",
    "export": "storyframes-release",
    "import": "storyframes-labels",
    "overlay": "storyframes-report",
    "people": "storyframes-people",
    "prosody": "storyframes-prosody",
    "release": "storyframes-release",
    "report": "storyframes-report",
    "sync": "storyframes-sync",
    "transcribe": "storyframes-transcribe",
    "view": "storyframes-report",
}
FEATURE_COMPANIONS = {
    "dlib": "storyframes-people",
    "face": "storyframes-mediapipe",
    "mediapipe": "storyframes-mediapipe",
    "motion": "storyframes-dyads",
    "prosody": "storyframes-prosody",
    "pyfeat": "storyframes-pyfeat",
    "vad": "storyframes-transcribe",
}
OPTION_COMPANIONS = {"bids": "storyframes-labels"}
SECTION_COMPANIONS = {
    "train": "storyframes-empathy",
    "transcribe": "storyframes-transcribe",
    "voices": "storyframes-transcribe",
}


def companion_missing(command: str) -> str:
    """Why a command is not there: the distribution that it comes with, and the line that installs it, where known."""
    companion = COMPANIONS.get(command)
    comes = f" comes with {companion}: {install_line(name=companion)}" if companion else " is not installed"
    return f"storyframes {command}{comes}"


def install_line(extra: str = "", name: str = "storyframes") -> str:
    """The command that installs an extra from where the distribution itself came from.

    That is the checkout or the wheel, where pip noted one (``direct_url.json``, PEP 610) that still exists, and
    otherwise the name in a package index. What is not installed is named by the checkout that this code runs from: the
    checkout itself, or a plug-in's folder in it. Where an extra brings another distribution of ours, pip is shown where
    that one is: its folder in the checkout, or the folder of the wheel.

    Args:
        extra: or several, with commas between them; "" for the distribution alone.
        name: of the distribution.
    """
    wanted = f"[{extra}]" if extra else ""
    try:
        origin = json.loads(distribution(name).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        is_own = name == "storyframes"
        checkout = Path(__file__).parents[1] if is_own else Path(__file__).parents[1] / "plugins" / name
        is_checkout = (checkout / "pyproject.toml").is_file()
        origin = {"url": checkout.as_uri(), "dir_info": {"editable": is_own}} if is_checkout else {}
    except ValueError:  # a file that is not JSON: nothing is known of its origin
        origin = {}
    return f"pip install {_source(origin, name, wanted, _companions(name, extra))}"


def _companions(name: str, extra: str) -> list[str]:
    """The distributions of ours that these extras bring."""
    try:
        lines = requires(name) or ()
    except PackageNotFoundError:
        return []
    named = (re.match(r"""(storyframes-[\w-]+).*extra == ["'](\w+)["']""", line) for line in lines)
    return [match[1] for match in named if match and match[2] in extra.split(",")]


def _source(origin: Any, name: str, wanted: str, companions: list[str]) -> str:
    """What is installed, as pip's arguments."""
    url = str(origin.get("url", "")) if isinstance(origin, dict) else ""
    parts = urlsplit(url)
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
        if path.exists():
            editable = (origin.get("dir_info") or {}).get("editable")
            own = f"{'-e ' if editable else ''}{shlex.quote(f'{path}{wanted}')}"
            if companions and path.is_file():
                return f"--find-links {shlex.quote(str(path.parent))} {own}"
            places = [folder / companion for companion in companions for folder in (path / "plugins", path.parent)]
            return " ".join([own, *(shlex.quote(str(place)) for place in places if place.is_dir())])
    elif url and "@" not in parts.netloc:  # a URL with a name or a password in it is not repeated
        vcs = origin.get("vcs_info") or {}
        where = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
        return shlex.quote(f"{name}{wanted} @ {where}")
    return shlex.quote(f"{name}{wanted}")
