"""Tiny models of sound, made from configurations with random weights, in folders as transformers saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tasks.models.libraries import import_torchvision

RATE = 16_000
WIDTH, DEPTH = 16, 2
WHISPER_WINDOW_S = 4
_SIZE = {
    "hidden_size": WIDTH,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "conv_dim": [8] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "vocab_size": 8,
}
_LAYER = {"feat_extract_norm": "layer", "do_stable_layer_norm": True}

STRIDED = ("wav2vec2", "hubert", "wavlm", "data2vec", "conformer", "unispeech_sat")
"""Whose front end sees a few hundredths of a second, and nothing else."""

GROUP = ("wav2vec2_group", "hubert_group", "wavlm_group")
"""With a normalisation over all that they are given at once."""

FAMILIES = (*STRIDED, *GROUP, "whisper")


def sound_model(folder: Path, family: str, *, do_normalize: bool = True, mixing: float = 0.2, **config: Any) -> Path:
    """A folder that transformers loads; ``mixing`` is how much its blocks add to what enters them."""
    import_torchvision()
    import transformers as t

    torch.manual_seed(0)
    kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "wav2vec2": (t.Wav2Vec2Config, t.Wav2Vec2Model, _LAYER),
        "hubert": (t.HubertConfig, t.HubertModel, _LAYER),
        "wavlm": (t.WavLMConfig, t.WavLMModel, _LAYER),
        "data2vec": (
            t.Data2VecAudioConfig,
            t.Data2VecAudioModel,
            {"num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 5},
        ),
        "conformer": (t.Wav2Vec2ConformerConfig, t.Wav2Vec2ConformerModel, {"feat_extract_norm": "layer"}),
        "unispeech_sat": (t.UniSpeechSatConfig, t.UniSpeechSatModel, _LAYER),
        "wav2vec2_group": (t.Wav2Vec2Config, t.Wav2Vec2Model, {}),
        "hubert_group": (t.HubertConfig, t.HubertModel, {}),
        "wavlm_group": (t.WavLMConfig, t.WavLMModel, {}),
    }
    if family == "whisper":
        whisper = t.WhisperConfig(
            d_model=WIDTH,
            encoder_layers=DEPTH,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            num_mel_bins=80,
            max_source_positions=50 * WHISPER_WINDOW_S,
            max_target_positions=8,
            vocab_size=16,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
        model: torch.nn.Module = t.WhisperModel(whisper)
        processor: Any = t.WhisperFeatureExtractor(chunk_length=WHISPER_WINDOW_S)
    else:
        configuration, network, options = kinds[family]
        model = network(configuration(**{**_SIZE, **options, **config}))
        processor = t.Wav2Vec2FeatureExtractor(do_normalize=do_normalize)
    _telling(model, mixing).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _telling(model: Any, mixing: float) -> Any:
    """Weights so large that sounds are told apart, and positions no louder than what is heard."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "pos" in name and "rel" not in name:
                parameter.mul_(0.05)
            elif name.endswith(
                ("conv1.weight", "conv2.weight")
            ):  # Whisper's: mostly of the middle, as drawn of anywhere
                parameter.normal_(0, 0.3, generator=generator)[..., ::2].mul_(0.2)
            elif parameter.ndim > 1 and ("layers" in name and "conv" not in name):
                parameter.normal_(0, mixing, generator=generator)
    return model.eval()
