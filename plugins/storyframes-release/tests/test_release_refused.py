"""Releases that are refused before anything is written, because of a permission, a place or a name."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_store import PLUG_IN, SETTINGS, settings_of
from support.messages import naming
from support.stores import local, remember_sessions
from support.synthetic_features import FPS, StudySpec, publish, random_features, study_of, tables

from storyframes import FeatureStore
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES, STORY_FEATURES
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import seal, unseal
from storyframes_release.release.ids import Key
from storyframes_release.release.manifest import verify_release
from storyframes_release.release.released_features import Sensitive, released_feature, sensitivity
from storyframes_release.release.run import make_release
from storyframes_release.release.settings import ReleaseError, read_settings
from tasks.clip_index.index import build_clip_index, write_clip_index


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"allow_biometric__=__true": ""}, "'opensmile', as it is asked for, is biometric"),
        ({"allow_text_vectors__=__true": ""}, "'sbert' holds vectors of texts"),
        ({'sbert__=__"all"\n': 'glove = "all"\n'}, "'glove' holds vectors of single words"),
        ({'gesture__=__["wave",__"nod"]': 'gesture = "all"'}, "'gesture' is not built in"),
        ({'["wave",__"nod"]': '["annas_moves"]'}, "there is no column or group 'annas_moves'"),
        ({'["wave",__"nod"]': '["diary", "hugo"]'}, "there is no column or group 'hugo'"),
        ({'"action_units",': '"faces",'}, "there is no column or group 'faces'"),
        ({"label.valence": "label.watch"}, "'label.watch' has times beyond 1,000,000 s (time)"),
        ({"openface__=": "face ="}, "the store has no feature 'face'"),
        ({"openface__=": '"openface@greta-cam" ='}, "tracks are not released"),
        ({'"empathy",__"valence",__"mood"': '"anger"'}, "the clip index has no labels 'anger'"),
        ({'"empathy",__"valence",__"mood"': '"covered_greta-cam"'}, "the clip index has no labels 'covered_greta-cam'"),
        ({"people__who": "cleo-2024-04-01 who"}, "name 'cleo-2024-04-01', which is an id"),
        ({"stories.": "cleo-2024-04-01."}, "name 'cleo-2024-04-01', which is an id"),
        ({"people__who": "(CLEO-1) who"}, "name 'cleo-1', which is an id"),
        ({'"empathy",__"valence",__"mood"': '"told_to"'}, "the label 'told_to' names 'bertil-1', which is an id"),
        (
            {'"mood"]': '"sent_to"]'},
            "the label 'sent_to' names 'Dora-9', which is an id of the study and is not released",
        ),
        ({'"mood"]': '"told_of"]'}, "the label 'told_of' names 'withdrawn-1', which is an id"),
        ({"people__who": "(Withdrawn 1) who"}, "name 'withdrawn-1', which is an id"),
        ({"people__who": "Cleo-1 and dora-9 who"}, "name 'Dora-9', which is an id of the study and is not released"),
        ({"people__who": "cleo_1 who"}, "name 'cleo-1', which is an id of the study and is released under a new name"),
        ({"stories.": "hugos lost dog 3."}, "name 'hugos-lost-dog-3', which is an id"),
        ({"example.org/stories": "example.org/dora-9/"}, "name 'Dora-9', which is an id"),
        ({"CC-BY-4.0": "Dora-9"}, "name 'Dora-9', which is an id"),
        ({'"mood"]': '"effort_Bertil-1"]'}, "the label 'effort_Bertil-1' names 'bertil-1', which is an id"),
        ({'"valence",__"mood"': '"rater-hugo"'}, "'rater-hugo' has the id of the rater 'hugo' in its name"),
        ({"label.valence": "label.rater-hugo"}, "'label.rater-hugo' has the id of the rater 'hugo' in its name"),
        ({'authors__=__["The__authors"]': "authors = []"}, "'authors' is missing or empty"),
        ({'["action_units",__"gaze",__"success"]': "[]"}, "features.openface = [] names nothing: write a list of"),
        (
            {'["reflection"]': '["reflexion"]'},
            "the clip index has no phase 'reflexion'; it has reflection, story_share",
        ),
        ({"2026-11-22": "2026-02-30"}, "date = '2026-02-30' is not like 2026-11-22"),
        ({'"CC-BY-4.0"': '"CC BY 4.0"'}, "license = 'CC BY 4.0' is not an identifier of SPDX"),
        ({"license__=": "licence ="}, "there is no key 'licence'"),
        ({'version__=__"1.0"\n': ""}, "'version' is missing"),
        ({"allow_biometric__=__true": 'allow_biometric = "yes"'}, "allow_biometric = 'yes' is not true or false"),
        ({"2026-11-22": "today"}, "date = 'today' is not like 2026-11-22"),
        ({"withdrawn-2024-05-05": "nobody"}, "leave_out: there is no session 'nobody'"),
    ],
)
def test_what_is_refused_leaves_nothing(
    original: FeatureStore, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(ReleaseError, match=re.escape(said)):
        make_release(original, place / "out", settings_of(tmp_path, **changes))
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_empty_lists_are_none_and_a_raters_id_may_be_allowed(original: FeatureStore, tmp_path: Path) -> None:
    text = SETTINGS.partition("allow_text")[0].replace("allow_biometric = true", "allow_rater_ids = true")
    text = text.replace('["empathy", "valence", "mood"]', '["rater-hugo"]').replace('["reflection"]', "[]")
    text += '[features]\nframes = "all"\n"label.rater-hugo" = "all"\n'
    done = make_release(original, tmp_path / "named", settings_of(tmp_path, text))
    assert (done.labels, "label.rater-hugo" in done.features) == (("rater-hugo",), True)
    text = text.replace('["rater-hugo"]', "[]").replace('["withdrawn-2024-05-05"]', "[]")
    done = make_release(original, tmp_path / "out", settings_of(tmp_path, text))
    assert (done.labels, done.sessions) == ((), 4)
    index = FeatureStore(tmp_path / "out/features").clips()
    assert index.attrs["schemes"] == {}
    assert set(index["phase"]) == {"phase0001", "phase0002"}


def test_openface_without_a_permission_is_movements(original: FeatureStore, tmp_path: Path) -> None:
    text = SETTINGS.partition("opensmile")[0].replace("allow_biometric = true", "")
    make_release(original, tmp_path / "out", settings_of(tmp_path, text))
    with pytest.raises(ReleaseError, match=naming("'openface'", "biometric")):
        make_release(original, tmp_path / "more", settings_of(tmp_path, text.replace('"success"', '"p_0"')))


def test_places_that_cannot_be(original: FeatureStore, tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    inside = Path(original.storage.location)
    (tmp_path / "link").symlink_to("nowhere")
    for target, key, said in (
        (tmp_path / "link", None, "is there already"),
        (tmp_path / "out", tmp_path / "out/key.json", "would be inside the release"),
        (inside / "out", None, "is inside the feature store"),
        (tmp_path, None, "is there already"),
        (tmp_path / "out", tmp_path / "release.toml", "is no key of a release"),
    ):
        with pytest.raises(ReleaseError, match=said):
            make_release(original, target, settings, key)
    assert {path.name for path in tmp_path.iterdir()} == {"release.toml", "link"}


@pytest.mark.parametrize(
    ("provenance", "is_of_texts"),
    [
        ({"inputs": {"video": {}}, "private": False}, False),
        ({"inputs": {"video": {}}, "private": False, "tools": {"opencv": "4", "feature openface": "0a"}}, False),
        ({"inputs": {"video": {}}, "private": False, "tools": {"feature frames": "0a", "feature sbert": "0b"}}, True),
        ({"inputs": {"video": {}}, "private": False, "tools": {"feature summaries": "0c"}}, True),  # of a plug-in
        ({"inputs": {"audio": {}}, "private": True}, True),  # it recognises speech
        ({"inputs": {"audio": {}}}, True),  # of before this was kept: it may
        ({"inputs": {"audio": {}, "transcript": {}}, "private": False}, True),
        ({"inputs": {}, "private": False}, True),
        ({}, True),
    ],
)
def test_what_was_made_of_texts_needs_their_permission(provenance: dict[str, Any], is_of_texts: bool) -> None:
    needed = {Sensitive.BIOMETRIC, Sensitive.TEXT} if is_of_texts else {Sensitive.BIOMETRIC}
    assert sensitivity("gesture", PLUG_IN, False, {}, provenance) == needed


def test_phases_and_times_that_would_mislead(original: FeatureStore, tmp_path: Path) -> None:
    """A phase that bears the new name of another, and windows by the clock on the wall."""
    root = tmp_path / "features"
    shutil.copytree(original.storage.location, root)
    for column, change, said in (
        ("phase", lambda phase: phase.replace("reflection", "phase0001"), "is also the new name of another phase"),
        ("stop_s", lambda time: time + 1710666000, "windows beyond 1,000,000 s"),
    ):
        index = original.clips()
        index[column] = index[column].map(change)
        write_clip_index(index, local(root))
        phase = "phase0001" if column == "phase" else "reflection"
        settings = settings_of(tmp_path, SETTINGS.replace('["reflection"]', f'["{phase}"]'))
        with pytest.raises(ReleaseError, match=said):
            make_release(FeatureStore(root), tmp_path / "out", settings)
    index = original.clips()
    index.attrs["track"] = "greta-cam"
    write_clip_index(index, local(root))
    with pytest.raises(ReleaseError, match=naming("'greta-cam'", "released")):
        make_release(FeatureStore(root), tmp_path / "out", settings_of(tmp_path))
    assert not (tmp_path / "out").exists()


NEEDED = {"frames": set(), "glove": {Sensitive.NEVER}, "sbert": {Sensitive.TEXT}}
NEEDED |= {feature: {Sensitive.BIOMETRIC} for feature in ("openface", "resnet50", "dope", "opensmile")}


@pytest.mark.parametrize("feature", FEATURES)
def test_what_all_of_a_feature_needs(feature: str) -> None:
    spec = FEATURES[feature]
    columns = {name: array.columns for name, array in spec.arrays.items()}
    assert sensitivity(feature, spec, True, columns, {}) == NEEDED[feature]
    words = Axis.WORD in {array.axis for array in spec.arrays.values()}
    by_a_plug_in = sensitivity("gesture", spec, False, columns, {"inputs": {"video": {}}, "private": False})
    assert by_a_plug_in == (
        {Sensitive.NEVER} if words else {Sensitive.BIOMETRIC} | (NEEDED[feature] & {Sensitive.TEXT})
    )


@pytest.mark.parametrize("group", FEATURES["openface"].groups)
def test_what_a_group_of_openface_needs(group: str) -> None:
    spec = FEATURES["openface"]
    needed = sensitivity("openface", spec, True, {"values": spec.columns[spec.groups[group]]}, {})
    assert needed == (set() if group in ("bookkeeping", "gaze", "pose", "action_units") else {Sensitive.BIOMETRIC})


@pytest.mark.parametrize("feature", STORY_FEATURES)
def test_stories_need_the_permission_for_texts(feature: str) -> None:
    assert sensitivity(feature, STORY_FEATURES[feature], True, {}, {}) == {Sensitive.TEXT}


@pytest.mark.parametrize(
    ("axis", "made_of", "needed"),
    [
        (Axis.FRAME, "video", {Sensitive.BIOMETRIC}),  # expressions of a face
        (Axis.WINDOW, "video", {Sensitive.BIOMETRIC}),  # what somebody does
        (Axis.WINDOW, "audio", {Sensitive.BIOMETRIC}),  # emotion of a voice
        (Axis.UTTERANCE, "transcript", {Sensitive.BIOMETRIC, Sensitive.TEXT}),  # sentiment of a text
        (Axis.STORY, "stories", {Sensitive.BIOMETRIC, Sensitive.TEXT}),
    ],
)
def test_scores_of_heads_need_the_permissions_of_vectors(axis: Axis, made_of: str, needed: set[Sensitive]) -> None:
    scores = ArraySpec(axis, "float32", "scores", (2,), ("column",), columns=("happy", "sad"))
    spec = FeatureSpec("emotion", "scores", {"values": scores}, {"scores": slice(0, 2)})
    provenance = {"inputs": {made_of: {}}, "private": Sensitive.TEXT in needed}
    assert sensitivity("emotion", spec, False, {"values": ("happy",)}, provenance) == needed


def test_a_feature_that_only_has_the_name_of_a_built_in_one_is_not_known() -> None:
    """Another feature set of openSMILE, or whatever a store says is ``frames``."""
    frames, pictures = FEATURES["frames"], FEATURES["resnet50"]
    more = replace(frames, arrays=frames.arrays | pictures.arrays)
    other = replace(pictures, arrays={"values": replace(pictures.arrays["values"], dtype="float32")})
    assert released_feature("s1", "frames", frames, None).is_known
    for stored in (more, other):
        with pytest.raises(ReleaseError, match="is not built in"):
            released_feature("s1", stored.name, stored, None)


@pytest.mark.parametrize("array", ["start", "end"])
def test_utterances_by_the_clock_on_the_wall_are_refused(tmp_path: Path, array: str) -> None:
    root = tmp_path / "features"
    create_store(root)
    values = random_features(np.random.default_rng(0), 60)["sbert"]
    values[array] = np.concatenate([[np.nan], values[array][1:] + 1_710_666_000])
    publish(root, "s1", "sbert", values)
    catalogue.compact(local(root))
    remember_sessions(root, "s1")
    text = SETTINGS.partition("labels =")[0] + 'allow_text_vectors = true\n[features]\nsbert = "all"\n'
    with pytest.raises(ReleaseError, match=naming("'sbert'", "1,000,000 s", array)):
        make_release(FeatureStore(root), tmp_path / "out", settings_of(tmp_path, text))


def store_of_copies(
    root: Path, digests: dict[str, str], faces: dict[str, int], *, is_lost: bool = False
) -> FeatureStore:
    """Three participants, one in each split; by session which video it has, and which face. All hear one silence."""
    create_store(root)
    for session, digest in digests.items():
        face = random_features(np.random.default_rng(faces[session]), 60)["openface"]
        face["valid"][:] = not is_lost
        silence = random_features(np.random.default_rng(0), 60)["opensmile"]
        silence["values"][:] = 7
        for feature, arrays in (("openface", face), ("opensmile", silence)):
            with FeatureWriter(local(root), session, FEATURES[feature]) as out:
                for name, rows in arrays.items():
                    out.write(name, rows)
                out.publish(session, {"inputs": {"video": {"path": f"{session}.avi", "sha256": digest}}})
    catalogue.compact(local(root))
    remember_sessions(root, *digests)
    spec = WindowSpec(window=13, stride=5, fps=FPS, split_shares=(1 / 3, 1 / 3, 1 / 3))
    study = study_of(tables(StudySpec(sessions=3), list(digests)))
    write_clip_index(build_clip_index(study, spec, FeatureStore(root)).clips, local(root))
    return FeatureStore(root)


COPIES = (
    SETTINGS.partition("labels =")[0]
    + "allow_biometric = true\n[features]\nopenface = ['action_units']\nopensmile = 'all'\n"
)


@pytest.mark.slow
def test_one_recording_in_several_splits_is_not_released(tmp_path: Path) -> None:
    store = store_of_copies(tmp_path / "store", {"s1": "aa", "s2": "bb", "s3": "aa"}, {"s1": 1, "s2": 2, "s3": 3})
    with pytest.raises(ReleaseError, match=naming("s1", "s3")):
        make_release(store, tmp_path / "out", settings_of(tmp_path, COPIES))
    index = store.clips()
    index["split"] = "train"
    write_clip_index(index, store.storage)
    make_release(FeatureStore(tmp_path / "store"), tmp_path / "out", settings_of(tmp_path, COPIES))


@pytest.mark.slow
def test_verify_refuses_a_release_with_one_recording_in_several_splits(tmp_path: Path) -> None:
    digests = {"s1": "", "s2": "", "s3": ""}  # of a store that does not say what it was made of
    store = store_of_copies(tmp_path / "store", digests, {"s1": 1, "s2": 2, "s3": 1})
    key = tmp_path / "key.json"
    make_release(store, tmp_path / "out", settings_of(tmp_path, COPIES), key)
    names = json.loads(key.read_text())["names"]["sessions"]
    alike = " are one recording, by the values of 'openface', and are in the splits "
    (found,) = verify_release(tmp_path / "out")
    assert found.partition(alike)[0] == f"features: {', '.join(sorted([names['s1'], names['s3']]))}"
    apart = store_of_copies(tmp_path / "apart", digests, {"s1": 1, "s2": 2, "s3": 3})
    lost = store_of_copies(tmp_path / "lost", digests, dict.fromkeys(digests, 1), is_lost=True)
    for number, other in enumerate((apart, lost)):  # all of them hear the same silence, or see nobody
        make_release(other, tmp_path / f"sound{number}", settings_of(tmp_path, COPIES))
        assert verify_release(tmp_path / f"sound{number}") == []


@pytest.mark.slow
def test_people_who_were_withdrawn_since_an_earlier_release_are_not_named(
    original: FeatureStore, tmp_path: Path
) -> None:
    key = Key()
    key.number("participants", ["E7", "7"])
    key.number("sessions", ["emil.1"])
    key.write(tmp_path / "key.json")
    for text, name in (("of e7.", "E7"), ("of EMIL 1", "emil.1")):
        asked = settings_of(tmp_path, people__who=f"people {text} who")
        with pytest.raises(ReleaseError, match=naming(name, "released")):
            make_release(original, tmp_path / "out", asked, tmp_path / "key.json")
    asked = settings_of(tmp_path, people__who="7 people, e 7, emil, emil.12 and me7 who")
    assert make_release(original, tmp_path / "out", asked, tmp_path / "key.json").remarks == []


@pytest.mark.slow
def test_a_store_that_does_not_list_its_people_says_what_was_not_compared(
    original: FeatureStore, tmp_path: Path
) -> None:
    shutil.copytree(original.storage.location, tmp_path / "store")
    record = unseal((tmp_path / "store/study.json").read_bytes(), "study.json") or {}
    del record["people"]
    (tmp_path / "store/study.json").write_bytes(seal(record))
    done = make_release(FeatureStore(tmp_path / "store"), tmp_path / "out", settings_of(tmp_path))
    assert ["participants who have no clips" in remark for remark in done.remarks] == [True]


@pytest.mark.parametrize("text", [f"a = {'[' * 5000}{']' * 5000}", f"a = {'9' * 5000}", "a = inf"])
def test_a_configuration_that_nobody_means_well_is_refused_in_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.toml").write_text(f"{text}\n")
    with pytest.raises(ReleaseError) as refused:
        read_settings(tmp_path / "c.toml")
    assert len(str(refused.value).splitlines()) == 1
