"""MediaPipe Holistic as a feature of storyframes.

``extractor`` is what storyframes finds, ``landmarks`` names what is stored. ``program`` is the other side: it runs in
the environment that ``requirements.txt`` pins, and is the only thing here that imports mediapipe.
"""
