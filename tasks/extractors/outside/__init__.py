"""Features that a plug-in's program computes in an environment or a container of its own, outside this process.

``extractor`` has the base classes of such plug-ins, ``settings`` the base of their sections. ``runtime`` runs the
program, in an ``environment`` or a container; ``client`` is what it imports. ``session`` is one run from the first
frame to the last row, with the manifest that the program reads; ``results`` checks what it wrote, and trusts nothing
else.
"""
