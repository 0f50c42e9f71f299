"""What a release says of how its features were made, and the configuration that makes them again.

A store's provenance has paths, digests of recordings and texts of plug-ins, any of which may say whose values these
are. A release has only what is listed here: versions of known libraries, digests of models, and settings whose values
are numbers, switches or words of a known list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from storyframes import FEATURES, STORIES, FeatureName, FeatureStore
from storyframes_release.release.settings import ReleaseError

FEATURE_SETS = re.compile("ComParE_2016|GeMAPSv01[ab]|eGeMAPSv0[12][ab]?|emobase")
READ = "feature "
"""Begins the names of tools that are other features (tasks/extractors/base.py)."""
UNTRAINED = "untrained, seed 0"
LEFT_OUT = "settings_left_out"
"""The key for the number of settings that decide values and are not released."""
ADOPTED, DERIVED = "adopted", "derived"
"""The keys that are true of a feature made elsewhere, and of one computed from others: nothing extracts them."""
NOT_EXTRACTED = "made elsewhere, or computed from other features, so nothing extracts it: ask the authors"
_VERSION = re.compile(r"(\d{1,4}(\.\d{1,4}){0,4}((a|b|rc|\.post|\.dev)\d{1,3})?(\+(cpu|cu\d{2,3}))?|absent)")
_CODE = re.compile(rf"storyframes {_VERSION.pattern}")
_PLUG_IN = re.compile(rf"storyframes-(dyads|example|mediapipe|prosody|pyfeat|transcribe) {_VERSION.pattern}")
_DIGEST = re.compile(rf"[0-9a-f]{{64}}|{UNTRAINED}")
_LIBRARIES = frozenset(
    "av faster-whisper gensim numpy onnxruntime opencv-python-headless openvino opensmile pyarrow python "
    "praat-parselmouth sentence-transformers timm torch torchvision transformers zarr".split()
)
_MODEL = re.compile(
    r"resnet50|dope|vectors|image|program|requirements|FeatureExtraction|libraries|models|loads|weights"
    r"|(model|pytorch_model|open_clip_model)(-\d{5}-of-\d{5})?\.(safetensors|bin)|(\d_(Pooling|Dense|Normalize)/)?config\.json"
    r"|(config_sentence_transformers|generation_config|merges|modules|preprocessor_config|processor_config|sentence_bert_config"
    r"|sentencepiece\.bpe|special_tokens_map|spiece|tokenizer|tokenizer_config|added_tokens|vocab)\.(json|txt|model)"
)
_KNOWN = "|".join([*FEATURES, "mediapipe", "pyfeat"])
SOURCE = re.compile(r"(hf|timm|torchvision):[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_SECTIONS = {
    "allow_truncated": "recording",
    "hdr": "recording",
    "video_stream": "recording",
    "sound_stream": "recording",
    "allow_malformed_cues": "transcript",
    "speaker_prefixes": "transcript",
    "low_confidence": "transcript",
}
_OF_STUDY = frozenset("rate minimum maximum between longest_gap_s".split())  # constants, and what a study's tables say
_OF_PEOPLE = frozenset(["microphones", "person", "region", "speakers"])  # a study's tables say it, and no release
WORDS = {
    "activation": "softmax|sigmoid|none",
    "backend": "csv|binary|container",
    "binary": "/home/openface-build/build/bin/FeatureExtraction",  # in OpenFace's public image
    "between": "linear|hold|nearest",
    "crop": "frame|face",
    "dtype": "float16|float32",
    "engine": "openvino|torch",
    "feature_set": FEATURE_SETS.pattern,
    "hdr": "coded",
    "kind": "image|video|audio|text",
    "landmarks": _KNOWN,
    "mouth": f"|{_KNOWN}",
    "output": "hidden|scores",
    "people": "one|all",
    "pool": "model|cls|mean|last|none",
    "post_processing": "ppi|nms",
    "precision": "float32|tf32|bfloat16|float16",
    "prompt": "|query: |passage: ",
    "revision": "[0-9a-f]{40}|IMAGENET1K_[A-Z0-9_]+|DEFAULT",
    "roi_border": "zero|repeat",
    "source": SOURCE.pattern,
    "weights": "IMAGENET1K_V[12]",
}
"""Settings that are words, by their names, and the words that they may be."""
NUMBERS = frozenset(
    "batch_norm_eps chunk_s context_s demo_vectors every_n_frames layer margin max_pieces max_size min_size "
    "nms_min_score rival_score rpn_post_nms_top_n rpn_pre_nms_top_n static_image_mode stride_s voices "
    "window_s min_face_detection_confidence min_face_presence_confidence min_pose_detection_confidence "
    "min_pose_presence_confidence min_hand_landmarks_confidence "
    "by_speaker ceiling_hz floor_hz least_s least_voiced_s overlap_s speaking".split()
) | {*_SECTIONS, *_OF_STUDY}
"""Settings that are numbers, lists of them, or switches."""
_MOST = 1_000_000  # a larger number may be a date


def released_provenance(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a feature's provenance that says of nobody whose it is.

    Returns:
        ``code`` (this program's version), ``extractor`` (its version), ``settings`` that decide values, ``models`` (by
        file or part, the SHA-256), ``tools`` and ``libraries`` (by name, the version), ``reads`` (other features),
        ``settings_left_out`` (their number), ``adopted`` and ``derived``; each only where there is something. Of a
        released provenance it is all again.
    """
    settings, tools = _mapping(provenance, "settings"), _mapping(provenance, "tools")
    kept = {name: value for name, value in settings.items() if _may_be_told(name, value)}
    models = {name: text for name, text in _mapping(provenance, "models").items() if _DIGEST.fullmatch(str(text))}
    others = sorted((digest, name) for name, digest in models.items() if not _MODEL.fullmatch(name))
    extractor, code = provenance.get("extractor"), str(provenance.get("code"))
    plug_in = str(tools.get("plug-in"))
    before, reads = provenance.get(LEFT_OUT), provenance.get("reads")
    left_out = len(settings.keys() - kept.keys() - _OF_PEOPLE)
    released: dict[str, Any] = {
        "code": code if _CODE.fullmatch(code) else "",
        "extractor": extractor if type(extractor) is int and 0 < extractor < _MOST else 0,
        "settings": kept,
        "models": {name: models[name] for name in sorted(models) if _MODEL.fullmatch(name)}
        | {f"file_{number}": digest for number, (digest, _) in enumerate(others, 1)},
        "tools": _versions(tools) | ({"plug-in": plug_in} if _PLUG_IN.fullmatch(plug_in) else {}),
        "libraries": _versions(_mapping(provenance, "libraries")),
        "reads": sorted(
            name
            for name in (*FEATURES, "mediapipe", "pyfeat")
            if f"{READ}{name}" in tools or (isinstance(reads, list) and name in reads)
        ),
        LEFT_OUT: left_out + (before if type(before) is int and 0 < before < _MOST else 0),
        ADOPTED: isinstance(provenance.get("adopted"), dict) or provenance.get(ADOPTED) is True,
        DERIVED: isinstance(provenance.get("features"), dict) or provenance.get(DERIVED) is True,
    }
    return {name: value for name, value in released.items() if value}


def _mapping(provenance: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = provenance.get(name)
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else {}


def _versions(content: Mapping[str, Any]) -> dict[str, str]:
    known = ((name, str(text)) for name, text in content.items() if name in _LIBRARIES)
    return {name: text for name, text in known if _VERSION.fullmatch(text)}


def _may_be_told(name: str, value: Any) -> bool:
    if name not in WORDS and name not in NUMBERS:
        return False
    if isinstance(value, str):
        return re.fullmatch(WORDS.get(name, "(?!)"), value) is not None
    if isinstance(value, list) and name in WORDS:
        return all(isinstance(word, str) and re.fullmatch(WORDS[name], word) is not None for word in value)
    if isinstance(value, list):
        return all(type(number) is int and abs(number) < _MOST for number in value)
    return value is None or (isinstance(value, bool | int | float) and abs(value) < _MOST)


def configuration(store: FeatureStore, session_id: str = "") -> str:
    """The configuration that extracts the features of a release again, as TOML; versions and digests are comments.

    Args:
        store: the store in the release, ``FeatureStore("given/features")``.
        session_id: the session whose features it makes; all by default.

    Raises:
        ReleaseError: the release has no provenance, or its sessions were extracted with different settings.
        StoreError: it has no such session.
    """
    made: dict[str, tuple[str, dict[str, Any]]] = {}  # by section, an example and its settings
    notes: dict[str, dict[str, None]] = {}  # by feature, lines of comments in their order
    sessions = [*store.sessions, *([STORIES] if store.tracks(STORIES) else [])]
    if session_id and session_id not in sessions:
        store.session(session_id)  # raises an error that names the session
    for session in [session_id] if session_id else sessions:
        for feature in FeatureName.in_order(store.features(session)):
            # a release comes from others: what it says is compared with the list as well
            provenance = released_provenance(store.attributes(session, feature).get("provenance", {}))
            if FeatureName(feature).is_label_curve or not provenance:
                continue
            notes.setdefault(feature, {}).update(dict.fromkeys(_notes(provenance)))
            sections = {} if ADOPTED in provenance or DERIVED in provenance else _sections(feature, provenance)
            for section, settings in sections.items():
                example, before = made.setdefault(section, (f"{session}/{feature}", {**settings}))
                # of a feature's own section a setting that only one has differs too: the other has its default
                is_same = before == settings if section == feature else before | settings == settings | before
                if not is_same:
                    raise ReleaseError(
                        f"{example} and {session}/{feature} were extracted with different settings of [{section}]: "
                        "name one session with --session"
                    )
                before |= settings
    if not notes:
        raise ReleaseError(f"{store.storage.location} does not say how any feature was made: release it again")
    return "\n".join(_toml({section: settings for section, (_, settings) in made.items()}, notes)) + "\n"


def _sections(feature: str, provenance: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The sections of the configuration that a feature's settings are of, by their names; its own in any case."""
    sections: dict[str, dict[str, Any]] = {feature: {}}
    settings = dict(provenance.get("settings", {}))
    if "kind" in settings:  # [[embed]]
        settings = {"name": feature, "source": "path:FOLDER", **settings}
        if settings.get("crop") == "frame":  # these are of crop = "face" alone
            settings |= {"landmarks": None, "margin": None}
    if UNTRAINED in provenance.get("models", {}).values():
        settings["allow_untrained"] = True
    if settings.get("backend") == "container" and "image" in provenance.get("models", {}):
        settings["image"] = f"sha256:{provenance['models']['image']}"
    for name, value in settings.items():
        if value is not None and name not in _OF_STUDY:
            sections.setdefault(_SECTIONS.get(name, feature), {})[name] = value
    return sections


def _notes(provenance: Mapping[str, Any]) -> Iterator[str]:
    versions = provenance.get("tools", {}) | provenance.get("libraries", {})
    parts = [provenance.get("code", ""), f"extractor {provenance['extractor']}" if "extractor" in provenance else ""]
    yield ", ".join([*filter(None, parts), *(f"{name} {version}" for name, version in versions.items())])
    if ADOPTED in provenance or DERIVED in provenance:
        yield NOT_EXTRACTED
        return
    for name, digest in provenance.get("models", {}).items():
        yield f"{name}: {digest if digest == UNTRAINED else f'sha256 {digest}'}"
    if LEFT_OUT in provenance:
        yield f"{provenance[LEFT_OUT]} settings are not public: ask the authors"


def _toml(sections: Mapping[str, dict[str, Any]], notes: Mapping[str, Mapping[str, None]]) -> Iterator[str]:
    extracted = [name for name, lines in notes.items() if NOT_EXTRACTED not in lines]
    yield f"features = {json.dumps([name for name in extracted if 'kind' not in sections.get(name, {})])}\n"
    for section in [*(name for name in sections if name not in notes), *notes]:
        settings = sections.get(section, {})
        yield from (f"# {section}: {line}" for line in notes.get(section, ()))
        if settings:
            yield "[[embed]]" if "kind" in settings else f"[{section}]"
            yield from (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items())
        yield ""
