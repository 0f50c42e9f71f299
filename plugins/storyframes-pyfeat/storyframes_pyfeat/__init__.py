"""py-feat's Detectorv2 as a feature of storyframes: action units and more of one face in every frame.

``extractor`` is the extractor that storyframes loads. ``program`` is the other side: it runs in the environment that
``requirements.txt`` pins, and is the only thing here that imports py-feat. Its ``columns`` has the names of what is
stored; both sides import it.
"""
