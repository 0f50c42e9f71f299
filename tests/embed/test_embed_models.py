"""``[[embed]]``: what a section may say, which models are found, fetched, refused; that planning holds work to them."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from support.commands import storyframes
from support.media.recordings import FPS, write_recording
from support.messages import missing, naming
from support.models.hub_server import COMMIT, hub_server
from support.models.tiny_text_models import make_model, make_sentence_model
from support.opened_files import below, files_opened
from support.stores import local
from support.studies import extract_session, make_study, run
from typer.testing import CliRunner

from flows.cli.app import app
from flows.request import ExtractionRequest
from flows.settings import SettingsError, load_settings
from storyframes.installation import install_line
from storyframes.store import catalogue
from tasks.extract import extract
from tasks.extractors.availability import missing_tools
from tasks.extractors.base import CommonSettings, ExtractionError
from tasks.extractors.embed.extractor import PACKAGES
from tasks.extractors.embed.local_model import find_model
from tasks.extractors.embed.settings import Origin
from tasks.extractors.embed.sources import fetch_source, files_to_fetch, published_weights
from tasks.extractors.registry import ExtractorsSettings, build_extractors, registered
from tasks.extractors.text.extractor import TextEmbedding
from tasks.extractors.text.model import TextSettings
from tasks.models import digests
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection, SelectionError
from tasks.study.load import load_study

TEXT = {"name": "tiny", "kind": "text", "source": "path:/models/tiny"}
HUB = {"name": "tiny", "kind": "text", "source": "hf:somebody/tiny", "revision": COMMIT, "pool": "mean"}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "bert", "bert")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    write_recording(folder / "v.mkv", 2 * FPS)
    spoken = [{"start_s": 0.2, "end_s": 1.0, "text": "the garden"}, {"start_s": 1.0, "end_s": 1.5, "text": "rain"}]
    (folder / "t.json").write_text(json.dumps({"utterances": spoken}))
    return make_study(folder, video="v.mkv", transcript="t.json")


def section(**more: Any) -> TextSettings:
    return TextSettings.model_validate({**TEXT, **more})


def of_folder(folder: Path, **more: Any) -> dict[str, Any]:
    return {"name": "tiny", "kind": "text", "source": f"path:{folder}", "pool": "mean", **more}


# --- what a section may say ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"source": "ftp:a/b"}, "a source is timm:NAME, hf:OWNER/NAME, torchvision:NAME or path:FOLDER"),
        ({"source": "path:"}, "a source is timm:NAME"),
        ({"source": "tiny"}, "a source is timm:NAME"),
        ({"source": "hf:a/b/c", "revision": COMMIT}, "a model of the hub is hf:OWNER/NAME"),
        ({"source": "hf:../x", "revision": COMMIT}, "a model of the hub is hf:OWNER/NAME"),
        ({"source": "hf:a/b"}, "revision is missing: .*'storyframes models fetch hf:a/b'"),
        ({"source": "hf:a/b", "revision": "main"}, "revision = 'main' is no commit"),
        ({"source": "hf:a/b", "revision": COMMIT[:7]}, "is no commit"),
        ({"revision": COMMIT}, "a folder is known by its content"),
        ({"source": "timm:a", "revision": COMMIT}, "timm: has no models of texts"),
        ({"name": "Tiny"}, "lower-case letters"),
        ({"kind": "smell"}, "text"),
        ({"pool": "median"}, "'model', 'cls', 'mean' or 'last'"),
        ({"layer": [1, 1], "pool": "mean"}, "a layer is named twice"),
        ({"layer": 2}, "pool = 'model' is of the last layer"),
        ({"precision": "tf32"}, "'tf32' is a GPU's"),
        ({"trust_remote_code": True}, "Extra inputs are not permitted"),
    ],
)
def test_a_section_that_cannot_be_is_told_why(said: Mapping[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        section(**said)


@pytest.mark.parametrize("name", ["sbert", "resnet50", "frames", "openface"])
def test_the_name_of_a_built_in_feature_is_taken(name: str) -> None:
    with pytest.raises(ValidationError, match=naming(name, "another")):
        ExtractorsSettings(embed=[TEXT | {"name": name}])


@pytest.mark.parametrize("name", ["features", "clips", "train", "vision", "words", "sentence", "label_x", "com1"])
def test_a_word_with_another_meaning_is_no_name(name: str) -> None:
    with pytest.raises(ValidationError, match="the word has another meaning"):
        ExtractorsSettings(embed=[TEXT | {"name": name}])


def test_two_sections_of_one_name_are_an_error() -> None:
    with pytest.raises(ValidationError, match="name = 'tiny' stands twice"):
        ExtractorsSettings(embed=[TEXT, TEXT])


def test_the_models_are_extracted_where_nobody_says_which_features() -> None:
    assert ExtractorsSettings(embed=[TEXT]).features[-2:] == ("sbert", "tiny")
    assert ExtractorsSettings(embed=[TEXT], features=("frames",)).features == ("frames",)
    with pytest.raises(ValidationError, match=naming("'tiney'", "'tiny'")):
        ExtractorsSettings(embed=[TEXT], features=("tiney",))


def test_a_configuration_names_folders_beside_itself_and_several_sections(tmp_path: Path, bert: Path) -> None:
    (tmp_path / "beside").symlink_to(bert)
    lines = ['[[embed]]\nname = "a"\nkind = "text"\nsource = "path:beside"\npool = "mean"\n']
    lines += [f'[[embed]]\nname = "b"\nkind = "text"\nsource = "path:{bert}"\npool = "cls"\nlayer = [1, 2]\n']
    (tmp_path / "c.toml").write_text("".join(lines))
    settings = load_settings(tmp_path / "c.toml")
    extractors = build_extractors(settings, "")
    assert [extractors[name].spec.arrays["values"].shape for name in ("a", "b")] == [(16,), (32,)]
    again = pickle.loads(pickle.dumps(settings.resolved()))
    assert again.section("a").planned == find_model(settings.section("a")).digest
    (tmp_path / "c.toml").write_text(lines[0] + "layers = 3\n")
    with pytest.raises(SettingsError, match=naming("layers", "such")):
        load_settings(tmp_path / "c.toml")


# --- which models are loaded -----------------------------------------------------------------------------------------


def broken(folder: Path, what: str) -> Path:
    """A folder in which one thing is not as it should be."""
    folder.mkdir()
    config: dict[str, Any] = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 3}
    (folder / "model.safetensors").write_bytes(b"weights")
    if what == "remote code":
        config["auto_map"] = {"AutoModel": "theirs.Model"}
    if what == "code of a part":
        (folder / "modules.json").write_text(json.dumps([{"type": "theirs.Part", "path": ""}]))
    if what == "an adapter":
        (folder / "adapter_config.json").write_text("{}")
    (folder / "config.json").write_text("[1" if what == "no JSON" else json.dumps(config))
    if what == "no configuration":
        (folder / "config.json").unlink()
    if what in ("no weights", "a part is missing"):
        (folder / "model.safetensors").unlink()
    if what == "a part is missing":
        parts = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(parts))
    return folder


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("remote code", r"wants code of its own \(auto_map in config.json\); that is never run here"),
        ("code of a part", r"wants code of its own \('theirs.Part' in modules.json\)"),
        ("an adapter", "is an adapter of another model"),
        ("no JSON", r"config.json of .* cannot be read \(JSONDecodeError\)"),
        ("no configuration", "has no config.json"),
        ("no weights", "has neither model.safetensors nor pytorch_model.bin"),
        ("a part is missing", "lacks model-00001-of-00002.safetensors"),
    ],
)
def test_a_folder_that_is_no_model_is_refused_before_any_work(tmp_path: Path, what: str, why: str) -> None:
    settings = ExtractorsSettings(embed=[of_folder(broken(tmp_path / "m", what))])
    (told,) = missing_tools(settings, ("tiny",))
    assert missing(told, "[[embed]]", "extracted") == []
    with pytest.raises(ExtractionError, match=why):
        find_model(settings.embed[0])


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExtractionError, match="is not a folder"):
        find_model(section(source=f"path:{tmp_path / 'none'}"))


class Payload:
    """What a pickle can do that is no weights."""

    def __init__(self, touched: Path) -> None:
        self.touched = touched

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.touched,)


def test_a_pickle_that_runs_something_is_not_run(study: Path, bert: Path, tmp_path: Path) -> None:
    import torch

    folder, touched = tmp_path / "m", tmp_path / "touched"
    folder.mkdir()
    for path in bert.iterdir():
        if path.name != "model.safetensors":
            (folder / path.name).write_bytes(path.read_bytes())
    torch.save({"weight": Payload(touched)}, folder / "pytorch_model.bin")
    _, outcomes = extract_session(study, tmp_path / "f", "tiny", embed=[of_folder(folder)])
    assert outcomes["tiny"].status == "failed"
    assert "cannot be loaded" in outcomes["tiny"].reason
    assert not touched.exists()
    torch.load(folder / "pytorch_model.bin", weights_only=False)
    assert touched.exists()


def test_weights_of_torch_are_loaded_as_weights_only(study: Path, bert: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    folder = tmp_path / "m"
    folder.mkdir()
    for path in bert.iterdir():
        if path.name != "model.safetensors":
            (folder / path.name).write_bytes(path.read_bytes())
    torch.save(load_file(bert / "model.safetensors"), folder / "pytorch_model.bin")
    models = [of_folder(folder, name="a"), of_folder(bert, name="b")]
    store, _ = extract_session(study, tmp_path / "f", "a", "b", embed=models)
    np.testing.assert_array_equal(store.read("s", "a"), store.read("s", "b"))


def test_a_package_that_is_missing_is_told_with_the_line_that_installs_it(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PACKAGES, Origin.PATH, "no_such_package")
    (told,) = missing_tools(ExtractorsSettings(embed=[of_folder(bert)]), ("tiny",))
    assert f"needs the package no_such_package: {install_line('embed')}" in told


# --- fingerprints ----------------------------------------------------------------------------------------------------


def fingerprint(study: Path, root: Path, **model: Any) -> str:
    settings = ExtractorsSettings(embed=[model])
    plan = plan_extraction(load_study(study), root, settings, Selection(only=("tiny",)))
    source = next(work.source for work in plan.units if "tiny" in work.features)
    return build_extractors(settings, "s")["tiny"].fingerprint(source).digest


def test_a_models_folder_is_read_once_whatever_is_asked_of_it(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every session asks for the specification and the digests, and a study may have a hundred thousand sessions."""
    monkeypatch.setattr(digests, "_SETTLED_NS", 0)  # digests of new files are kept as well
    folder = make_sentence_model(tmp_path / "sentences", dense=5)
    settings = ExtractorsSettings(embed=[of_folder(folder, pool="model")])
    plan = plan_extraction(load_study(study), tmp_path / "features", settings, Selection(only=("tiny",)))
    source = next(unit.source for unit in plan.units if "tiny" in unit.features)
    build_extractors(settings, "s")["tiny"].models()
    extractor = build_extractors(settings, "s")["tiny"]
    with files_opened() as opened:
        extractor.check_tool()
        extractor.fingerprint(source)
        extractor.models()
    read = below(opened, folder)
    assert read.pop("config.json") == 3  # the model's, and those of its two parts that have one
    assert set(read.values()) == {1}
    assert set(read) == {"modules.json", "README.md"}


def test_what_decides_values_is_in_the_fingerprint_and_nothing_else(study: Path, bert: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / bert.name
    moved.mkdir(parents=True)
    for path in bert.iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    root = tmp_path / "f"
    first = fingerprint(study, root, **of_folder(bert))
    assert first == fingerprint(study, root, **of_folder(moved, batch_size=3))
    others = ({"pool": "cls"}, {"layer": 1}, {"precision": "bfloat16"}, {"prompt": "query: "}, {"max_pieces": 9})
    found = {fingerprint(study, root, **of_folder(bert, **other)) for other in others}
    assert len(found | {first}) == 1 + len(others)
    config = json.loads((moved / "config.json").read_text())
    (moved / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 1e-3}))
    assert fingerprint(study, root, **of_folder(moved)) != first


def test_the_revision_is_in_the_fingerprint(
    study: Path, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commits may have the same files, but who reads the store has to be told the one that it is of."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshots = tmp_path / "models--somebody--tiny/snapshots"
    snapshots.mkdir(parents=True)
    for commit in (COMMIT, COMMIT[::-1]):
        (snapshots / commit).symlink_to(bert)
    found = {fingerprint(study, tmp_path / "f", **HUB | {"revision": commit}) for commit in (COMMIT, COMMIT[::-1])}
    assert len(found) == 2


def test_the_parts_of_a_model_of_sentences_are_in_the_fingerprint(study: Path, tmp_path: Path) -> None:
    folder = make_sentence_model(tmp_path / "m", dense=5)
    section = {"name": "tiny", "kind": "text", "source": f"path:{folder}"}
    found = {fingerprint(study, tmp_path / "f", **section)}
    for name in ("1_Pooling/config.json", "2_Dense/model.safetensors"):
        (folder / name).write_bytes((folder / name).read_bytes() + b" ")
        found.add(fingerprint(study, tmp_path / "f", **section))
    assert len(found) == 3


def test_a_model_that_changes_between_planning_and_work_is_an_error(study: Path, bert: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    for path in bert.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    settings = ExtractorsSettings(embed=[of_folder(folder)])
    plan = plan_extraction(load_study(study), tmp_path / "f", settings, Selection(only=("tiny",)))
    (folder / "tokenizer_config.json").write_text((folder / "tokenizer_config.json").read_text() + "\n")
    outcomes = {outcome.feature: outcome for work in plan.units for outcome in extract(work)}
    assert outcomes["frames"].status == "done"
    assert outcomes["tiny"].status == "failed"
    assert missing(outcomes["tiny"].reason, "changed", "planned") == []
    assert run(study, tmp_path / "f", Selection(only=("tiny",)), embed=[of_folder(folder)])["s/tiny"].status == "done"


def test_a_model_that_changes_during_the_work_is_not_stored(
    study: Path, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    for path in bert.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    whole = TextEmbedding.extract

    def changing(self: TextEmbedding, *args: Any) -> None:
        whole(self, *args)
        (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")

    monkeypatch.setattr(TextEmbedding, "extract", changing)
    store, outcomes = extract_session(study, tmp_path / "f", "tiny", embed=[of_folder(folder)])
    assert "the model's files changed meanwhile" in outcomes["tiny"].reason
    assert not store.has("s", "tiny")


def test_what_is_up_to_date_is_not_extracted_again(study: Path, bert: Path, tmp_path: Path) -> None:
    for skipped in (False, True):
        outcomes = run(study, tmp_path / "f", Selection(only=("tiny",)), embed=[of_folder(bert)])
        assert (outcomes["s/tiny"].status, outcomes["s/tiny"].skipped) == ("done", skipped)
    with pytest.raises(SelectionError, match=naming("'tinny'", "'tiny'")):
        run(study, tmp_path / "f", Selection(only=("tinny",)), embed=[of_folder(bert)])


# --- the hub, torchvision --------------------------------------------------------------------------------------------


def test_a_model_in_the_hubs_cache_is_found_and_one_that_is_not_names_the_command(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    settings = TextSettings.model_validate(HUB)
    command = f"'storyframes models fetch hf:somebody/tiny@{COMMIT}' gets it"
    with pytest.raises(ExtractionError, match=f"is not on this machine; {command}"):
        find_model(settings)
    snapshots = tmp_path / "hub/models--somebody--tiny/snapshots"
    snapshots.mkdir(parents=True)
    (snapshots / COMMIT).symlink_to(bert)
    model = find_model(settings)
    assert (model.revision, model.name, len(model.digests) > 2) == (COMMIT, "somebody/tiny", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "nowhere"))
    assert find_model(settings) == model
    with pytest.raises(ExtractionError, match=f"here is {COMMIT}"):
        find_model(settings.model_copy(update={"revision": COMMIT[::-1]}))


@pytest.mark.slow
def test_models_are_fetched_from_the_hub(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bert / "README.md").write_text("---\nlanguage: en\nlicense: mit\n---\n# Tiny\n")
    (tmp_path / "c.toml").write_text(
        f'features = ["frames", "tiny"]\n[[embed]]\nname = "tiny"\nkind = "text"\nsource = "hf:somebody/tiny"\n'
        f'revision = "{COMMIT}"\npool = "mean"\n'
    )
    home = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": ""}
    with hub_server({"somebody/tiny": bert, "somebody/gated": bert}, gated=("somebody/gated",)) as (url, asked):
        online = home | {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0"}
        by_name = storyframes("models", "fetch", "hf:somebody/tiny", "hf:somebody/gated", environment=online)
        assert (by_name.returncode, "is gated: accept its terms" in by_name.stderr) == (1, True), by_name.stderr
        assert missing(by_name.stdout, '"hf:somebody/tiny"', COMMIT) == []
        assert any(path.endswith("/model.safetensors") for path in asked)
        absent = storyframes("models", "fetch", "hf:nobody/none", environment=online)
        assert (absent.returncode, "the hub has no model 'nobody/none'" in absent.stderr) == (1, True), absent.stderr
    offline = home | {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "1"}
    everything = storyframes("models", "fetch", "--config", tmp_path / "c.toml", environment=offline)
    assert everything.returncode == 0, everything.stderr
    assert COMMIT in everything.stdout
    monkeypatch.setenv("HF_HOME", home["HF_HOME"])
    assert find_model(TextSettings.model_validate(HUB)).license == "mit"


def test_a_command_that_fetches_nothing_is_a_wrong_call() -> None:
    assert CliRunner().invoke(app, ["models", "fetch"]).exit_code == 2
    assert CliRunner().invoke(app, ["models", "fetch", "path:somewhere"]).exit_code == 2


def test_of_a_repository_one_format_of_weights_is_fetched() -> None:
    shared = ["config.json", "tokenizer.json", "vocab.txt", "spiece.model", "1_Pooling/config.json", "README.md"]
    never = [
        "onnx/model.onnx",
        "tf_model.h5",
        "flax_model.msgpack",
        "train.py",
        "openvino/config.json",
        "x.safetensors",
    ]
    both = [*shared, *never, "model.safetensors", "pytorch_model.bin"]
    assert files_to_fetch(both) == sorted([*shared, "model.safetensors"])
    parts = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    assert files_to_fetch([*shared, *parts]) == sorted([*shared, *parts])
    assert "pytorch_model.bin" in files_to_fetch([*shared, *never, "pytorch_model.bin"])
    assert "model.bin" in files_to_fetch([*shared, *never, "model.bin"])
    with pytest.raises(ExtractionError, match="has neither"):
        files_to_fetch([*shared, *never])


def test_torchvisions_weights_are_those_that_torchvision_names() -> None:
    from tasks.models.libraries import import_torchvision

    import_torchvision()
    from torchvision.models import get_model_weights

    for model in ("resnet50", "vit_b_16", "convnext_tiny", "efficientnet_b0"):
        for weights in get_model_weights(model):
            assert published_weights(model, weights.name).url == weights.url
    with pytest.raises(ExtractionError, match=naming("'V9'", "IMAGENET1K_V1", "IMAGENET1K_V2")):
        published_weights("resnet50", "V9")
    with pytest.raises(ExtractionError, match="torchvision has no model 'resnet51'"):
        published_weights("resnet51", "IMAGENET1K_V1")


def test_weights_of_torchvision_are_checked_by_the_beginning_of_their_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.extractors.embed import sources

    content = b"weights"
    (tmp_path / "w").write_bytes(content)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    for begins, good in ((hashlib.sha256(content).hexdigest()[:8], True), ("00000000", False)):
        link = tmp_path / f"tiny-{begins}.pth"
        link.write_bytes(content)
        published = sources.PublishedWeights("V1", link.as_uri())
        monkeypatch.setattr(sources, "published_weights", lambda *_, published=published: published)
        if good:
            assert fetch_source("torchvision:tiny@V1").path == published.path
        else:
            with pytest.raises(ExtractionError, match="was published: nothing was kept"):
                fetch_source("torchvision:tiny@V1")


# --- looking ---------------------------------------------------------------------------------------------------------


def test_a_section_states_its_tolerance(study: Path, bert: Path, tmp_path: Path) -> None:
    store, _ = extract_session(study, tmp_path / "f", "tiny", embed=[of_folder(bert)])
    assert store.attributes("s", "tiny")["tolerance"] == {"*": [1e-3, 1e-3]}


def test_every_command_shows_a_section_like_any_feature(study: Path, bert: Path, tmp_path: Path) -> None:
    root, config = tmp_path / "f", tmp_path / "c.toml"
    extract_session(study, root, "tiny", embed=[of_folder(bert)])
    config.write_text(
        f'features = ["tiny"]\n[[embed]]\nname = "tiny"\nkind = "text"\nsource = "path:{bert}"\npool = "mean"\n'
    )

    def shown(*arguments: object) -> str:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "300"})
        assert result.exit_code == 0, result.output
        return result.output

    catalogue.compact(local(root))
    assert "tiny" in shown("status", root)
    assert "tiny" in shown("show", root, "s")
    (row,) = [line for line in shown("extractors", "list", "--config", config).splitlines() if "│ tiny" in line]
    assert "transcript" in row
    assert "yes" in row
    (row,) = [
        line for line in shown("models", "list", "--config", config).splitlines() if "an [[embed]] section" in line
    ]
    assert "not stated" in row or "mit" in row
    assert "of memory in float32" in row
    assert TextEmbedding(section(source=f"path:{bert}", pool="mean"), CommonSettings()).is_private


def test_a_deployments_form_takes_the_name_of_a_section() -> None:
    import re

    schema = ExtractionRequest.model_json_schema()["properties"]["only"]["anyOf"][0]["items"]
    assert all(re.search(schema["pattern"], name) for name in ("tiny", "label.valence", *registered()))
    assert not any(re.search(schema["pattern"], name) for name in ("Tiny", "tiny dancer", "label."))


@pytest.mark.parametrize("part", ["../other", "/etc", "1_Pooling/../../other"])
def test_a_part_outside_of_the_model_s_folder_is_refused(tmp_path: Path, part: str) -> None:
    folder = broken(tmp_path / "m", "")
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Pooling", "path": part}]))
    with pytest.raises(ExtractionError, match=part):
        find_model(section(**of_folder(folder)))
