"""The proof of the open registry: a feature from outside, installed beside the program; no further file is touched."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.commands import ROOT, storyframes
from support.tools.plug_ins import install, installed

TRAIN = """
import sys
import torch
from storyframes import ClipDataset

dataset = ClipDataset(sys.argv[1], ["brightness", "label"], where="has_brightness")
loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1))
optimiser = torch.optim.Adam(model.parameters(), 0.1)
losses = []
for epoch in range(20):
    for batch in loader:
        assert batch["brightness"].shape[1:] == (15, 2), batch["brightness"].shape
        loss = ((model(batch["brightness"].float().mean(1))[:, 0] - batch["label"].float()) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
print(dataset.fields["brightness"].columns, losses[0], losses[-1])
"""


SESSIONS = ("--session", "p01-s01", "--session", "p01-s02")
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class House:
    """Two sessions of the demo study, extracted by an installation with the plug-in, whose wheel pip builds.

    Attributes:
        knowing: the environment of a process that has the plug-in.
    """

    study: Path
    store: Path
    config: Path
    knowing: dict[str, str]

    def storyframes(self, *arguments: object, knowing: bool = True) -> str:
        """What a command prints, which has to end well."""
        done = storyframes(*arguments, environment=self.knowing if knowing else {})
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    folder = tmp_path_factory.mktemp("house")
    study = Path(shutil.copytree(ROOT / "demo/study", folder / "study"))
    config = folder / "storyframes.toml"
    config.write_text(
        'features = ["frames", "brightness"]\n[brightness]\nnoise = 2.5\n[clips]\nwindow = 15\nstride = 15\n'
        "[cluster]\ncpus = 1\n"
    )
    knowing = installed(
        install("storyframes-example", folder / "installed"), install("storyframes-report", folder / "report")
    )
    made = House(study, folder / "features", config, knowing)
    made.storyframes("extract", study, made.store, "--config", config, *SESSIONS)
    return made


def record(house: House, session: str = "p01-s01") -> dict:
    return json.loads((house.store / session / "brightness/current.json").read_text())


@pytest.mark.end_to_end
def test_it_is_extracted_by_its_section_and_its_distribution_is_noted(house: House) -> None:
    provenance = record(house)["provenance"]
    assert provenance["settings"]["noise"] == 2.5
    assert provenance["tools"] == {"plug-in": "storyframes-example 1.0"}
    assert record(house)["arrays"]["values"]["shape"] == [360, 2]


def test_only_it_can_be_asked_for_and_what_is_up_to_date_stays(house: House) -> None:
    before = record(house)["version"]
    house.storyframes(
        "extract", house.study, house.store, "--config", house.config, "--features", "brightness", *SESSIONS
    )
    assert record(house)["version"] == before


def test_its_command_its_section_its_page_and_its_feature_in_the_report_are_storyframes_own(
    house: House, tmp_path: Path
) -> None:
    assert "light" in house.storyframes("--help").partition("Analyse:")[2]
    assert house.storyframes("light", "dark", house.store).splitlines()[0] == "p01-s01 0.00"
    bright = tmp_path / "bright.toml"
    bright.write_text(f"{house.config.read_text()}[light]\ndark_below = 255\n")
    assert house.storyframes("light", "dark", house.store, "--config", bright).splitlines()[0] == "p01-s01 1.00"
    house.storyframes("report", house.study, house.store, "--out", tmp_path / "site", "--config", bright)
    page = (tmp_path / "site/index.html").read_text()
    assert '<a href="plug-ins/light.html">Light</a>' in page
    assert "brightness" in page
    assert "<td>p01-s01</td><td>1.00</td>" in (tmp_path / "site/plug-ins/light.html").read_text()


def test_a_wrong_setting_of_it_is_told_like_any_other(house: House, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[brightness]\nnoice = 2\n")
    refused = storyframes("plan", house.study, "--config", wrong, environment=house.knowing)
    assert refused.returncode == 2
    assert "brightness.noice" in refused.stderr


def test_without_it_asking_for_it_is_one_sentence(house: House) -> None:
    refused = storyframes("extract", house.study, house.store, "--features", "brightness")
    assert refused.returncode == 2
    assert "'brightness'" in refused.stderr


def test_status_show_and_verify_have_it_also_where_nobody_knows_it(house: House) -> None:
    entries = json.loads(house.storyframes("status", house.store, "--json", knowing=False))["features"]
    found = [entry for entry in entries if entry["feature"] == "brightness"]
    assert [entry["status"] for entry in found] == ["done"] * 2
    assert "brightness" in house.storyframes("show", house.store, "p01-s01", knowing=False)
    house.storyframes("verify", house.store, knowing=False)


def test_it_is_in_the_list_of_extractors(house: House) -> None:
    line = next(line for line in house.storyframes("extractors", "list").splitlines() if "brightness" in line)
    assert "video" in line
    assert "brightness" not in house.storyframes("extractors", "list", knowing=False)


def test_plan_says_what_it_costs(house: House) -> None:
    plan = json.loads(house.storyframes("plan", house.study, "--config", house.config, "--seconds", "2", "--json"))
    assert "brightness" in json.dumps(plan)


def test_a_training_job_trains_on_it_with_none_of_the_plug_in(house: House) -> None:
    done = subprocess.run([sys.executable, "-c", TRAIN, str(house.store)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    columns, first, last = done.stdout.rsplit(maxsplit=2)
    assert columns == "('brightness', 'motion')"
    assert float(last) < float(first)


def test_another_release_of_it_extracts_nothing_again_and_another_version_of_its_class_does(
    house: House, tmp_path: Path
) -> None:
    newer = install("storyframes-example", tmp_path / "newer", "1.1")
    arguments = ("extract", house.study, house.store, "--config", house.config, *SESSIONS)
    before = record(house)["version"]
    assert storyframes(*arguments, environment=installed(newer)).returncode == 0
    assert record(house)["version"] == before
    module = newer / "storyframes_example.py"
    module.write_text(module.read_text().replace("    version = 1\n", "    version = 2\n"))
    assert storyframes(*arguments, environment=installed(newer)).returncode == 0
    assert record(house)["version"] != before
    assert record(house)["provenance"]["tools"] == {"plug-in": "storyframes-example 1.1"}
