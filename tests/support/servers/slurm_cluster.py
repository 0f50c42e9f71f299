"""A real Slurm on this machine: munged, slurmctld and slurmd in the foreground, no systemd, gone with the block."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from support.processes import wait_for

PROGRAMS = ("slurmctld", "slurmd", "munged", "sinfo", "sbatch", "scontrol")

_CONFIGURATION = """
ClusterName=ci
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/m/sock
CredType=cred/munge
MpiDefault=none
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_interval=1,sched_min_interval=0,batch_sched_delay=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PropagateResourceLimits=NONE
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/d
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
GresTypes=gpu
NodeName=ci1 NodeHostName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=16000 Gres=gpu:2 State=UNKNOWN
PartitionName=debug Nodes=ci1 Default=YES MaxTime=INFINITE DefMemPerCPU=100 State=UP
PartitionName=urgent Nodes=ci1 PriorityTier=2 DefMemPerCPU=100 State=UP
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""


@contextlib.contextmanager
def slurm() -> Iterator[Path]:
    """A Slurm cluster of one node with 8 CPUs and 2 fake GPUs; SLURM_CONF names it while the block lasts.

    Jobs of the partition ``urgent`` take the place of those of ``debug``, which are requeued.

    Raises:
        TimeoutError: it did not come up; the message holds the end of its logs.
    """
    # Not pytest's folder: every parent of munge's socket must be open to others, and its path short.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    folder.chmod(0o755)
    for name in ("m", "ctld", "d", "log"):
        (folder / name).mkdir(mode=0o755)
    key = folder / "m" / "key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    for number in (0, 1):  # a GPU must be a character device
        os.mknod(folder / f"gpu{number}", 0o666 | 0o020000, os.makedev(1, 3))
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-1]\n")
    controller, daemon = _free_port(), _free_port()
    (folder / "slurm.conf").write_text(
        _CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            user=pwd.getpwuid(os.geteuid()).pw_name,
            controller=controller,
            daemon=daemon,
            folder=folder,
        )
    )
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    munge = [f"--{name}={folder}/m/{file}" for name, file in _MUNGE_FILES.items()]
    commands = (["munged", "--foreground", "--force", *munge], ["slurmctld", "-D"], ["slurmd", "-D", "-N", "ci1"])
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            log = (folder / "log" / f"{command[0]}.out").open("wb")
            started.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))
            time.sleep(0.3)
        _wait_until_idle(folder)
        yield folder
    finally:
        subprocess.run(["scancel", "--full", "--user", pwd.getpwuid(os.geteuid()).pw_name], check=False)
        time.sleep(0.5)
        for process in reversed(started):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
        if before is None:
            os.environ.pop("SLURM_CONF", None)
        else:
            os.environ["SLURM_CONF"] = before
        shutil.rmtree(folder, ignore_errors=True)


_MUNGE_FILES = {"socket": "sock", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}


def _wait_until_idle(folder: Path) -> None:
    def is_idle() -> bool:
        return subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True).stdout.strip() == "idle"

    try:
        wait_for(is_idle)
    except AssertionError as error:
        logs = "\n".join(path.read_text(errors="replace")[-600:] for path in sorted((folder / "log").iterdir()))
        raise TimeoutError(f"Slurm did not come up ({error}):\n{logs}") from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
