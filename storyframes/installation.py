"""How this installation was made: the ``pip install`` line that brings one of its extras, here and now."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def install_line(extra: str = "", name: str = "storyframes") -> str:
    """The command that installs an extra from where the distribution itself came from.

    That is the checkout or the wheel, where pip noted one (``direct_url.json``, PEP 610) that still exists, and
    otherwise the name in a package index. What is not installed is named by the checkout that this code runs from: the
    checkout itself, or a plug-in's folder in it.

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
    return f"pip install {_source(origin, name, wanted)}"


def _source(origin: Any, name: str, wanted: str) -> str:
    """What is installed, as pip's arguments."""
    url = str(origin.get("url", "")) if isinstance(origin, dict) else ""
    parts = urlsplit(url)
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
        if path.exists():
            editable = (origin.get("dir_info") or {}).get("editable")
            return f"{'-e ' if editable else ''}{shlex.quote(f'{path}{wanted}')}"
    elif url and "@" not in parts.netloc:  # a URL with a name or a password in it is not repeated
        vcs = origin.get("vcs_info") or {}
        where = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
        return shlex.quote(f"{name}{wanted} @ {where}")
    return shlex.quote(f"{name}{wanted}")
