"""Pages in a real browser: Debian's Chromium, headless, opened from disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser, while the block runs. A test of it needs "chromium" and "playwright"."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    # Chromium refuses to sandbox what root starts, and CI is root; the pages are our own.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as started:
        launched = started.chromium.launch(executable_path=program, args=flags)
        yield launched
        launched.close()


class Visit:
    """One page, and everything that went wrong on it."""

    def __init__(
        self, browser: Any, path: Path, *, width: int = 1280, scheme: str = "light", touch: bool = False
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch, is_mobile=touch
        )
        self.context.set_default_timeout(90_000)  # a machine may be busy
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        # Not a function: the page's own policy forbids eval, by which Playwright asks a second time.
        self.page.wait_for_selector("html[data-drawn]", state="attached")

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def violations(self) -> list[str]:
        """What breaks WCAG 2.2 AA by axe-core, with everything opened that can be."""
        from axe_playwright_python.sync_playwright import Axe

        self.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        options = {"runOnly": WCAG, "preload": False}  # it would fetch style sheets, which the page's policy forbids
        found = Axe().run(self.page, options=options).response["violations"]
        return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]

    def until(self, condition: str) -> None:
        """Wait for a condition; the pages let nothing evaluate texts, so it is asked for from outside."""
        for _ in range(1800):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never true: {condition}")

    def range(self, chart: str = "timeline") -> Any:
        return self.page.evaluate(f"document.getElementById('{chart}').layout.xaxis.range.map(Number)")
