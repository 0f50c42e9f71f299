"""Commands that are asked to end, by Ctrl-C or SIGTERM, wherever they happen to be: one sentence, and the exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.commands import ONE_WORKER
from support.messages import missing
from support.processes import ended

ROOT = Path(__file__).parents[2]
_SEEN = {"capture_output": True, "text": True, "cwd": ROOT}
COMMAND = [sys.executable, "-c", "from flows.cli.entry import main; main()"]

# A program that is hit in the middle of a serializer of pydantic, and makes an error of what comes out of it.
_IN_A_SERIALIZER = """
import os, signal, sys
from typing import Any
from pydantic import BaseModel, model_serializer

class Hit(BaseModel):
    @model_serializer
    def _serialize(self) -> Any:
        os.kill(os.getpid(), int(sys.argv[1]))

def work(prog_name):
    try:
        Hit().model_dump()
    except Exception as error:  # as Prefect makes a failed run of it
        raise RuntimeError("the run ended as Failed") from error

import flows.cli.app
flows.cli.app.app = work
from flows.cli.entry import main
main()
"""


@pytest.mark.parametrize(("number", "words"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_a_signal_in_the_middle_of_a_serializer_is_no_serialization_error(number: signal.Signals, words: str) -> None:
    command = [sys.executable, "-c", _IN_A_SERIALIZER, str(int(number))]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (ended.returncode, ended.stderr) == (128 + number, f"{words}\n")


def test_a_flow_that_is_terminated_in_the_middle_of_a_serializer_ends_with_that_signal() -> None:
    from prefect.exceptions import TerminationSignal
    from prefect.utilities.engine import capture_sigterm

    from flows.interruption import heeded

    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with pytest.raises(TerminationSignal), capture_sigterm(), heeded():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(10)
            except TerminationSignal:
                raise ValueError("Error calling function `_ser_model`") from None
        assert signal.getsignal(signal.SIGTERM) is not before
        assert seen == [signal.SIGTERM]  # Prefect hands it on to who was there before
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_still_starts_ends_without_a_traceback(tmp_path: Path, number: signal.Signals) -> None:
    command = subprocess.Popen([*COMMAND, "status", tmp_path], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    maps = Path(f"/proc/{command.pid}/maps")
    while "_multiarray_umath" not in maps.read_text():  # numpy, which comes before pandas, zarr and the others
        assert command.poll() is None
        time.sleep(0.001)
    command.send_signal(number)
    _, errors = command.communicate()
    words = "interrupted" if number is signal.SIGINT else "terminated"
    assert (command.returncode, errors) == (128 + number, f"{words}\n")


@pytest.mark.slow
@pytest.mark.parametrize("when", ["starting a Prefect server", "planning", "are due"])
def test_an_extraction_says_that_the_next_one_goes_on(demo_study: Path, tmp_path: Path, when: str) -> None:
    arguments = ["extract", demo_study, tmp_path / "features", "--features", "frames", "--server", *ONE_WORKER]
    command = subprocess.Popen([*COMMAND, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    shown = ""
    for line in command.stderr:
        shown += line
        if when in line:
            command.send_signal(signal.SIGINT)
            break
    shown += command.stderr.read()
    assert ended(command) == 130
    assert missing(shown.splitlines()[-1], "interrupted: ", "published stays", "same command") == []
    assert "Traceback" not in shown
    assert "rror" not in shown


# A program that is asked to end while it ends: what it takes down is taken down, unless somebody insists.
_TAKING_DOWN = """
import os, signal, sys, time
from flows import interruption

interruption.promise("all is well")
interruption.OF_THIS_PROCESS.end_in_order()
number, interruption.OF_THIS_PROCESS.orderly_s = int(sys.argv[1]), float(sys.argv[2])
try:
    os.kill(os.getpid(), number)
    time.sleep(60)
except BaseException as error:
    print(type(error).__name__, flush=True)
    for _ in range(2):
        os.kill(os.getpid(), number)
        time.sleep(0.01)
    print("taken down", flush=True)
"""


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "SystemExit")])
def test_who_asks_again_breaks_nothing_that_is_taken_down_and_who_insists_is_heeded(number: int, raised: str) -> None:
    ended = [
        subprocess.run([sys.executable, "-c", _TAKING_DOWN, str(int(number)), patience], **_SEEN)
        for patience in ("60", "0")
    ]
    in_order, at_once = [(end.returncode, end.stdout.split("\n"), end.stderr) for end in ended]
    assert in_order == (0, [raised, "taken down", ""], "")
    words = "interrupted" if number == signal.SIGINT else "terminated"
    assert at_once == (128 + number, [raised, ""], f"{words}: all is well\n")


@pytest.mark.slow
def test_three_ctrl_c_of_a_terminal_end_the_worker_without_a_traceback(demo_study: Path, tmp_path: Path) -> None:
    """A terminal sends each to all processes of the command; the worker is in the middle of its work."""
    arguments = ["extract", demo_study, tmp_path / "features", "--features", "frames,opensmile", *ONE_WORKER]
    command = subprocess.Popen(
        [*COMMAND, *arguments, "--server"], cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    shown = ""
    for line in command.stderr:
        shown += line
        if line.startswith("done "):
            for _ in range(3):
                os.killpg(command.pid, signal.SIGINT)
                time.sleep(0.3)
            break
    shown += command.stderr.read()
    assert ended(command) == 130
    assert missing(shown.splitlines()[-1], "interrupted: ", "published stays", "same command") == []
    assert "Traceback" not in shown
    assert "KeyboardInterrupt" not in shown


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_the_exit_code(number: int, code: int) -> None:
    program = "import os, sys, time; from flows.interruption import OF_THIS_PROCESS as own; own.end_in_order()\n"
    program += f"try: os.kill(os.getpid(), {int(number)}); time.sleep(60)\nexcept KeyboardInterrupt: sys.exit(130)"
    assert subprocess.run([sys.executable, "-c", program], **_SEEN).returncode == code
