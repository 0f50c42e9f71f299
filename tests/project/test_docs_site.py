"""The site of the documentation: no warning, tutorials that run, links that lead somewhere, nothing from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from support.systems.installed import Installed, clean

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
TUTORIALS = [path for path in sorted((ROOT / "docs/tutorials").glob("*.md")) if "{code-cell}" in path.read_text()]


@dataclass
class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that others may link to."""

    links: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.add(found["href"])
        elif "src" in found:
            self.loads.add(found["src"])


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text())
    return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without the output of tutorials' cells; whatever Sphinx warns of is an error."""
    out = tmp_path_factory.mktemp("site") / "html"
    environment = {name: value for name, value in os.environ.items() if name != "STORYFRAMES_DEMO"}
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(out)]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return out


@pytest.fixture(scope="module")
def executed_site(extracted_demo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by ``make docs``, which runs the tutorials as notebooks; a cell that raises is an error too."""
    demo, result = extracted_demo
    assert result.returncode == 0, result.stderr
    out = tmp_path_factory.mktemp("site") / "html"
    where = [f"BIN={Path(sys.executable).parent}", f"DEMO={os.path.relpath(demo, ROOT)}", f"SITE={out}"]
    command = ["make", "-o", ".venv/.dev", "-o", ".venv/.test-plugins", "docs", *where]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert f"open {out}/index.html" in built.stdout
    return out


@pytest.mark.needs("sphinx")
def test_every_link_leads_somewhere(site: Path) -> None:
    pages = {path.resolve(): read(path) for path in site.rglob("*.html")}
    assert len(pages) > 20
    nowhere = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue  # nothing is asked of the network
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lost = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places
            if not target.is_file() or lost:
                nowhere.append(f"{path.name}: {link}")
    assert nowhere == []


@pytest.mark.needs("sphinx")
def test_every_page_leads_to_all_others_and_says_which_it_is(site: Path) -> None:
    pages = {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} - {"index.html", "release.html"}
    page = site / "release.html"
    assert pages - {link.partition("#")[0] for link in read(page).links} == set()
    assert "Table of Contents" not in page.read_text()
    assert re.search(r'class="toctree-l1 current active">', page.read_text())


@pytest.mark.needs("sphinx")
def test_only_files_outside_the_pages_are_named_instead_of_linked(site: Path) -> None:
    texts = [re.sub(r"<[^>]+>", "", path.read_text()) for path in site.rglob("*.html")]
    named = {name for text in texts for name in re.findall(r"\((\S+) in the source\)", text)}
    assert "demo/study" in named
    assert [name for name in named if not (ROOT / name).exists() or name.startswith("docs/")] == []


@pytest.mark.needs("sphinx")
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loads = {load for path in site.rglob("*.html") for load in read(path).loads}
    assert loads
    assert [load for load in loads if urlsplit(load).scheme not in ("", "data") or urlsplit(load).netloc] == []


@pytest.mark.parametrize("name", ["labels-from-elan", "look-around", "train-a-model"])
def test_cells_of_tutorials_run(name: str, extracted_demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process. The others load a model or check an extractor: they run at night, as notebooks."""
    monkeypatch.chdir(tmp_path)
    os.symlink(extracted_demo[0], "storyframes-demo")
    os.symlink(ROOT / "docs/examples", "examples")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    seen = [ROOT, ROOT / "plugins/storyframes-labels", Path(sys.prefix) / "plugins"]  # entry points are in the last
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, seen)))
    names: dict[str, object] = {}
    cells = re.findall(r"```{code-cell}.*?\n(.*?)```", (ROOT / f"docs/tutorials/{name}.md").read_text(), re.DOTALL)
    for cell in cells:
        if cell.startswith("%%bash\n"):
            subprocess.run(["bash", "-ec", cell.removeprefix("%%bash\n")], check=True)
        else:
            exec(compile(cell, name, "exec"), names)
    assert len(cells) >= 3


@pytest.mark.nightly
@pytest.mark.needs("sphinx")
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_show_what_their_cells_gave(executed_site: Path, tutorial: Path) -> None:
    cells = tutorial.read_text().count("```{code-cell}")
    page = (executed_site / "tutorials" / f"{tutorial.stem}.html").read_text()
    assert cells >= 3
    assert page.count('class="cell_input') == cells
    assert page.count('class="cell_output') >= 3
    assert "Traceback" not in page


@pytest.mark.needs("sphinx")
def test_the_reference_has_what_is_public(site: Path) -> None:
    import storyframes

    places = read(site / "api.html").places
    documented = {place.rpartition(".")[2] for place in places if place.startswith("storyframes.")}
    classes = {name for name in storyframes.__all__ if isinstance(getattr(storyframes, name), type)}
    assert classes <= documented
    assert "read" in documented


@pytest.mark.nightly
def test_the_stopwatch_runs_as_it_stands(installed: Installed, demo_study: Path, tmp_path: Path) -> None:
    """From an empty folder with two recordings, by what was installed."""
    folder = tmp_path / "two"
    folder.mkdir()
    for name, written in (("p01-s01.avi", "p01-s01.avi"), ("p02-s01.avi", "P02.AVI")):
        shutil.copy(demo_study / "videos" / name, folder / written)
    command = [installed.python, ROOT / "docs/stopwatch.py", folder]
    with_report = clean() | {"PYTHONPATH": str(Path(sys.prefix) / "plugins")}
    done = subprocess.run(command, cwd=tmp_path, env=with_report, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [line.split(" s  ")[1] for line in done.stdout.splitlines() if " s  " in line]
    page = (ROOT / "docs/stopwatch.md").read_text()
    assert len(steps) == 6
    assert [step for step in steps[:-1] if f" s  {step}\n" not in page] == []
    assert "2396 rows, 67 columns" in done.stdout
    assert re.search(r"21 clips, mean loss \d", done.stdout)
    assert (folder / "made/report/index.html").is_file()
