"""What several files of tests share. `fixtures` are those of all tests.

Studies and stores: `studies` (small studies, and their extraction without Prefect and Dask) · `pairs` (of two people
with several cameras and microphones, extracted) · `recordings` (videos and
sounds that a test decides) · `speech` (sound like it, as microphones with clocks of their own record it) ·
`video_variants` (of every codec and container) · `stores` (versions in a folder) · `object_stores` (versions on an
object store) · `planted_store` (names, dates and places wherever they can stand) · `synthetic_features` (a whole
study's features, without any extraction) · `track_features` (those of
sessions with several devices) · `changing_study` (one that changes in every way that
a clip index can notice) · `curve_studies` (curves of raters beside a video) · `spoken_sound` (voices, hiss and silence,
as openSMILE sees them).

Programs: `commands` (the storyframes command) · `installed` (the wheel, in an environment of its own) ·
`light_install` (what declared dependencies bring) · `one_server` (a Prefect server for many commands) ·
`terminals` (the command in a terminal) · `processes` (those of a run: what they listen on, whether they live) ·
`opened_files` (what this process opens) · `called_files` (whose code it runs) · `work` (how much it does) ·
`browser` (pages in Chromium) · `prefect_runs` (extractions through the flows).

Stand-ins and servers: `openface_tools` (scripts in the place of OpenFace's program) · `standin` (its image) ·
`bad_extractors` (plug-ins that do not work) · `outside_programs`, `outside_faults` (plug-ins' programs, each in an
environment of its own) ·
`container_engines` (podman and docker, the stand-in in them) · `slurm_cluster` (a real Slurm) · `deployment_server`
(PostgreSQL and a Prefect server) · `deployed_house` (a whole installation on them) · `hub_server` (as much of the
Hugging Face hub as fetching needs).

Faults and attacks: `faulty_disk` (a disk that fails or loses power, a library made of faulty_disk.c) · `turns` (every
way in which writers and gc can meet) · `own_mounts` (a process that sees another
folder under a path) · `strangers` (who try the ports of a run; `intruder` is the program).

Plug-ins: `plug_ins` (installed, or written by a test) · `bad_extractors` (each breaks one rule of the contract).

Models: `tiny_audio_models` (of sound, as transformers saves them) ·
`tiny_image_models` (of pictures, in the folders that timm, transformers and torchvision load) ·
`tiny_text_models` (encoders of texts, with random weights).

References: `torchvision_reference` (what torchvision makes of frames) · `dope` (DOPE's).
"""
