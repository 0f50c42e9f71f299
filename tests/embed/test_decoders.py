"""Decoder language models as encoders of texts: the last piece or the mean, whichever side their tokenizer pads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.messages import naming
from support.models.tiny_text_models import DEPTH, WIDTH, make_model, make_tokenizer

from tasks.extractors.base import CommonSettings, ExtractionError
from tasks.extractors.embed import local_model
from tasks.extractors.settings import Device, Precision
from tasks.extractors.text.encoder import PooledEncoder, open_encoder
from tasks.extractors.text.extractor import TextEmbedding
from tasks.extractors.text.model import TextSettings
from tasks.models.libraries import import_torchvision

TEXTS = ["the garden was full of bread", "rain", "he told me that failed until rain", "we walked"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """A tiny model with its language head for each family, and for each side on which its tokenizer pads."""
    import_torchvision()
    from transformers import AutoConfig, AutoModelForCausalLM

    made = {}
    for family in ("llama", "qwen2"):
        tokenizer = make_tokenizer("bert")
        sizes = {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": 2, "intermediate_size": 32}
        sizes |= {"num_key_value_heads": 1, "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes, initializer_range=0.5))
        for side in ("left", "right"):
            folder = tmp_path_factory.mktemp("models") / f"{family}_{side}"
            tokenizer.padding_side = side
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            made[family, side] = folder
    return made


def section(folder: Path, **more: object) -> TextSettings:
    return TextSettings.model_validate({"name": "tiny", "kind": "text", "source": f"path:{folder}", **more})


def embed(settings: TextSettings) -> np.ndarray:
    return open_encoder(TextEmbedding(settings, CommonSettings()).model, settings).embed_whole(TEXTS, "story")[0]


@torch.inference_mode()
def by_hand(folder: Path, pool: str, layer: int) -> np.ndarray:
    """The same by transformers alone, one text at a time."""
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer, rows = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder), []
    for text in TEXTS:
        states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[layer][0]
        rows.append((states[-1] if pool == "last" else states.mean(dim=0)).numpy())
    return np.stack(rows)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("pool", "layer"), [("last", -1), ("mean", -1), ("last", 1)])
def test_a_decoder_gives_what_transformers_gives(
    folders: dict[tuple[str, str], Path], family: str, side: str, pool: str, layer: int
) -> None:
    folder = folders[family, side]
    expected = by_hand(folder, pool, layer)
    assert np.abs(expected[0] - expected[2]).max() > 0.1
    np.testing.assert_allclose(embed(section(folder, pool=pool, layer=layer)), expected, atol=1e-4, rtol=1e-4)


def test_the_first_piece_of_a_decoder_is_refused(folders: dict[tuple[str, str], Path], tmp_path: Path) -> None:
    """It is the same for every text; and so is that of every model before its first block."""
    with pytest.raises(ExtractionError, match=naming("tiny", "pool = 'cls'", "'last'", "'mean'")):
        embed(section(folders["llama", "right"], pool="cls"))
    with pytest.raises(ExtractionError, match=naming("tiny", "pool = 'cls'")):
        embed(section(make_model(tmp_path / "bert", "bert"), pool="cls", layer=0))


def test_a_decoder_keeps_no_keys_and_values(folders: dict[tuple[str, str], Path]) -> None:
    settings = section(folders["llama", "right"], pool="last")
    opened = open_encoder(TextEmbedding(settings, CommonSettings()).model, settings)
    assert isinstance(opened, PooledEncoder)
    assert opened._model(torch.tensor([[4, 5]])).past_key_values is None


def test_a_model_that_does_not_fit_is_refused_with_both_numbers(
    folders: dict[tuple[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by the overview of extractors, before anything is loaded."""
    settings = section(folders["llama", "right"], pool="last")
    extractor = TextEmbedding(settings, CommonSettings())
    needed = local_model.memory_needed(extractor.model, settings.precision)
    monkeypatch.setattr(local_model, "free_memory", lambda device: needed)
    assert not extractor.condition
    monkeypatch.setattr(local_model, "free_memory", lambda device: needed - 1)
    with pytest.raises(ExtractionError, match=naming("tiny", "GB", "bfloat16")) as refused:
        open_encoder(extractor.model, settings)
    assert extractor.condition == str(refused.value)
    halved = section(folders["llama", "right"], pool="last", precision="bfloat16")
    local_model.check_memory(extractor.model, halved)
    monkeypatch.setattr(local_model, "free_memory", lambda device: 0)
    assert "bfloat16" not in extractor.condition  # half of it would not fit either
    with pytest.raises(ExtractionError, match=naming("tiny", "bfloat16", "smaller model")):
        local_model.check_memory(extractor.model, halved)


def test_memory_is_that_of_the_weights_in_the_section_s_precision(
    folders: dict[tuple[str, str], Path], tmp_path: Path
) -> None:
    """Whatever precision and format the files have."""
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(folders["qwen2", "left"], dtype=torch.bfloat16)
    numbers = sum(tensor.numel() for tensor in loaded.state_dict().values())
    loaded.save_pretrained(tmp_path / "halves")
    (tmp_path / "pickled").mkdir()
    torch.save(loaded.state_dict(), tmp_path / "pickled/pytorch_model.bin")
    (tmp_path / "pickled/config.json").write_text((tmp_path / "halves/config.json").read_text())
    whole, halves, pickled = (
        TextEmbedding(section(folder, pool="last"), CommonSettings()).model
        for folder in (folders["qwen2", "left"], tmp_path / "halves", tmp_path / "pickled")
    )
    for model in (whole, halves):
        assert local_model.memory_needed(model, Precision.FLOAT32) == 4 * numbers
        assert local_model.memory_needed(model, Precision.FLOAT16) == 2 * numbers
    assert 4 * numbers <= local_model.memory_needed(pickled, Precision.FLOAT32) < 4 * numbers + 50_000


def test_the_limit_of_a_control_group_is_less_than_the_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_machine = local_model.free_memory(Device.CPU)
    assert of_machine is not None
    said = {"max": "9000000", "current": "5000000", "stat": "anon 4000000\nactive_file 700000\ninactive_file 300000\n"}
    for name, content in said.items():
        (tmp_path / f"memory.{name}").write_text(content)
    monkeypatch.setattr(local_model, "_GROUPS", tmp_path)
    assert local_model.free_memory(Device.CPU) == 5_000_000
    (tmp_path / "memory.max").write_text("max")
    assert (local_model.free_memory(Device.CPU) or 0) > 5_000_000
