"""Features that are computed outside this process: by a plug-in's program in an environment of its own.

``extractor`` has the base classes of such plug-ins; ``settings`` is what each of them can be set. ``place`` runs the
program (in an ``environment`` or a container), ``manifest`` is what it is told, ``client`` what it imports, ``results``
what is believed of what it wrote. ``session`` is one run from the first frame to the last row.
"""
