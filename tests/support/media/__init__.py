"""Recordings for tests.

`recordings` (videos and sounds that a test decides) · `speech` (sound like it, as microphones with clocks of their own
record it) · `spoken_sound` (sound with voiced and unvoiced parts) · `video_variants` (of every codec and container) ·
`turned` (lying and mirrored) · `newcomer` (of twelve sessions, as a new user has them) · `mixed_sessions` (sessions
with a camera and without one, and their extraction) · `conversations` (of whom it is known who speaks when) ·
`people_scenes` (several people who move in one picture, and whose each face is) · `people_walks` (simulated detections
of people who walk and change seats) · `real_faces` (clips of real people, with a table of where their faces are).
"""
