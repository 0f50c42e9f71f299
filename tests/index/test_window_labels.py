"""Labels of any scheme as columns of the clip index, as inputs of clips, and as what a sampler balances."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.messages import missing, naming
from support.stores import local
from support.synthetic_features import publish

from flows.settings import SettingsError, check_labels, load_settings
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.clips.oversampling import OversamplingSampler
from storyframes.clips.window_spec import WindowSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from tasks.clip_index.index import build_clip_index, update_clip_index, write_clip_index
from tasks.clip_index.label_rules import LabelRule, Within, label_rule_faults
from tasks.clip_index.labels import add_labels
from tasks.study.load import Study, load_study

SPEC = WindowSpec(window=30, stride=30)  # 2 s, side by side
SCHEMES = """scheme,type,min,max,labels,private
valence,interval,0,100,,
mood,nominal,,,sad|neutral|happy,
effort,ordinal,,,low|medium|high,
stars,ordinal,1,5,,
notes,text,,,,
secret,nominal,,,yes|no,true
"""


def write_study(root: Path, labels: str, schemes: str = SCHEMES, sessions: int = 2, **tables: str) -> Study:
    root.mkdir(parents=True, exist_ok=True)
    ids = [f"s{number}" for number in range(1, sessions + 1)]
    rows = [f"{session},p{session[1:]},{session}.mp4" for session in ids]
    (root / "sessions.csv").write_text("\n".join(["session_id,participant_id,video", *rows]) + "\n")
    (root / "schemes.csv").write_text(schemes)
    (root / "labels.csv").write_text(labels)
    for name, text in tables.items():
        (root / f"{name}.csv").write_text(text)
    return load_study(root)


def store_of(root: Path, study: Study, seconds: int = 10) -> FeatureStore:
    create_store(root)
    for session in study.sessions:
        publish(root, session, "frames", {"time": np.arange(seconds * 15) / 15})
    catalogue.compact(local(root))
    return FeatureStore(root)


def clips_of(tmp_path: Path, labels: str, rules: dict[str, LabelRule] | None = None, **tables: str) -> pd.DataFrame:
    study = write_study(tmp_path / "study", labels, **tables)
    store = store_of(tmp_path / "store", study)
    built = build_clip_index(study, SPEC, store, rules)
    assert built.excluded == {}
    write_clip_index(built.clips, local(tmp_path / "store"))
    return FeatureStore(tmp_path / "store").clips()


def said(clips: pd.DataFrame, column: str, session: str = "s1") -> list[object]:
    values = clips[clips["session_id"] == session][column]
    return [None if pd.isna(value) else value for value in values.tolist()]


def test_schemes_are_columns_with_the_values_that_parts_and_sessions_have(tmp_path: Path) -> None:
    clips = clips_of(
        tmp_path,
        "session_id,scheme,value,start_s,end_s\n"
        "s1,valence,40,,\ns1,valence,80,2,5\ns1,mood,happy,0,1.5\ns1,mood,sad,1.5,4\ns1,effort,high,,\n"
        "s1,stars,3.5,0,8\ns1,notes,hush,,\ns1,secret,yes,,\n",
    )
    assert said(clips, "valence") == [40, 80, 80, 40, 40]  # the part where there is one, else the whole session
    assert said(clips, "mood") == ["happy", "sad", None, None, None]
    assert said(clips, "effort") == ["high"] * 5
    assert said(clips, "stars") == [3.5, 3.5, 3.5, 3.5, None]
    assert said(clips, "valence", "s2") == [None] * 5
    assert clips["valence"].dtype == np.float32
    assert list(clips["mood"].cat.categories) == ["sad", "neutral", "happy"]
    assert clips["effort"].cat.ordered
    assert clips.attrs["schemes"] == {
        "effort": "ordinal", "mood": "nominal", "stars": "ordinal", "valence": "interval"
    }  # fmt: skip
    assert not {"notes", "secret"} & set(clips)
    assert clips["clip_id"].tolist()[:2] == ["s1:session:000000", "s1:session:000030"]


def test_a_rule_changes_how_parts_meet_windows(tmp_path: Path) -> None:
    labels = "session_id,scheme,value,start_s,end_s\ns1,mood,happy,0.5,1\ns1,mood,sad,1,1.2\ns1,valence,10,0,1.5\n"
    labels += "s1,valence,50,1.5,2\n"
    rules = {"mood": LabelRule(Within.OVERLAP), "valence": LabelRule(Within.LAST)}
    clips = clips_of(tmp_path, labels, rules)
    assert (said(clips, "mood")[0], said(clips, "valence")[0]) == ("happy", 50)
    clips = clips_of(tmp_path, labels, {"mood": LabelRule(Within.LAST)})
    assert (said(clips, "mood")[0], said(clips, "valence")[0]) == ("sad", 20)
    assert said(clips_of(tmp_path, labels), "mood")[0] is None  # nothing holds for more than half of it


RATED = (
    "session_id,scheme,value,rater_id\ns1,valence,10,ann\ns1,valence,30,bob\ns1,mood,sad,ann\ns1,mood,happy,bob\n"
    "s2,mood,sad,ann\ns2,mood,sad,bob\ns2,mood,happy,eve\n"
)


def test_several_raters_become_one_value_or_a_column_each(tmp_path: Path) -> None:
    clips = clips_of(tmp_path, RATED)
    assert (said(clips, "valence")[0], said(clips, "mood")[0], said(clips, "mood", "s2")[0]) == (20, None, "sad")
    by_unit = {"s1": {"mood": [[0, 2, None]], "valence": [[10, 30]]}, "s2": {"mood": [[0, 0, 2]]}}  # ann, bob, eve
    assert clips.attrs["ratings"] == by_unit
    clips = clips_of(tmp_path, RATED, {"valence": LabelRule(raters="bob"), "mood": LabelRule(raters="all")})
    assert "ratings" not in clips.attrs
    assert said(clips, "valence")[0] == 30
    assert [said(clips, f"mood_{rater}", "s2")[0] for rater in ("ann", "bob", "eve")] == ["sad", "sad", "happy"]
    assert said(clips, "mood_eve") == [None] * 5
    assert "mood" not in clips
    assert clips.attrs["raters"] == {"mood_ann": "ann", "mood_bob": "bob", "mood_eve": "eve"}


def test_the_index_says_which_curves_bear_a_raters_name(tmp_path: Path) -> None:
    schemes = SCHEMES + "joy,curve,-1,1,,\nshame,curve,-1,1,,true\n"
    rows = [f"s1,{scheme},{rater}.csv,{rater}" for scheme in ("joy", "shame") for rater in ("ann", "bob")]
    curves = "\n".join(["session_id,scheme,path,rater_id", *rows]) + "\n"
    study = write_study(tmp_path / "study", RATED, schemes, curves=curves, raters="rater_id\nann\nbob\neve\n")
    rules = {name: LabelRule(raters="all") for name in ("joy", "shame")}
    index = build_clip_index(study, SPEC, store_of(tmp_path / "store", study), rules).clips
    assert index.attrs["raters"] == {"joy_ann": "ann", "joy_bob": "bob"}
    assert "raters" not in build_clip_index(study, SPEC, FeatureStore(tmp_path / "store")).clips.attrs


def test_many_schemes_are_made_with_one_look_at_all_labels(tmp_path: Path) -> None:
    class Counted(tuple):
        looks = 0

        def __iter__(self):
            type(self).looks += 1
            return super().__iter__()

    looks = []
    for number in (2, 9):
        schemes = "scheme,type\n" + "".join(f"x{one},interval\n" for one in range(number))
        labels = "session_id,scheme,value\n" + "".join(f"s1,x{one},{one}\n" for one in range(number))
        study = write_study(tmp_path / str(number), labels, schemes)
        store = store_of(tmp_path / f"store{number}", study)
        index = build_clip_index(study, SPEC, store).clips
        Counted.looks = 0
        study = replace(study, labels=Counted(study.labels))
        rules = {f"x{one}": LabelRule(raters="mean") for one in range(number)}
        again = add_labels(index, study, rules)
        assert label_rule_faults(study, rules) == []
        assert [said(again, f"x{one}")[0] for one in range(number)] == list(range(number))
        looks.append(Counted.looks)
    assert looks[0] == looks[1]


def test_labels_of_several_persons_are_not_mixed(tmp_path: Path) -> None:
    persons = "session_id,person_id,participant_id,role\ns1,kid,p1,child\ns1,mum,p3,parent\ns2,kid,p2,child\n"
    labels = "session_id,scheme,value,person_id\ns1,valence,10,kid\ns1,valence,90,mum\ns2,valence,70,kid\n"
    people = "participant_id\np1\np2\np3\n"
    study = write_study(tmp_path / "study", labels, persons=persons, participants=people)
    store = store_of(tmp_path / "store", study)
    built = build_clip_index(study, SPEC, store)
    assert list(built.excluded) == ["s1"]
    assert missing(built.excluded["s1"], "valence", "kid, mum", '[labels.valence] person = "…"') == []
    assert set(built.clips["session_id"]) == {"s2"}
    for person, expected in (("kid", 10), ("parent", 90)):
        built = build_clip_index(study, SPEC, store, {"valence": LabelRule(person=person)})
        assert built.excluded == {}
        assert said(built.clips, "valence") == [expected] * 5


PAIR = "session_id,person_id,participant_id,role\ns1,ann,p1,child\ns1,ben,p3,child\ns2,cleo,p2,child\n"


@pytest.mark.parametrize(
    ("labels", "person", "why"),
    [
        (
            "s1,valence,10,ann\ns1,valence,90,ben\n",
            "child",
            "labels of the scheme valence are of ann, ben, who all have the role 'child' that [labels.valence] person "
            "names: say whose are meant by a person_id",
        ),
        (
            "s1,valence,10,ann\ns1,valence,90,\n",
            None,
            "labels of the scheme valence are of ann, nobody in particular: say whose are meant, [labels.valence] "
            'person = "…" (a person_id or a role)',
        ),
    ],
    ids=["one role", "one without a person"],
)
def test_labels_that_may_be_of_two_persons_are_no_mean_of_both(
    tmp_path: Path, labels: str, person: str | None, why: str
) -> None:
    labels = f"session_id,scheme,value,person_id\n{labels}s2,valence,70,cleo\n"
    study = write_study(tmp_path / "study", labels, persons=PAIR, participants="participant_id\np1\np2\np3\n")
    store = store_of(tmp_path / "store", study)
    built = build_clip_index(study, SPEC, store, {"valence": LabelRule(person=person)})
    assert built.excluded == {"s1": why}
    assert said(built.clips, "valence", "s2") == [70] * 5
    assert said(build_clip_index(study, SPEC, store, {"valence": LabelRule(person="ann")}).clips, "valence")[0] == 10


def test_sessions_that_have_labels_of_others_alone_are_named(tmp_path: Path) -> None:
    labels = "session_id,scheme,value,person_id\ns1,valence,10,ann\ns2,valence,70,\n"
    study = write_study(tmp_path / "study", labels, persons=PAIR, participants="participant_id\np1\np2\np3\n")
    built = build_clip_index(study, SPEC, store_of(tmp_path / "store", study), {"valence": LabelRule(person="ann")})
    assert said(built.clips, "valence", "s2") == [None] * 5
    assert any(missing(remark, "valence", "s2", "'ann'", "[labels.valence]") == [] for remark in built.remarks)


def test_a_label_on_another_devices_clock_is_moved_to_the_sessions(tmp_path: Path) -> None:
    tables = {
        "tracks": "session_id,track,audio,clock\ns1,lapel,l.wav,recorder\n",
        "clocks": "session_id,clock,clock_s,session_s\ns1,recorder,0,4\n",
    }
    clips = clips_of(tmp_path, "session_id,scheme,value,start_s,end_s,track\ns1,mood,sad,0,2,lapel\n", **tables)
    assert said(clips, "mood") == [None, None, "sad", None, None]


def test_labels_with_targets_give_a_clip_for_each_target(tmp_path: Path) -> None:
    labels = "session_id,scheme,value,target\ns1,stars,2,film-a\ns1,stars,4.5,film-b\ns1,mood,happy,\n"
    clips = clips_of(tmp_path, labels)
    first = clips[(clips["session_id"] == "s1") & (clips["start_frame"] == 0)]
    assert first["clip_id"].tolist() == ["s1:session:000000:@film-a", "s1:session:000000:@film-b"]
    assert first["target"].tolist() == ["film-a", "film-b"]
    assert first["stars"].tolist() == [2, 4.5]
    assert first["mood"].tolist() == ["happy", "happy"]
    assert first["story_id"].isna().all()
    assert len(clips) == 5 * 2 + 5
    assert clips["clip_id"].is_unique


def test_labels_beside_ratings_leave_the_ratings_clips_as_they_are(study_copy: Path) -> None:
    before = build_clip_index(load_study(study_copy), WindowSpec(), None).clips
    (study_copy / "labels.csv").write_text(
        "session_id,scheme,value,target\np01-s01,mood,sad,\np01-s02,mood,happy,st-nobodys\n"
    )
    built = build_clip_index(load_study(study_copy), WindowSpec(), None)
    rated = built.clips[built.clips["position"].notna()].reset_index(drop=True)
    pd.testing.assert_frame_equal(rated[list(before)], before, check_dtype=False)
    assert rated["mood"].value_counts().to_dict()["sad"] == 18


def test_labels_of_no_rater_are_not_left_out_in_silence(tmp_path: Path) -> None:
    labels = "session_id,scheme,value,rater_id\ns1,mood,sad,ann\ns2,mood,happy,\n"
    study = write_study(tmp_path / "study", labels)
    (fault,) = label_rule_faults(study, {"mood": LabelRule(raters="all")})
    assert missing(fault, 'raters = "all"', "without a rater_id") == []
    assert label_rule_faults(study, {"mood": LabelRule()}) == []
    nobodys = write_study(tmp_path / "nobodys", labels.replace("ann", ""))
    assert label_rule_faults(nobodys, {"mood": LabelRule(raters="all")}) == []


def test_a_name_of_another_column_and_rules_that_cannot_be_are_refused(tmp_path: Path) -> None:
    schemes = SCHEMES + "split,nominal,,,a|b,\nhas_hat,nominal,,,y|n,\nmood_ann,nominal,,,a|b,\n"
    study = write_study(tmp_path / "study", RATED, schemes=schemes)
    (tmp_path / "c.toml").write_text(
        '[labels.mood]\nwithin = "mean"\nraters = "all"\n[labels.valence]\nraters = "zoe"\nperson = "me"\n'
        "[labels.valense]\n[labels.notes]\n[labels.secret]\n"
    )
    with pytest.raises(SettingsError) as error:
        check_labels(load_settings(tmp_path / "c.toml"), study)
    told = str(error.value)
    for fault in (
        "the scheme 'split' would be the column 'split' of the clip index, which is a column of every clip index",
        "the scheme 'has_hat' would be the column 'has_hat'",
        "the scheme 'mood_ann' would be the column 'mood_ann' of the clip index, which is that of the scheme 'mood'",
        '[labels.mood]: within = "mean" is for numbers, and the values are names: majority, overlap or last',
        "[labels.valence]: raters = 'zoe': mean, all, ann, bob",
        "[labels.valence]: person = 'me': neither a person_id nor a role",
        "[labels.valense]: the study has no scheme 'valense': is 'valence' meant?",
        "[labels.notes]: the scheme is text",
        "[labels.secret]: the scheme is private",
    ):
        assert fault in told, told
    (tmp_path / "c.toml").write_text('[labels.mood]\nwithin = "most"\n')
    with pytest.raises(SettingsError, match=r"labels\.mood\.within = 'most'"):
        load_settings(tmp_path / "c.toml")
    (tmp_path / "c.toml").write_text("")
    check_labels(load_settings(tmp_path / "c.toml"), write_study(tmp_path / "other", RATED))


LABELS = (
    "session_id,scheme,value,start_s,end_s\ns1,valence,40,0,4\ns1,mood,happy,0,2\ns1,mood,sad,2,10\n"
    "s2,effort,low,0,2\ns2,effort,high,2,10\ns2,mood,happy,,\n"
)


def test_clips_give_several_schemes_with_names_and_masks(tmp_path: Path) -> None:
    clips_of(tmp_path, LABELS)
    dataset = ClipDataset(tmp_path / "store", [ClipInput("label", ["valence", "mood", "effort"])])
    assert dataset.fields["label_mood"].names == ("sad", "neutral", "happy")
    assert dataset.fields["label_mood"].dtype == np.int64
    batch = dataset.read(range(10))
    assert batch["label_valence"].dtype == np.float32
    np.testing.assert_array_equal(batch["label_valence"], [40, 40, *[np.nan] * 8])
    assert batch["label_valence_mask"].tolist() == [True] * 2 + [False] * 8
    assert batch["label_mood"].tolist() == [2, 0, 0, 0, 0, 2, 2, 2, 2, 2]
    assert batch["label_effort"].tolist() == [-1] * 5 + [0, 2, 2, 2, 2]
    assert batch["label_effort_mask"].tolist() == [False] * 5 + [True] * 5
    chosen = ClipDataset(dataset.store, [ClipInput("label", ["mood"])], "mood == 'sad' and effort is null")
    assert chosen.read([0, -1])["label_mood"].tolist() == [0, 0]
    assert (len(chosen), chosen.fields["label_mood"].names) == (4, ("sad", "neutral", "happy"))
    assert len(ClipDataset(dataset.store, ["frames"], "mood in ['happy'] and valence is not null")) == 1
    with pytest.raises(ValueError, match=naming("'split'", "effort, mood, stars, valence")):
        ClipDataset(dataset.store, [ClipInput("label", ["split"])])
    with pytest.raises(ValueError, match=naming("none of the 10 clips", "ClipInput('label', ['effort'")):
        ClipDataset(dataset.store, ["label"])


def test_an_empathy_of_half_points_is_never_cut_to_a_whole_number(tmp_path: Path) -> None:
    schemes = "scheme,type,min,max\nempathy,ordinal,1,5\n"
    clips_of(tmp_path, "session_id,scheme,value\ns1,empathy,3.5\ns2,empathy,4\n", schemes=schemes)
    with pytest.raises(ValueError, match=naming("'label'", "whole number", "'empathy'")):
        ClipDataset(tmp_path / "store", ["label"])
    assert set(ClipDataset(tmp_path / "store", ["label"], "session_id == 's2'").read([0, 1])["label"]) == {4}
    halves = ClipDataset(tmp_path / "store", [ClipInput("label", ["empathy"])]).read([0, 5])["label_empathy"]
    assert halves.tolist() == [3.5, 4.0]


def test_a_sampler_balances_any_nominal_or_ordinal_scheme(tmp_path: Path) -> None:
    clips_of(tmp_path, LABELS)
    whole = ClipDataset(tmp_path / "store", [ClipInput("label", ["mood"])])
    whole.clips = whole.clips.assign(split="train")
    moods = whole.clips["mood"].iloc[list(OversamplingSampler(whole, by="mood", seed=3))]
    assert moods.value_counts().to_dict() == {"happy": 6, "sad": 6, "neutral": 0}
    with pytest.raises(ValueError, match=naming("5 of 10 clips", "'effort'", "where='effort is not null'")):
        OversamplingSampler(whole, by="effort")
    with pytest.raises(ValueError, match=naming("by='valence'", "interval", "effort, mood, stars")):
        OversamplingSampler(whole, by="valence")
    with pytest.raises(ValueError, match="by='phase'"):
        OversamplingSampler(whole, by="phase")
    state = OversamplingSampler(whole, by="mood").state_dict()
    assert state["by"] == "mood"


def test_unlabelled_windows_can_be_dropped(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", LABELS)
    store = store_of(tmp_path / "store", study)
    assert len(build_clip_index(study, SPEC, store).clips) == 10
    study = write_study(tmp_path / "study", "session_id,scheme,value,start_s,end_s\ns1,mood,sad,2,6\n")
    assert len(build_clip_index(study, SPEC, store).clips) == 10
    dropped = build_clip_index(study, replace(SPEC, unlabelled="drop"), store)
    assert dropped.clips["clip_id"].tolist() == ["s1:session:000030", "s1:session:000060"]


def test_an_index_that_other_rules_labelled_is_labelled_again(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", LABELS)
    store = store_of(tmp_path / "store", study)
    made = update_clip_index(study, SPEC, store).clips
    wrong = made.assign(valence=made["valence"] + 1)
    wrong.attrs |= made.attrs
    write_clip_index(wrong, local(tmp_path / "store"))
    update_clip_index(study, SPEC, FeatureStore(tmp_path / "store"))
    assert said(FeatureStore(tmp_path / "store").clips(), "valence") == [40, 40, None, None, None]


# --- how sure raters are ---------------------------------------------------------------------------------------------

SURE = "session_id,scheme,value,start_s,end_s,rater_id,confidence\n"


def test_windows_weigh_what_their_values_weigh(tmp_path: Path) -> None:
    labels = (
        SURE
        + "s1,valence,10,0,1,,0.5\ns1,valence,30,1,2,,1\ns1,valence,50,2,6,,\ns2,valence,1,,,,0.25\n"
        + "s1,mood,sad,0,1.5,,0.2\ns1,mood,happy,1.5,2,,0.9\n"
        + "s1,stars,3,0,4,,\n"
    )
    clips = clips_of(tmp_path, labels)
    assert said(clips, "valence") == [20, 50, 50, None, None]
    assert said(clips, "valence_weight") == [0.75, 1, 1, 0, 0]
    assert said(clips, "valence_weight", "s2") == [0.25] * 5
    assert said(clips, "mood") == [
        "sad",
        None,
        None,
        None,
        None,
    ]  # the confidence of the part that is not it plays no role
    np.testing.assert_allclose(said(clips, "mood_weight"), [0.2, 0, 0, 0, 0], rtol=1e-6)
    assert "stars_weight" not in clips
    assert "valence_weight" not in clips.attrs["schemes"]


@pytest.mark.parametrize(
    ("raters", "columns", "expected"),
    [("mean", ["stars"], [[0.7]]), ("all", ["stars_a", "stars_b"], [[0.4], [1.0]]), ("a", ["stars"], [[0.4]])],
)
def test_weights_are_those_of_the_raters_that_are_asked_for(tmp_path: Path, raters, columns, expected) -> None:
    labels = SURE + "s1,stars,3,0,2,a,0.4\ns1,stars,5,0,2,b,\n"
    clips = clips_of(tmp_path, labels, {"stars": LabelRule(raters=raters)})
    got = [said(clips, f"{column}_weight")[:1] for column in columns]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_of_names_the_raters_who_say_the_other_one_do_not_weigh(tmp_path: Path) -> None:
    labels = SURE + "".join(f"s1,mood,{name},0,2,{rater},{sure}\n" for name, rater, sure in MOODS)
    np.testing.assert_allclose(said(clips_of(tmp_path, labels), "mood_weight")[:2], [0.5, 0], rtol=1e-6)


MOODS = [("sad", "a", 0.3), ("sad", "b", 0.7), ("happy", "c", 0.9)]


def test_weights_are_an_input_and_never_missing(tmp_path: Path) -> None:
    clips_of(tmp_path, SURE + "s1,valence,10,0,2,,0.5\ns1,stars,4,0,4,,\n")
    dataset = ClipDataset(
        tmp_path / "store", [ClipInput("label", ["valence", "stars"], weights=True)], "session_id == 's1'"
    )
    batch = dataset.read(range(5))
    assert batch["label_valence_weight"].tolist() == [0.5, 0, 0, 0, 0]
    assert batch["label_stars_weight"].tolist() == [1, 1, 0, 0, 0]
    assert dataset.fields["label_valence_weight"].dtype == np.float32
    assert "label_valence_weight" not in ClipDataset(tmp_path / "store", [ClipInput("label", ["valence"])]).fields
    with pytest.raises(ValueError, match=naming("'vision'", "weights", "'label'")):
        ClipInput("vision", weights=True)


def test_a_scheme_that_has_the_name_of_anothers_weights_is_refused(tmp_path: Path) -> None:
    schemes = "scheme,type\nvalence,interval\nvalence_weight,interval\n"
    study = write_study(tmp_path, SURE + "s1,valence,10,0,2,,0.5\ns1,valence_weight,4,0,4,,\n", schemes)
    (fault,) = label_rule_faults(study, {})
    assert missing(fault, "'valence_weight'", "'valence'") == []
