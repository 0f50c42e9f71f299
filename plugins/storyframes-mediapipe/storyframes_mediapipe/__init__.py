"""MediaPipe Holistic as a feature of storyframes.

``extractor`` is the feature that storyframes finds, ``landmarks`` names what is stored; ``people`` finds the faces of
several people for ``storyframes people``. ``program`` and ``find_faces`` are the other side: they run in the
environment that ``requirements.txt`` pins, and are the only things here that import mediapipe.
"""
