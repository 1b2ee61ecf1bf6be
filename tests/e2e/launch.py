# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Starts the program under the launcher, kills it, sees what it left."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

PROGRAM = os.environ["TAUGRID"]
MPIRUN = os.environ.get("MPIRUN", "mpirun")
PRELOADED = os.environ.get("LD_PRELOAD", "")  # of ranks that wait: support/idle.cpp
PATIENCE = 1500.0  # seconds, for hangs: a run of 15 s of a processor took five minutes on a busy machine
_SESSIONS = tempfile.TemporaryDirectory(prefix="taugrid-")  # Open MPI's files; removed when the tests end


def environment() -> dict[str, str]:
    """A process without the launcher starts no daemon beside itself. Open MPI keeps the files of all such processes in
    one folder, which the first to end removes, so that another's start may fail: each start has a folder of its own."""
    return os.environ | {"OMP_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                         "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_ess_singleton_isolated": "1",
                         "OMPI_MCA_orte_tmpdir_base": tempfile.mkdtemp(dir=_SESSIONS.name),
                         "NOT_FOR_OTHERS": "a secret of the shell"}


def command(ranks: int, *arguments: str | Path) -> list[str]:
    return [MPIRUN, "-q", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", PROGRAM, *map(str, arguments)]


def start(ranks: int, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(command(ranks, *arguments), env=environment(), text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(ranks: int, *arguments: str | Path, threads: int = 1) -> subprocess.CompletedProcess[str]:
    """One rank starts without the launcher, as it may, and so in half of the time."""
    words = [PROGRAM, *map(str, arguments)] if ranks == 1 else command(ranks, *arguments)
    return subprocess.run(words, env=environment() | {"OMP_NUM_THREADS": str(threads)}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)


@cache
def printed(*arguments: str) -> str:
    """What a command prints that starts no ranks and has nothing to complain of."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def without_progress(errors: str) -> str:
    """What a command has to complain of; how far it is, it says every ten seconds of a busy machine."""
    return "".join(line for line in errors.splitlines(keepends=True) if not line.startswith("# "))


def complaint(done: subprocess.CompletedProcess[str], *expected: str | Path) -> None:
    """Asserts that wrong input was refused as it must be: exit code 2 and one line that holds all that is expected."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("taugrid: error:")]
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr and "MPI_ABORT" not in done.stderr
    assert not any(line.startswith("taugrid: rank") for line in done.stderr.splitlines()), done.stderr
    for text in expected:
        assert str(text) in lines[0], lines[0]


def measure(experiment: Path, folder: Path, *arguments: str | Path, ranks: int = 2) -> Path:
    """Runs to the end; returns results.h5."""
    done = run(ranks, "run", experiment, "--run-dir", folder, *arguments)
    assert done.returncode == 0, done.stderr
    return folder / "results.h5"


def given_by(run: Path, regimes: tuple[str, ...] = ("standard", "linear")) -> list[str]:
    """Arguments of a run that takes this one's models."""
    taken = f"finetune.given={json.dumps(list(regimes))}"
    return ["--set", f"finetune.checkpoints={run / 'checkpoints'}", "--set", taken]


def planned_costs(experiment: Path, results: Path, plan: Path) -> dict[str, float]:
    """What `taugrid plan` counts for each unit of this experiment's finished run: flops and bytes. `plan`: a file."""
    done = run(1, "plan", experiment, "--profile", results, "--ranks", "2", "--json", plan)
    assert done.returncode == 0, done.stderr
    return {unit["key"]: unit["cost"] for unit in json.loads(plan.read_text())["units"]}


def units(folder: Path) -> int:
    try:
        return sum(name.endswith(".safetensors") for name in os.listdir(folder / "units"))
    except FileNotFoundError:
        return 0


def wait_until(condition: Callable[[], bool], job: subprocess.Popen[str]) -> bool:
    """Whether the condition came true before the job ended."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        if job.poll() is not None:
            return False
        time.sleep(0.004)
    raise TimeoutError("neither came the awaited moment, nor did the job end")


def _parent_and_state(pid: int) -> tuple[int, str]:
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[1]), fields[0]
    return 0, "gone"


def ranks_of(job: subprocess.Popen[str]) -> list[int]:
    """The processes that the launcher started, in the order of their start."""
    everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return sorted(pid for pid in everyone if _parent_and_state(pid)[0] == job.pid)


def kill_all(job: subprocess.Popen[str]) -> None:
    """Ends launcher and ranks without a word, as when a machine is switched off."""
    ranks = ranks_of(job)
    for pid in (job.pid, *ranks):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job.communicate(timeout=PATIENCE)
    end = time.monotonic() + PATIENCE
    while any(_parent_and_state(pid)[1] not in ("gone", "Z", "X") for pid in ranks):
        assert time.monotonic() < end
        time.sleep(0.01)


def leftovers(folder: Path) -> list[str]:
    """Files of unfinished writes, and of unfinished units."""
    names = [path for path in folder.rglob("*") if path.is_file()]
    return [str(p.relative_to(folder)) for p in names if ".partial" in p.name or ".tmp" in p.name
            or p.relative_to(folder).parts[0] == "scratch"]
