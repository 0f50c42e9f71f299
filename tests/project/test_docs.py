"""The documentation says what is so."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)


def test_every_setting_is_documented_with_its_default() -> None:
    from pydantic import TypeAdapter

    from flows.settings import Settings
    from tasks.clip_index.label_rules import LabelRule

    text = (ROOT / "docs/configuration.md").read_text()
    example = text.split("```toml\n")[1].split("```")[0]
    assert Settings.model_validate(tomllib.loads(example)) == Settings()  # what is written out is the default
    for section, field in Settings.model_fields.items():
        if section in ("features", "embed", "sections"):  # of embed: docs/models.md; sections are plug-ins'
            continue
        heading, settings = f"[{section}]", type(field.default_factory())
        if section == "labels":  # a section for each scheme of a study
            heading, settings = "[labels.valence]", LabelRule
        assert heading in example
        part = example.split(heading)[1].split("\n[")[0]
        for key in TypeAdapter(settings).json_schema()["properties"]:
            assert key in part, f"[{section}] {key} is not documented"


@pytest.mark.parametrize("kind", ["image", "audio", "text"])
def test_every_setting_of_a_model_is_documented(kind: str) -> None:
    from flows.settings import Settings

    text = (ROOT / "docs/models.md").read_text()
    definitions = Settings.model_json_schema()["$defs"].values()
    (section,) = [one for one in definitions if one.get("properties", {}).get("kind", {}).get("const") == kind]
    for key in section["properties"]:
        assert re.search(rf"\b{key}\b", text), f"[[embed]] {key} is not documented"


def test_every_array_is_documented() -> None:
    from storyframes.features import FEATURES

    text = (ROOT / "docs/store.md").read_text()
    for feature in FEATURES.values():
        assert f"| {feature.name} |" in text
        for array, spec in feature.arrays.items():
            assert array in text or spec.optional


def test_every_command_is_documented() -> None:
    from typer.main import get_command

    from flows.cli.app import app

    text = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    for command in get_command(app).commands:
        assert f"storyframes {command}" in text or f"`{command}`" in text, command


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_links_lead_somewhere(page: str) -> None:
    import re

    path = ROOT / page
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_files_that_a_page_names_exist(page: str) -> None:
    import re

    named = re.findall(
        r"`((?:storyframes|tasks|flows|tests|benchmarks|deploy|containers|demo)/[\w./-]+)", (ROOT / page).read_text()
    )
    assert [one for one in named if not (ROOT / one).exists()] == []


def test_every_page_is_in_the_contents_of_the_site() -> None:
    """What docs/index.md does not name is a warning of Sphinx, and that ends the build (test_docs_site.py)."""
    contents = (ROOT / "docs/index.md").read_text().split()
    pages = {page.removeprefix("docs/").removesuffix(".md") for page in PAGES} - {"index"}
    assert pages - set(contents) == set()


def test_the_reader_imports_nothing_of_the_pipeline() -> None:
    import subprocess
    import sys

    pipeline = "{'pydantic', 'torch', 'prefect', 'dask', 'cv2', 'av'}"
    code = f"import sys, storyframes; print(*({pipeline} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "\n"


def test_tables_of_measured_numbers_are_those_that_were_recorded(tmp_path: Path, monkeypatch) -> None:
    from benchmarks import performance_page as made

    page, tables = made.read_pages(), made.read_tables()
    assert made.rendered(page, tables) == page, "run python -m benchmarks --tables"
    costs = made.PAGE.read_text()
    outside = re.sub(r"<!-- table: [a-z0-9-]+ -->.*?<!-- end of table -->|```.*?```", "", costs, flags=re.DOTALL)
    by_hand = [line for line in outside.splitlines() if line.startswith("|")]
    assert not by_hand, "a table of docs/performance.md belongs into performance.json, between markers on the page"
    monkeypatch.setattr(made, "RESULTS", tmp_path / "performance.json")
    made.write_tables(tables)
    assert made.read_tables() == tables
    made.record("one-pass", ("started", "CPU-s"), [("all", "1.5")], ["zarr"], "python -m benchmarks decoding")
    new = made.rendered(page, made.read_tables())
    text = new.split("<!-- table: one-pass -->\n")[1].split("<!-- end")[0]
    assert text.startswith("| started | CPU-s |\n|---|---|\n| all | 1.5 |\n\n`python -m benchmarks decoding`, 20")
    assert re.search(r" x .*, load \d+\.\d; numpy \d.*, zarr \d", text)
    made.write_tables(made.read_tables() | {"one-pass": {"left_off": ["all"], **made.read_tables()["one-pass"]}})
    made.record("one-pass", ("started", "CPU-s"), [("all", "2.5"), ("allow", "3.5")])
    short = made.rendered(page, made.read_tables()).split("<!-- table: one-pass -->\n")[1].split("<!-- end")[0]
    assert "| allow | 3.5 |" in short
    assert "| all |" not in short
    assert short.endswith(" 1 more rows are in performance.json.\n")
    with pytest.raises(ValueError, match=r"has 1 cells, but there are 2 columns"):
        made.record("one-pass", ("a", "b"), [["1"]])
    with pytest.raises(ValueError, match=r"not once on the page and in performance.json: one-pass"):
        made.rendered(page, {name: table for name, table in tables.items() if name != "one-pass"})


def test_help_lists_every_benchmark() -> None:
    benchmarks = import_module("benchmarks.__main__")
    text = benchmarks.listing()
    for name in benchmarks.NAMES:
        assert re.search(rf"^  {re.escape(name)} +\S+ \S+", text, re.MULTILINE), name
