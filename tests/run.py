"""All tests, the longest files first, and how long each took by the clock and the processors: what ``make test`` runs.

    python tests/run.py [--at-once N]

Every file of tests has a process of its own: one process for all of them may die late in the run, where a child ends
and the kernel cannot say so (docs/facts.md, processes and signals). Those that look at the extracted demo share one,
so that it is extracted once. So do, by their subject, those that start no cluster, no server and no DataLoader: most
of their time would go into starting pytest and into imports. Plug-ins bring tests of their own, in plugins/*/tests;
the others see storyframes as it is without them.

Commands that need a Prefect server and are not about it share one (support/one_server.py).

Two more at once than there are processors: the files with servers and clusters wait for most of their time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from support.one_server import GIVEN, one_server

ROOT = Path(__file__).parent.parent
INSTALLED_PLUG_INS = Path(sys.prefix) / "plugins"  # by make, beside the environment
TOGETHER = {
    "the demo": ("test_cli", "test_docs_site", "test_report", "test_report_browser", "test_snippets", "test_wheel"),
    "small files": (
        "test_agreement", "test_between_moments", "test_clip_filter", "test_compare_ratings",
        "test_curves_dope", "test_enumerations",
        "test_features", "test_full_places", "test_hostile_settings", "test_imports", "test_leaks",
        "test_looking_at_tracks", "test_mixed", "test_pairs",
        "test_personas", "test_public_docs", "test_quality", "test_records", "test_rooms", "test_samplers",
        "test_settings", "test_shards", "test_spec", "test_statistics_docs", "test_study", "test_study_clocks",
        "test_study_tables", "test_tests", "test_transcript", "test_windows",
    ),
    "clips": (
        "test_clip_edges", "test_clip_grid", "test_clip_index", "test_clip_speakers", "test_clip_tracks",
        "test_clip_windows", "test_clips", "test_explore", "test_face_tracking", "test_feature_tables",
        "test_foreign_features", "test_foreign_store", "test_index_of_tracks", "test_index_update", "test_label_times",
        "test_split_spec", "test_unknown_feature", "test_window_labels", "test_windows_in_seconds",
    ),
    "documents": (
        "test_artifacts", "test_compare", "test_deploy_files", "test_docs", "test_doctor", "test_export",
        "test_heat_map", "test_light_install", "test_release",
        "test_release_refused", "test_report_light", "test_weights",
    ),
    "extractors": (
        "test_extending", "test_extract", "test_forecast", "test_gather", "test_one_file", "test_openface",
        "test_outside_passes", "test_plan_order", "test_planning_faults", "test_required_tools", "test_stored_sound",
        "test_tool_input", "test_tool_process", "test_tracks", "test_undefined_sound",
    ),
    "loading": ("test_documented_loop", "test_loader", "test_three_studies"),
    "recordings": ("test_media", "test_odd_recordings", "test_recording", "test_sound", "test_video_variants"),
    "scores": (
        "test_benchmark_page", "test_benchmark_tables", "test_evaluate", "test_intervals", "test_metrics",
        "test_predictions",
    ),
    "stores": (
        "test_archive", "test_catalogue", "test_embedding_writer", "test_frame_rows", "test_hostile_store",
        "test_locks", "test_losses", "test_object_errors", "test_old_stores", "test_power_loss", "test_read_ahead",
        "test_reading", "test_recording_times", "test_reprs", "test_rows", "test_store", "test_store_damage",
        "test_store_order",
    ),
    "studies": (
        "test_excluded_sessions", "test_import_labels", "test_init", "test_markdown", "test_session_files",
        "test_spreadsheet_habits", "test_study_check", "test_study_labels", "test_study_record", "test_synthesize",
    ),
    "models of texts": ("test_embed_models", "test_embed_sound", "test_embed_text"),
    "models of pictures": ("test_embed_image_features", "test_embed_images"),
    "training": (
        "test_curve_training", "test_models", "test_own_rows", "test_personality", "test_planted", "test_projection",
        "test_reflection_story", "test_training", "test_training_clips", "test_training_command",
    ),
    "texts": (
        "test_pairs_llm", "test_score_commands", "test_stored_text", "test_text", "test_text_chunks",
        "test_text_scores",
    ),
}  # fmt: skip
# What took longest when it was last looked at, in this order; whatever is not named comes after.
LONGEST = (
    "tests/test_flows.py", "tests/test_deployments.py", "the demo", "tests/test_server.py", "tests/test_faults.py",
    "tests/dope", "tests/test_resnet50.py", "tests/test_soak.py", "training", "clips", "tests/test_check_extractor.py",
    "tests/test_slurm.py", "extractors", "plugins/storyframes-mediapipe/tests", "tests/test_plugin_example.py",
    "tests/test_containers.py", "tests/test_publish.py", "tests/test_leftovers.py", "tests/test_strangers.py",
    "tests/test_topics.py", "recordings", "tests/test_gc_protocol.py", "texts", "studies", "stores",
    "tests/test_missing_files.py", "tests/test_object_store.py", "tests/test_sync.py",
    "tests/test_existing_scheduler.py", "tests/test_outside.py",
    "tests/test_stored_pictures.py", "tests/test_plugin_privacy.py", "small files", "tests/test_environments.py",
    "tests/test_clusters.py",
)  # fmt: skip


def groups() -> dict[str, list[str]]:
    """What is tested in one process: its name, and the files or folders; in the order in which they begin."""
    found: dict[str, list[str]] = {name: [] for name in TOGETHER}
    shared = {file: name for name, files in TOGETHER.items() for file in files}
    places = [*ROOT.glob("tests/test_*.py"), ROOT / "tests/dope", *ROOT.glob("plugins/*/tests")]
    for path in sorted(places):
        place = str(path.relative_to(ROOT))
        found.setdefault(shared.get(path.stem, place), []).append(place)
    first = {name: place for place, name in enumerate(LONGEST)}
    return dict(sorted(found.items(), key=lambda group: first.get(group[0], len(first))))


def prepare(state: Path) -> None:
    """What each process of tests begins with: modules that are compiled, and a copy of a Prefect server's database.

    Both would be made again and again: a database takes seconds, and where Python may not write what it compiles
    (PYTHONDONTWRITEBYTECODE, as in many images), each of a thousand processes compiles all of our modules, and each
    pytest its plug-ins.
    """
    packages = ("storyframes", "tasks", "flows", "tests/support", "benchmarks")
    subprocess.run([sys.executable, "-m", "compileall", "-q", *packages], cwd=ROOT, check=False)
    # pytest compiles what may assert in its own way: its plug-ins, 190 modules with those of hypothesis.
    writing = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    collect = [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/test_rows.py"]
    subprocess.run(collect, cwd=ROOT, env=writing, stdout=subprocess.DEVNULL, check=False)
    code = "from flows.runs.server import prefect_server\nwith prefect_server(): pass"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=ROOT, env=environment | {"XDG_STATE_HOME": str(state)}, check=False)


@dataclass(frozen=True)
class Seconds:
    """What a group took. Processor seconds are those of pytest and of all processes that it waited for."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:.0f} s, {self.processor:.0f} s of a processor"


def test(places: Sequence[str], state: Path, server: str) -> tuple[int, str, Seconds]:
    """How pytest ended, what it printed, and the seconds that took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "--durations=5", "--durations-min=8", *places]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "STORYFRAMES_TEST_STATE": str(state), GIVEN: server}
    if places[0].startswith("plugins/"):
        environment["PYTHONPATH"] = str(INSTALLED_PLUG_INS)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as started:
        printed = started.stdout.read() if started.stdout else ""
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    return started.returncode, printed, Seconds(time.monotonic() - began, used.ru_utime + used.ru_stime)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    processors = len(os.sched_getaffinity(0))
    parser.add_argument("--at-once", type=int, default=processors + 2, help="processes of tests at a time")
    took: dict[str, Seconds] = {}
    failed = []
    at_once = parser.parse_args().at_once
    with contextlib.ExitStack() as stack:
        state, used = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        prepare(state)
        shutil.copytree(state, used, dirs_exist_ok=True)
        server = json.dumps(stack.enter_context(one_server(used)))
        pool = stack.enter_context(ThreadPoolExecutor(at_once))
        running = {pool.submit(test, places, state, server): (name, places) for name, places in groups().items()}
        for ended in as_completed(running):
            (name, places), (code, printed, took[name]) = running[ended], ended.result()
            print(f"===== {name}: {' '.join(places)} ({took[name]})\n{printed}", flush=True)
            failed += [name] if code else []
    print("===== seconds by the clock and of a processor, what costs most first")
    for name, seconds in sorted(took.items(), key=lambda one: -one[1].processor):
        print(f"{seconds.clock:6.0f} {seconds.processor:6.0f}  {name}")
    print(f"{'sum':>6} {sum(seconds.processor for seconds in took.values()):6.0f}")
    print(f"===== failed: {', '.join(failed)}" if failed else "===== all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
