"""``python -m storyframes`` is the ``storyframes`` command."""

from storyframes.plug_ins import load_pipeline

load_pipeline("command")()
