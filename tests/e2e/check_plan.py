# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What `taugrid plan` predicts beside what real runs take: time and memory a rank. Not a test of the suite, since it
measures time: by hand, on a quiet machine, from the repository's root. The machine is measured before and after each
run, and the mean of both is compared: where machines are shared, their speed drifts within minutes.

    TAUGRID=build/release/suite/taugrid .venv/bin/python tests/e2e/check_plan.py jobs/experiments/quickstart.toml \
        runs/plan_check --ranks 1,2,4 --set finetune.steps=50

Exit code 1 where a time is off by more than a quarter."""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

ONE_RANK = "--one-rank"  # this file as a wrapper of each rank: notes the process's memory


def one_rank(note: str, command: list[str]) -> int:
    code = subprocess.run(command, check=False).returncode
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    Path(f"{note}.{os.environ.get('OMPI_COMM_WORLD_RANK', '0')}").write_text(str(1024 * peak))
    return code


def main() -> int:
    from launch import MPIRUN, PROGRAM, environment

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment")
    parser.add_argument("folder", type=Path, help="emptied; a run folder for each number of ranks")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    ranks = [int(n) for n in options.ranks.split(",")]
    changes = [word for change in options.set for word in ("--set", change)]
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)

    def predict(name: str) -> dict[int, dict[str, float]]:
        plan = options.folder / f"plan-{name}.json"
        subprocess.run([PROGRAM, "plan", options.experiment, "--ranks", options.ranks, "--ranks-per-host",
                        str(max(ranks)), "--json", plan, *changes], env=environment(), check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return {row["ranks"]: row for row in json.loads(plan.read_text())["plan"]}

    off = 0.0
    print(f"{'ranks':>5} {'before':>9} {'after':>9} {'measured':>11} {'off':>7} {'memory a rank':>15} {'measured':>11} "
          f"{'off':>7}", flush=True)
    before = predict("before")
    for n in ranks:
        note = options.folder / f"memory-{n}"
        job = [MPIRUN, "-q", "-n", str(n), "--oversubscribe", "--bind-to", "none", sys.executable, __file__, ONE_RANK,
               str(note), PROGRAM, "run", options.experiment, "--run-dir", str(options.folder / str(n)), *changes]
        began = time.monotonic()
        with (options.folder / f"{n}.log").open("w") as log:
            subprocess.run(job, env=environment(), check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        seconds = time.monotonic() - began
        memory = max(float(path.read_text()) for path in options.folder.glob(f"memory-{n}.*"))
        after = predict(f"after-{n}")
        wrong = (before[n]["seconds"] + after[n]["seconds"]) / 2 / seconds - 1
        off = max(off, abs(wrong))
        needed = after[n]["memory_bytes"]
        print(f"{n:>5} {before[n]['seconds']:>7.1f} s {after[n]['seconds']:>7.1f} s {seconds:>9.1f} s "
              f"{100 * wrong:>+5.1f} % {needed / 2**20:>11.0f} MiB {memory / 2**20:>7.0f} MiB "
              f"{100 * (needed / memory - 1):>+5.1f} %", flush=True)
        before = after
    return 1 if off > 0.25 else 0


if __name__ == "__main__":
    sys.exit(one_rank(sys.argv[2], sys.argv[3:]) if sys.argv[1:2] == [ONE_RANK] else main())
