"""A sound of voices, hiss and silence, and a session of it: openSMILE has no value of much of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from storyframes.clips.window_spec import WindowSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from support.media.recordings import FPS, write_recording
from support.stores import local
from support.studies import extract_session, make_study
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.extractors.opensmile.feature_sets import FeatureSet
from tasks.study.load import load_study

RATE = 16_000


def spoken() -> np.ndarray:
    """(n,) int16: silence, a low voice, hiss, a high voice, silence, faint hiss, a short voice: 4.4 s."""
    noise = np.random.default_rng(1)

    def voice(seconds: float, pitch_hz: float) -> np.ndarray:
        time = np.arange(round(seconds * RATE)) / RATE
        phase = 2 * np.pi * np.cumsum(pitch_hz * (1 + 0.03 * np.sin(2 * np.pi * 3 * time))) / RATE
        sound = sum(np.sin(k * phase + k) / k for k in range(1, 15)) * (1 + 0.05 * noise.standard_normal(len(time)))
        return 0.2 * sound / np.abs(sound).max()

    silence, hiss = np.zeros(round(0.7 * RATE)), 0.05 * noise.standard_normal(round(0.7 * RATE))
    faint = 1e-4 * noise.standard_normal(RATE // 2)
    parts = [silence, voice(0.8, 120), hiss, voice(0.5, 230), silence, faint, voice(0.5, 180)]
    return (np.concatenate(parts) * 32767).astype(np.int16)


def extract_spoken(folder: Path, feature_set: FeatureSet) -> FeatureStore:
    """A store with one session of it, its features ``frames`` and ``opensmile``, and clips of 25 frames."""
    sound = spoken()
    frames = len(sound) * FPS // RATE
    study = make_study(folder, video="v.mkv")
    (study / "phases.csv").write_text(f"session_id,phase,start_s,end_s\ns,talk,0,{frames / FPS}\n")
    write_recording(folder / "v.mkv", frames, sound[:, None])
    extract_session(study, folder / "features", "frames", "opensmile", opensmile={"feature_set": feature_set})
    catalogue.compact(local(folder / "features"))
    index = build_clip_index(load_study(study), WindowSpec(window=25, stride=10), FeatureStore(folder / "features"))
    write_clip_index(index.clips, local(folder / "features"))
    return FeatureStore(folder / "features")
