"""Scripts of a batch system that extract a study in parts: an array of jobs, and one that writes the index after them.

Nothing is submitted here, and no process of a job speaks to another: see docs/clusters.md.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

_SIGNAL_S = 60  # seconds before the walltime at which Slurm asks a part to end


class Scheduler(StrEnum):
    """A batch system whose scripts can be written."""

    SLURM = "slurm"
    SGE = "sge"
    PBS = "pbs"
    LSF = "lsf"


@dataclass(frozen=True)
class Job:
    """What a job is to do and what it asks for."""

    name: str  # of its script and its logs: cpu, gpu or index
    command: tuple[str, ...]  # without the part
    parts: int  # of the array; 0 for a job by itself
    cpus: int
    memory_gb: int
    walltime_s: int
    gpu: bool = False
    at_once: int = 1  # parts that a job of the array does at the same time, each in a process of its own
    comment: str = ""  # a line of its script

    @property
    def jobs(self) -> int:
        """How many jobs the array has."""
        return -(-self.parts // self.at_once)


_INDEX = {
    Scheduler.SLURM: "SLURM_ARRAY_TASK_ID",
    Scheduler.SGE: "SGE_TASK_ID",
    Scheduler.PBS: "PBS_ARRAY_INDEX",
    Scheduler.LSF: "LSB_JOBINDEX",
}

# A batch system that ends a job may signal the script alone, or all processes of the job, and by another signal than
# SIGTERM. So the script becomes the command, which takes them all for SIGTERM (flows/interruption.py): bash loses the
# exit code of a child that ends while the signal arrives.
_BODY = """
umask 077
exec {command}
"""

# Several parts share a GPU. A signal that the script gets alone is passed on; the code is the largest of the parts'.
_BODY_OF_SEVERAL = """
umask 077
ids=()
trap 'kill -TERM "${{ids[@]}}" 2> /dev/null' TERM INT USR1 USR2
first=$(( ({number} - 1) * {at_once} + 1 ))
for part in $(seq "$first" $(( first + {at_once} - 1 ))); do
    [ "$part" -gt {parts} ] && break
    {command} --part "$part/{parts}" &
    ids+=($!)
done
code=0
for id in "${{ids[@]}}"; do
    while wait "$id"; ended=$?; kill -0 "$id" 2> /dev/null; do :; done
    [ "$ended" -gt "$code" ] && code=$ended
done
exit "$code"
"""


def scripts(
    scheduler: Scheduler, jobs: tuple[Job, ...], logs: str, directives: tuple[str, ...] = ()
) -> Mapping[str, str]:
    """The scripts by file name: one for each job, the last of which waits for the others, and ``submit.sh``.

    Args:
        logs: the folder of the jobs' outputs, without blanks, quotes and characters that a batch system replaces.
        directives: further options for each job of an array, as the batch system has them (``--partition=long``).
    """
    written = {f"{job.name}.sh": _script(scheduler, job, logs, directives if job.parts else ()) for job in jobs}
    return written | {"submit.sh": _submission(scheduler, [job.name for job in jobs])}


# The options that a batch system takes for a limit on a job's time.
_TIME_LIMIT = {
    Scheduler.SLURM: r"(^|\s)(--time|-t)",
    Scheduler.SGE: r"(^|\s)-l.*[hs]_rt",
    Scheduler.PBS: r"(^|\s)-l.*walltime",
    Scheduler.LSF: r"(^|\s)-W(?![ep])",  # not the estimates
}


def limits_time(scheduler: Scheduler, directive: str) -> bool:
    """Whether a further option of a job says how long it may take, which its walltime says."""
    return bool(re.search(_TIME_LIMIT[scheduler], directive))


def _script(scheduler: Scheduler, job: Job, logs: str, directives: tuple[str, ...]) -> str:
    mark = {Scheduler.SLURM: "#SBATCH", Scheduler.SGE: "#$", Scheduler.PBS: "#PBS", Scheduler.LSF: "#BSUB"}[scheduler]
    options = _OPTIONS[scheduler](job, f"{logs}/{job.name}")
    command = shlex.join(job.command)
    comment = [f"# {job.comment}"] if job.comment else []
    index = f"${_INDEX[scheduler]}" if job.jobs > 1 else "1"  # PBS has no array of one job
    head = "\n".join(["#!/bin/bash", *(f"{mark} {option}" for option in (*options, *directives)), *comment])
    if job.at_once > 1:
        return head + _BODY_OF_SEVERAL.format(command=command, number=index, at_once=job.at_once, parts=job.parts)
    if job.parts:
        number = f'"{index}"' if job.jobs > 1 else index
        command += f" --part {number}/{job.parts}"
    return head + _BODY.format(command=command)


def _time(seconds: int, *, with_seconds: bool = True) -> str:
    minutes = -(-seconds // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}" + (":00" if with_seconds else "")


def _slurm(job: Job, log: str) -> list[str]:
    array = [f"--array=1-{job.jobs}", "--requeue", "--open-mode=append"] if job.jobs > 1 else ["--requeue"]
    return [
        f"--job-name=storyframes-{job.name}",
        *array,
        f"--output={log}-%{'A-%a' if job.jobs > 1 else 'j'}.log",
        "--ntasks=1",
        f"--cpus-per-task={job.cpus}",
        f"--mem={job.memory_gb}G",
        f"--time={_time(job.walltime_s)}",
        f"--signal=B:TERM@{_SIGNAL_S}",
        *(["--gres=gpu:1"] if job.gpu else []),
    ]


def _sge(job: Job, log: str) -> list[str]:
    return [
        f"-N storyframes-{job.name}",
        "-S /bin/bash",  # many queues start a script with csh, whatever its first line says
        *([f"-t 1-{job.jobs}"] if job.jobs > 1 else []),
        f"-o {log}-$JOB_ID-$TASK_ID.log",
        "-j y",
        "-r y",
        "-notify",  # SIGUSR2 before SIGKILL
        *([f"-pe smp {job.cpus}"] if job.cpus > 1 else []),
        f"-l mem_free={job.memory_gb}G",
        f"-l h_rt={_time(job.walltime_s)}",
        f"-l s_rt={_time(job.walltime_s - _SIGNAL_S)}",  # SIGUSR1
        *(["-l gpu=1"] if job.gpu else []),
    ]


def _pbs(job: Job, log: str) -> list[str]:
    gpu = ":ngpus=1" if job.gpu else ""
    return [
        f"-N storyframes-{job.name}",
        *([f"-J 1-{job.jobs}"] if job.jobs > 1 else []),
        f"-o {log.rsplit('/', 1)[0]}/",
        "-j oe",
        "-r y",
        f"-l select=1:ncpus={job.cpus}:mem={job.memory_gb}gb{gpu}",
        f"-l walltime={_time(job.walltime_s)}",
    ]


def _lsf(job: Job, log: str) -> list[str]:
    array = f"[1-{job.jobs}]" if job.jobs > 1 else ""
    return [
        f'-J "storyframes-{job.name}{array}"',
        f"-o {log}-%J-%I.log",
        "-r",
        f"-n {job.cpus}",
        f'-R "span[hosts=1] rusage[mem={job.memory_gb}GB]"',
        f"-W {_time(job.walltime_s, with_seconds=False)}",
        *(['-gpu "num=1"'] if job.gpu else []),
    ]


_OPTIONS = {Scheduler.SLURM: _slurm, Scheduler.SGE: _sge, Scheduler.PBS: _pbs, Scheduler.LSF: _lsf}
# How a script is submitted, so that the job's id is printed alone; and how the index waits for all, however they end.
_SUBMIT = {
    Scheduler.SLURM: ("sbatch --parsable {script} | cut -d ';' -f 1", "sbatch --dependency=afterany:{ids} {script}"),
    Scheduler.SGE: ("qsub -terse {script} | cut -d . -f 1", "qsub -hold_jid {ids} {script}"),
    Scheduler.PBS: ("qsub {script}", "qsub -W depend=afterany:{ids} {script}"),
    Scheduler.LSF: ("bsub < {script} | sed 's/^Job <\\([0-9]*\\)>.*/\\1/'", 'bsub -w "{ids}" < {script}'),
}
_BETWEEN = {Scheduler.SLURM: ":", Scheduler.SGE: ",", Scheduler.PBS: ":", Scheduler.LSF: " && "}


def _submission(scheduler: Scheduler, names: list[str]) -> str:
    *arrays, last = names
    first, then = _SUBMIT[scheduler]
    lines = [f"{name}=$({first.format(script=f'{name}.sh')})" for name in arrays]
    ids = [f"ended(${name})" if scheduler is Scheduler.LSF else f"${name}" for name in arrays]
    lines.append(then.format(ids=_BETWEEN[scheduler].join(ids), script=f"{last}.sh"))
    begin = ["#!/bin/bash", "set -euo pipefail", 'cd "$(dirname "$0")"']
    if scheduler is Scheduler.SLURM:
        begin.append("unset SBATCH_TIMELIMIT  # which would replace the scripts' --time")
    return "\n".join([*begin, *lines]) + "\n"
