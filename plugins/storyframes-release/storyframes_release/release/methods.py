"""How the features of a release were made, in sentences for a paper's section on methods, with what they cite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from storyframes import STORIES, FeatureName
from storyframes_release.release.provenance import ADOPTED, DERIVED, LEFT_OUT, UNTRAINED

_TOOLS = {
    "frames": ("the times of frames", "FFmpeg", ()),
    "openface": ("facial behaviour", "OpenFace 2", ("openface",)),
    "resnet50": ("embeddings of frames", "ResNet-50", ("resnet", "torchvision")),
    "dope": ("poses of body, hands and face", "DOPE", ("dope",)),
    "opensmile": ("acoustic descriptors", "openSMILE", ("opensmile",)),
    "glove": ("word vectors", "GloVe", ("glove",)),
    "sbert": ("sentence embeddings", "Sentence-BERT", ("sbert",)),
    "mediapipe": ("landmarks of face, body and hands", "MediaPipe", ("mediapipe",)),
    "pyfeat": ("facial expressions", "Py-Feat", ("pyfeat",)),
    "speaking": ("who speaks", "storyframes", ()),
}
"""By feature what it is, the tool that makes it, and the keys of what is cited for it."""
_GROUPS = {
    "action_units": "action units",
    "gaze": "gaze",
    "pose": "head pose",
    "landmarks_2d": "landmarks",
    "shape": "face shape",
    "eye_landmarks": "eye landmarks",
}
_LIBRARY = {"hf": "transformers", "timm": "timm", "torchvision": "torchvision", "path": "transformers"}
_ON_HUB = {"hf": "", "timm": "timm/"}
_ENTRY = re.compile(r"^@\w+\{(\w+),.*?^\}", re.MULTILINE | re.DOTALL)
_MINI_LM = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_SHOWN = 12  # digits of a digest; all of them are in the feature's provenance


def model_of(provenance: Mapping[str, Any]) -> str:
    """What a model of ``[[embed]]`` is called in public; "" for any other feature."""
    settings = provenance.get("settings", {})
    if "kind" not in settings:
        return ""
    name = settings.get("source", "a model whose name is not public")
    pool = f", pool {settings['pool']}" if "pool" in settings else ""
    return f"{name}, layer {' '.join(map(str, settings.get('layer', [-1])))}{pool}"


def methods(name: str, groups: Iterable[str], provenance: Mapping[str, Any]) -> tuple[str, set[str]]:
    """A sentence on how a feature was extracted, and the keys of what it cites.

    Args:
        name: of the feature in the release, ``openface`` or ``stories/sbert``.
        groups: its groups of columns that are released.
        provenance: as :func:`~storyframes_release.release.provenance.released_provenance` gives it.
    """
    feature = name.removeprefix(f"{STORIES}/")
    if ADOPTED in provenance:
        return f"`{feature}` was made elsewhere, by a program that is not recorded here: its authors know.", set()
    if DERIVED in provenance:
        return f"`{feature}` was computed from other features, in a way that is not recorded here.", set()
    settings, models = dict(provenance.get("settings", {})), provenance.get("models", {})
    what, tool, cited = _TOOLS.get(feature, (f"`{feature}`", "a plug-in", ()))
    if FeatureName(feature).is_label_curve:
        what, tool = f"the curve of ratings `{feature}`", "storyframes"
    if model := model_of(provenance):
        what, tool = f"embeddings of {settings.pop('kind')} (`{feature}`)", model
        origin, _, repository = settings.pop("source", "path:").partition(":")
        cited = (_LIBRARY[origin],)
        if origin in _ON_HUB:
            cited = (*cited, f"{_ON_HUB[origin]}{repository}@{settings.get('revision', '')}")
        settings = {key: value for key, value in settings.items() if key not in ("layer", "pool")}
    if feature == "openface":
        *others, last = [_GROUPS[group] for group in groups if group in _GROUPS] or [what]
        what = f"{', '.join(others)} and {last}" if others else last
        tool += " (its version is not recorded)" if settings.get("backend") == "csv" else ""
    if feature == "sbert" and models.get("model.safetensors") == _MINI_LM:
        tool = "Sentence-BERT all-MiniLM-L6-v2"
    if feature == "opensmile":
        signs = {"compare2016": "ComParE", "gemaps": "GeMAPS"}
        cited = (*cited, *(key for key, sign in signs.items() if sign in settings.get("feature_set", "")))
    if feature == "resnet50" and UNTRAINED in models.values():
        tool += f" with random weights, not those of {settings.pop('weights', 'ImageNet')}"
    versions = provenance.get("tools", {}) | provenance.get("libraries", {})
    tool = f"{tool} {versions.pop(tool.lower())}" if tool.lower() in versions else tool
    parts = [f"extractor {provenance['extractor']}"] if "extractor" in provenance else []
    parts += [f"{key} {value}" for key, value in settings.items() if value is not None]
    parts += [f"{key} {text if text == UNTRAINED else f'sha256 {text[:_SHOWN]}…'}" for key, text in models.items()]
    parts += [f"{library} {version}" for library, version in versions.items()]
    parts += [f"{provenance[LEFT_OUT]} settings that are not public"] if LEFT_OUT in provenance else []
    by, details = provenance.get("code", "an unknown version of storyframes"), "; ".join(parts) or "no details"
    cites = "".join(f" [@{_key(each)}]" for each in cited)
    return f"We extracted {what} with {tool}{cites}, in {by} ({details}).", {*cited}


def _key(cited: str) -> str:
    """The key of an entry; of a model of the hub, ``owner/name@revision``, made of its name."""
    return re.sub(r"[^A-Za-z0-9]+", "_", cited.partition("@")[0])


def bibtex(cited: Iterable[str]) -> str:
    """The entries of storyframes, of what is cited in ``references.bib``, and of models of the Hugging Face hub."""
    keys = {*cited, "storyframes"}
    text = files("storyframes_release.release").joinpath("references.bib").read_text(encoding="utf-8")
    entries = [entry[0] for entry in _ENTRY.finditer(text) if entry[1] in keys]
    for model in sorted(key for key in keys if "@" in key):
        name, _, revision = model.partition("@")
        title = name.replace("_", r"\_")  # which LaTeX takes for an index otherwise
        note = f",\n  note = {{revision {revision}}}" if revision else ""
        entries.append(
            f"@misc{{{_key(model)},\n  title = {{{title}}},\n"
            f"  howpublished = {{\\url{{https://huggingface.co/{name}}}}}{note}\n}}"
        )
    return "\n\n".join(entries)
