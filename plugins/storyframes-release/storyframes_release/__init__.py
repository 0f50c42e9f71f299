"""Features for others.

``export_command`` is ``storyframes export``: the folder ``export`` makes files for other programs. ``release_command``
is ``storyframes release``: the folder ``release`` makes a de-identified subset of a store, for sharing.
"""
