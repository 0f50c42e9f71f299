"""The names of what is stored, as py-feat names its columns. Both sides import this: it has no imports of its own."""

AU = tuple(f"AU{n:02}" for n in (1, 2, 4, 5, 6, 7, 9, 10, 11, 12, 14, 15, 17, 20, 23, 24, 25, 26, 28, 43))
"""Action units of FACS: 20."""

EMOTION = ("Neutral", "Happy", "Sad", "Surprise", "Fear", "Disgust", "Anger")
AFFECT = ("valence", "arousal")
POSE = ("Pitch", "Roll", "Yaw")
GAZE = ("gaze_pitch", "gaze_yaw")
BOX = ("FaceRectX", "FaceRectY", "FaceRectWidth", "FaceRectHeight")
SCORE = ("FaceScore",)

BLENDSHAPES = tuple(
    """
    _neutral browDownLeft browDownRight browInnerUp browOuterUpLeft browOuterUpRight cheekPuff cheekSquintLeft
    cheekSquintRight eyeBlinkLeft eyeBlinkRight eyeLookDownLeft eyeLookDownRight eyeLookInLeft eyeLookInRight
    eyeLookOutLeft eyeLookOutRight eyeLookUpLeft eyeLookUpRight eyeSquintLeft eyeSquintRight eyeWideLeft eyeWideRight
    jawForward jawLeft jawOpen jawRight mouthClose mouthDimpleLeft mouthDimpleRight mouthFrownLeft mouthFrownRight
    mouthFunnel mouthLeft mouthLowerDownLeft mouthLowerDownRight mouthPressLeft mouthPressRight mouthPucker mouthRight
    mouthRollLower mouthRollUpper mouthShrugLower mouthShrugUpper mouthSmileLeft mouthSmileRight mouthStretchLeft
    mouthStretchRight mouthUpperUpLeft mouthUpperUpRight noseSneerLeft noseSneerRight
    """.split()
)
"""Of MediaPipe and ARKit: 52."""

LANDMARKS = tuple(f"landmark_{number}" for number in range(68))
"""The 68 points of dlib and iBUG, from the jaw to the inner lips, in their order."""
