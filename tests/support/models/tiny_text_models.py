"""Models of texts of some kilobytes, with random weights, saved as their authors save theirs."""

from __future__ import annotations

import json
import string
from pathlib import Path

from tasks.models.libraries import import_torchvision

LIMIT = 24  # word pieces that they read
WIDTH, DEPTH = 16, 3
WORDS = "the garden was full of bread and he told me that failed until rain river we walked".split()


def make_model(folder: Path, family: str, *, std: float = 0.5) -> Path:
    """A tiny encoder with its tokenizer: bert, distilbert, roberta, xlm-roberta, mpnet, t5, convbert, data2vec-text."""
    import_torchvision()
    import torch
    from transformers import AutoConfig, AutoModel

    sizes = {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": 2, "intermediate_size": 32}
    if family == "distilbert":
        sizes = {"dim": WIDTH, "n_layers": DEPTH, "n_heads": 2, "hidden_dim": 32}
    elif family == "t5":
        sizes = {"d_model": WIDTH, "num_layers": DEPTH, "num_heads": 2, "d_kv": 8, "d_ff": 32}
    elif family == "convbert":
        sizes |= {"embedding_size": WIDTH, "head_ratio": 1}
    tokenizer = make_tokenizer(family)
    offset = 2 if family in ("roberta", "xlm-roberta", "mpnet", "data2vec-text") else 0  # behind the padding
    if family != "t5":
        sizes |= {"max_position_embeddings": LIMIT + offset}
    torch.manual_seed(len(family))
    numbers = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "initializer_range": std}
    model = AutoModel.from_config(AutoConfig.for_model(family, **sizes, **numbers))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer(family: str):  # type: ignore[no-untyped-def]
    """A fast tokenizer of the family's kind: word pieces, bytes, or a vocabulary of many scripts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    if family in ("roberta", "data2vec-text"):
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġw", "Ġwe", "Ġwa"]
        merges = [("Ġ", "w"), ("Ġw", "e"), ("Ġw", "a")]
        core = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges))
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        first, last, unknown = "<s>", "</s>", "<unk>"
    elif family in ("xlm-roberta", "t5"):
        scores = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -5.0)]
        scores += [(f"▁{word}", -3.0) for word in WORDS] + [(one, -9.0) for one in string.ascii_letters + "ßüяд雨"]
        core = Tokenizer(models.Unigram(scores, unk_id=3))
        core.pre_tokenizer = pre_tokenizers.Metaspace()
        first, last, unknown = "<s>", "</s>", "<unk>"
    else:
        pieces = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", *WORDS, *string.ascii_letters]
        pieces += [f"##{one}" for one in string.ascii_letters]
        vocabulary = {piece: number for number, piece in enumerate(pieces)}
        core = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        first, last, unknown = "[CLS]", "[SEP]", "[UNK]"
    marks = [(mark, core.token_to_id(mark)) for mark in (first, last)]
    single = f"$A {last}" if family == "t5" else f"{first} $A {last}"
    core.post_processor = processors.TemplateProcessing(single=single, special_tokens=marks)
    padding = "[PAD]" if core.token_to_id("[PAD]") is not None else "<pad>"
    return PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token=unknown, pad_token=padding, bos_token=first, eos_token=last
    )


def make_sentence_model(folder: Path, *, dense: int = 0) -> Path:
    """A tiny bert with a pooling of its own (first mark and mean side by side), and maybe a dense layer."""
    import_torchvision()
    import torch
    from safetensors.torch import save_file

    make_model(folder, "bert")
    parts = [("", "Transformer"), ("1_Pooling", "Pooling")] + ([("2_Dense", "Dense")] if dense else [])
    for place, kind in parts[1:]:
        (folder / place).mkdir()
        if kind == "Pooling":
            ways = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
            config: dict[str, object] = {"word_embedding_dimension": WIDTH, **ways}
        else:
            config = {"in_features": 2 * WIDTH, "out_features": dense, "bias": False}
            config |= {"activation_function": "torch.nn.modules.linear.Identity"}
            save_file({"linear.weight": torch.eye(dense, 2 * WIDTH)}, folder / place / "model.safetensors")
        (folder / place / "config.json").write_text(json.dumps(config))
    listed = [
        {"idx": number, "name": str(number), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for number, (place, kind) in enumerate(parts)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LIMIT, "do_lower_case": False}))
    return folder
