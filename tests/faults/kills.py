# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Kills -9 at chance moments: of one rank, or of the whole job; nothing that was committed is lost.

    TAUGRID=build/release/suite/taugrid python tests/faults/kills.py --kills 200 --seed 0

starts a run in a fresh folder on one to four ranks, kills it, starts it again, and so on until it is done. Then its
numbers are bitwise those of an undisturbed run, and no temporary file is left. Then the next folder, until so many
kills have struck. Half are aimed at short moments by the files that appear: a unit's commit, the writing of results.h5.
--stale SECONDS loads what answers like an NFS client with cached attributes (TAUGRID_STALE_FILES); --width 2 gives two
ranks to a unit; --hosts starts each time on another number of pretended hosts, often with another one first, which then
waits a minute for a sign of life from the dead job's host.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
import shared
from compare import differing, numbers
from launch import MPIRUN, PRELOADED, PROGRAM, environment, kill_all, leftovers, measure, ranks_of, units

# Fine-tuning's state is saved a hundred times a second.
SETTINGS = ("--set", "finetune.steps=60", "--set", "finetune.linear.steps=60", "--set",
            "finetune.checkpoint_seconds=0.01")
PHASES = ("start-up", "training", "saving a training's state", "measuring", "commit", "between units", "consolidation")
# A process that believes it runs on a host of the first argument's name, whose boot's number is in the second's file.
ON_HOST = 'hostname "$1"; mount --bind "$2" /proc/sys/kernel/random/boot_id; shift 2; exec "$@"'
Moment = Callable[[], bool]


def partial(folder: Path) -> bool:
    """Whether a file is being written in this folder, at any depth."""
    return any(".partial" in name for _, _, names in os.walk(folder) for name in names)


def phase(folder: Path) -> str:
    """In which of PHASES the job died, from what it left: unfinished files, and the ends of the ranks' logs."""
    if any(folder.glob(".results.h5.partial*")):
        return "consolidation"
    if partial(folder / "units"):
        return "commit"
    if partial(folder / "scratch"):
        return "saving a training's state"
    lines = [text.splitlines()[-1] for log in (folder / "log").glob("*.log") if (text := log.read_text())]
    at_work = [line.split(" start ")[1] for line in lines if " start " in line]
    if any(unit.startswith("finetune/") for unit in at_work):
        return "training"
    return "measuring" if at_work else "between units" if lines else "start-up"


class Session:
    def __init__(self, base: Path, chance: random.Random, how: argparse.Namespace) -> None:
        self.base, self.chance, self.how = base, chance, how
        self.world = shared.world(base)
        self.settings = (*SETTINGS, "--set", f"run.ranks_per_unit={how.width}")
        begin = time.monotonic()
        self.expected = numbers(measure(self.world.experiment, base / "reference", *self.settings))
        self.seconds = time.monotonic() - begin
        self.total = units(base / "reference")
        self.struck: Counter[tuple[str, str]] = Counter()
        self.hosts = self.moved = 0  # of the last start; restarts on another number of hosts
        self.finished = 0

    def start(self, folder: Path) -> subprocess.Popen[str]:
        ranks = self.how.width * self.chance.randint(1, 4 // self.how.width)
        parts: list[tuple[int, list[str]]] = [(ranks, [])]
        if self.how.hosts:
            hosts = self.chance.choice([n for n in range(1, 5) if n != self.hosts])
            self.moved += folder.exists()
            self.hosts, ranks = hosts, max(ranks, hosts)
            first = self.chance.randrange(2)
            parts = [(ranks // hosts + (i < ranks % hosts), self.on_host(first + i)) for i in range(hosts)]
        words = [MPIRUN, "-q", "--oversubscribe", "--bind-to", "none"]
        for i, (here, there) in enumerate(parts):
            words += [*([":"] if i else []), "-n", str(here), *there, PROGRAM, "run", str(self.world.experiment),
                      "--run-dir", str(folder), *self.settings]
        stale = {"LD_PRELOAD": f"{os.environ['TAUGRID_STALE_FILES']} {PRELOADED}", "STALE_FOLDER": str(folder),
                 "STALE_SECONDS": str(self.how.stale)} if self.how.stale else {}
        return subprocess.Popen(words, env=environment() | stale, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def on_host(self, number: int) -> list[str]:
        boot = self.base / f"boot-{number}"
        boot.write_text(f"boot of host {number}\n")
        return ["unshare", "-m", "-u", "sh", "-c", ON_HOST, "sh", f"node{number}", str(boot)]

    def kills(self) -> int:
        return self.struck.total()

    def moment(self, folder: Path) -> Moment:
        """When to strike: half by the clock, half by what appears."""
        aim = self.chance.choice(["clock", "clock", "clock", "commit", "consolidation", "state"])
        begin = time.monotonic()
        later = self.chance.uniform(0, 1.2 * self.seconds if aim == "clock" else 0.02)
        appears: dict[str, Moment] = {
            "clock": lambda: True,
            "commit": lambda: partial(folder / "units"),
            "consolidation": lambda: any(name.startswith(".results.h5.partial") for name in os.listdir(folder)),
            "state": lambda: partial(folder / "scratch"),
        }
        skipped = self.chance.randrange(6) if aim == "commit" else 0  # not always the first
        before = units(folder)
        at_once = self.chance.random() < 0.7
        seen: list[float] = [begin] if aim == "clock" and not self.how.hosts else []
        if self.how.hosts:  # the minute of waiting for another host's sign of life is not what is to be hit
            started = time.time()
            appears["clock"] = lambda: any(log.stat().st_mtime > started for log in (folder / "log").glob("*.log"))

        def now() -> bool:
            if not seen and folder.exists() and units(folder) - before >= skipped and appears[aim]():
                seen.append(time.monotonic())
            if not seen:
                return False
            return (at_once and aim != "clock") or time.monotonic() >= seen[0] + later

        return now

    def strike(self, job: subprocess.Popen[str], victim: str) -> bool:
        """False where the job was done before."""
        if victim == "one rank":
            ranks = ranks_of(job)
            if not ranks:  # not yet started, or gone
                return False
            try:
                os.kill(self.chance.choice(ranks), signal.SIGKILL)
            except ProcessLookupError:
                return False
            _, text = job.communicate(timeout=60)  # the others end by themselves
            assert job.returncode != 0 or "units computed" in text, text
            said = [line for line in text.splitlines() if line.startswith("taugrid: rank")]
            assert len(said) <= 1, text
            if job.returncode == 0:
                return False
        kill_all(job)
        return True

    def attempt(self, folder: Path, last: bool) -> bool:
        """One start, killed unless it is the last that is needed; whether it came to its end."""
        before = units(folder)
        job = self.start(folder)
        now, victim = self.moment(folder), self.chance.choice(["one rank", "the whole job"])
        try:
            while not last and job.poll() is None:
                if now() and self.strike(job, victim):
                    self.struck[phase(folder), victim] += 1
                    results = folder / "results.h5"
                    assert not results.exists() or differing(self.expected, numbers(results)) == []
                    assert units(folder) >= before, "a committed unit is lost"
                    return False
                time.sleep(0.001)
            _, text = job.communicate(timeout=300)
        finally:
            if job.poll() is None:
                kill_all(job)
        assert job.returncode == 0, text
        assert f"{self.total - before} units computed, {before} found finished" in text, text
        return True

    def life(self, folder: Path, kills: int) -> None:
        """A run from its first start to its end."""
        while not self.attempt(folder, last=self.kills() >= kills):
            pass
        wrong = differing(self.expected, numbers(folder / "results.h5"))
        assert wrong == [], f"other numbers than those of an undisturbed run: {wrong}"
        assert leftovers(folder) == [], leftovers(folder)
        assert units(folder) == self.total
        self.finished += 1
        shutil.rmtree(folder)

    def table(self) -> str:
        rows = [f"{'moment':<28}{'one rank':>10}{'whole job':>11}"]
        for name in PHASES:
            rows.append(f"{name:<28}{self.struck[name, 'one rank']:>10}{self.struck[name, 'the whole job']:>11}")
        if self.how.hosts:
            rows.append(f"{self.moved} restarts on another number of hosts")
        return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stale", type=float, default=0)
    parser.add_argument("--width", type=int, default=1, choices=[1, 2])
    parser.add_argument("--hosts", action="store_true")
    arguments = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="taugrid-kills-") as base:
        session = Session(Path(base), random.Random(arguments.seed), arguments)
        while session.kills() < arguments.kills or session.finished == 0:
            session.life(Path(base) / f"run-{session.finished}", arguments.kills)
            print(f"{session.kills()} kills, {session.finished} runs finished, "
                  f"{time.monotonic() - begin:.0f} s", flush=True)
        print(session.table())


if __name__ == "__main__":
    main()
