"""Stand-ins for the tools that extractors run, the containers that they run in, and plug-ins.

`openface_tools` (scripts in the place of OpenFace's program) · `standin` (its image) · `container_engines` (podman and
docker, the stand-in in them) · `outside_programs`, `outside_faults` (plug-ins' programs, each in an environment of its
own) · `plug_ins` (installed, or written by a test) · `bad_extractors` (each breaks one rule of the contract) ·
`annotations` (files that annotation programs write, and their import).
"""
