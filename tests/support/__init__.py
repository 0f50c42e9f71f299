"""What several files of tests share. The fixtures are in `fixtures`, which conftest.py takes.

Studies and stores: `studies` (small studies, and their extraction without Prefect and Dask) · `pairs` (studies of two
people with several cameras and microphones, extracted) · `clip_indexes` (from tables in memory, of studies with curves,
and what oversampling makes of one) · `stores` (versions in a folder) · `object_stores` (versions on an object store) ·
`hostile_stores` (as a stranger may make them) · `synthetic_features` (the features of a whole study, without any
extraction) · `track_features` (those of sessions with several devices).

Rules of all tests: `needs` (what a test needs, looked for before it is set up) · `messages` (what a message names) ·
`costs` (what each test costs).

Programs: `commands` (the storyframes command) · `processes` (those of a run: what they listen on, whether they live) ·
`opened_files` (what this process opens) · `called_files` (in which files of ours a function is called) · `work` (how
much a process does).

Rooms: `pages` (of reports) · `media` (recordings of all kinds) · `models` (tiny models) · `servers` (Prefect,
PostgreSQL, Slurm, and who attacks them) · `tools` (stand-ins for tools, containers, plug-ins) · `faults` (disks that
fail, writers that meet) · `dope` (DOPE's references) · `voices` (recorded voices, real
models of speech, conversations composed of them, and the packages of real faces) · `systems` (other installations,
users and operating systems).
"""
