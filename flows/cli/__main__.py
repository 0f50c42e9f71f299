"""``python -m flows.cli`` is the ``storyframes`` command."""

from flows.cli.entry import main

main()
