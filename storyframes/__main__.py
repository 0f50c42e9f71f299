"""``python -m storyframes`` is the ``storyframes`` command, which is looked up by name: it stands two floors above."""

from importlib import import_module

import_module("flows.cli.entry").main()
