# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one node on this machine: munged, slurmctld and slurmd in a folder of their own."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
PATIENCE = 60.0
CONFIGURATION = """\
ClusterName=taugrid
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={port}
SlurmdPort={port_of_node}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmix
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=10
JobRequeue=1
SchedulerParameters=batch_sched_delay=0,sched_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


class NoSlurm(Exception):
    """Why there is none here."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Cluster:
    def __init__(self, folder: Path) -> None:
        missing = [name for name in DAEMONS if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") is None]
        if missing:
            raise NoSlurm(f"not installed: {' '.join(missing)}")
        if os.geteuid() != 0:
            raise NoSlurm("its daemons want to be started by root")
        self.folder = folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        self.environment = os.environ | {
            "SLURM_CONF": str(folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        (folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=folder, host=socket.gethostname().split(".")[0], port=_free_port(), port_of_node=_free_port(),
            cores=os.cpu_count()))
        self.daemons: list[subprocess.Popen[bytes]] = []
        try:
            self._start()
        except NoSlurm:
            self.stop()
            raise

    def _start(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        for name, *arguments in (
                ("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}",
                 f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munged.seed",
                 f"--log-file={self.folder}/munged.log"),
                ("slurmctld", "-D"), ("slurmd", "-D")):
            with (self.folder / f"{name}.out").open("wb") as out:
                self.daemons.append(subprocess.Popen([name, *arguments], env=self.environment, stdout=out, stderr=out))
            time.sleep(0.5)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for daemon in self.daemons:
                if daemon.poll() is not None:
                    raise NoSlurm(f"{daemon.args} ended: {self._last_words()}")
            if "idle" in self.run("sinfo", "-h", "-o", "%t").stdout:
                return
            time.sleep(0.2)
        raise NoSlurm(f"no idle node after {PATIENCE:.0f} s: {self._last_words()}")

    def _last_words(self) -> str:
        names = ("munged.out", "slurmctld.out", "slurmctld.log", "slurmd.out", "slurmd.log")
        logs = (self.folder / name for name in names)
        return " | ".join(line for log in logs if log.exists() for line in log.read_text().splitlines()[-2:])

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*map(str, command)], env=self.environment | variables, text=True, capture_output=True,
                              timeout=PATIENCE, check=False)

    def job(self, number: str) -> dict[str, str]:
        """What Slurm says of a job."""
        text = self.run("scontrol", "show", "job", number, "-o").stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait(self, number: str, *states: str, patience: float = 300) -> dict[str, str]:
        end = time.monotonic() + patience
        while time.monotonic() < end:
            job = self.job(number)
            if job.get("JobState") in states:
                return job
            time.sleep(0.2)
        raise TimeoutError(f"job {number} is {self.job(number)}, not {states}")

    def stop(self) -> None:
        self.run("scancel", "--user=root")
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
