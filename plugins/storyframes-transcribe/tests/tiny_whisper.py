"""A model of Whisper of a few megabytes with random weights, as CTranslate2's own converter writes it."""

from __future__ import annotations

import json
from pathlib import Path

from tasks.models.libraries import import_torchvision

WORD = r"quokka\d+"
"""What its words look like: nobody says them, so that they can be looked for."""


def make_whisper(folder: Path, seed: int = 0) -> Path:
    """Write the model into ``folder``."""
    import_torchvision()  # without which transformers cannot be imported beside a CPU build of torch
    import ctranslate2
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    source = folder.with_name(f"{folder.name}-source")
    source.mkdir(parents=True)
    size = _write_tokenizer(source / "tokenizer.json")
    torch.manual_seed(seed)
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "d_model": 16}
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    tokens = dict.fromkeys(("eos_token_id", "bos_token_id", "pad_token_id"), 50257) | {"decoder_start_token_id": 50258}
    config = WhisperConfig(
        vocab_size=size, suppress_tokens=[], begin_suppress_tokens=[50257], **heads, **layers, **tokens
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config.alignment_heads = [[0, 0], [0, 1]]
    model.save_pretrained(source)
    (source / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    extractor = {"feature_size": 80, "feature_extractor_type": "WhisperFeatureExtractor"}
    (source / "preprocessor_config.json").write_text(json.dumps(extractor))
    copied = ["tokenizer.json", "preprocessor_config.json"]
    ctranslate2.converters.TransformersConverter(str(source), copy_files=copied).convert(str(folder))
    return folder


def _write_tokenizer(path: Path) -> int:
    """Whisper's layout of tokens, with 50,001 made-up words in the place of its own; returns how many there are."""
    from faster_whisper.tokenizer import _LANGUAGE_CODES
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*alphabet, *(f"Ġquokka{number}" for number in range(50257 - len(alphabet)))]
    tokenizer = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tasks = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
    special = ["endoftext", "startoftranscript", *[*_LANGUAGE_CODES][:99], *tasks]
    tokenizer.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in special])
    tokenizer.add_tokens([AddedToken(f"<|{number * 0.02:.2f}|>") for number in range(1501)])
    tokenizer.save(str(path))
    return int(tokenizer.get_vocab_size())
