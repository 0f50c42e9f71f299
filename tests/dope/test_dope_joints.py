"""Names of joints, and that the package itself is light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from storyframes.features import BODY_JOINTS, FACE_LANDMARKS, HAND_JOINTS
from tasks.extractors.dope.joints import (
    BODY_MIRROR,
    JOINT_COUNT,
    JOINT_NAMES,
    LOWER_LIMBS,
    Part,
)
from tasks.extractors.dope.options import GroupingRule


def test_counts_and_unique_names() -> None:
    assert dict(JOINT_COUNT) == {Part.BODY: 13, Part.HAND: 21, Part.FACE: 84}
    assert all(len(set(names)) == len(names) for names in JOINT_NAMES.values())


def test_body() -> None:
    assert BODY_JOINTS[6:8] == ("right_wrist", "left_wrist")
    assert BODY_MIRROR == (1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 12)
    assert sorted(LOWER_LIMBS) == [0, 1, 2, 3]


def test_hand() -> None:
    assert HAND_JOINTS[:7] == ("wrist", "thumb_mcp", "index_mcp", "middle_mcp", "ring_mcp", "little_mcp", "thumb_pip")


def test_face_has_the_structure_of_ibug_68() -> None:
    """From the brows on, landmark i is iBUG's i - 16."""
    starts = {33: "right_brow_0", 38: "left_brow_0", 43: "nose_ridge_0", 47: "nostrils_0"}
    starts |= {52: "right_eye_0", 58: "left_eye_0", 64: "outer_lip_0", 76: "inner_lip_0"}
    assert {i: FACE_LANDMARKS[i] for i in starts} == starts


def test_joints_of_grouping_rules() -> None:
    assert GroupingRule.TORSO_HEAD_LR.joints == (4, 5, 10, 11, 12)
    assert GroupingRule.TORSO_HEAD_LR.mirrored_joints == (5, 4, 11, 10, 12)
    assert GroupingRule.SHOULDER_HEAD_LR.mirrored_joints == (11, 10, 12)
    assert GroupingRule.TORSO.mirrored_joints is None
    assert GroupingRule.ALL_JOINTS.joints is None


def test_importing_the_package_imports_no_torch() -> None:
    modules = "tasks.extractors.dope, tasks.extractors.dope.joints, tasks.extractors.dope.settings"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0
