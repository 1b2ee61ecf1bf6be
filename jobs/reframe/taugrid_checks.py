# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid under ReFrame: the bench, whose cases verify themselves, and an experiment at sizes from one core to sixteen
nodes. What is measured are the program's own figures of merit (docs/figures_of_merit.md).

  reframe -C jobs/reframe/settings.py -c jobs/reframe/taugrid_checks.py -r \
      -S TaugridBench.program=$PWD/build/release/suite/taugrid --system local

References of a machine: -S TaugridBench.references=FILE.json, which holds
{"SYSTEM:PARTITION": {"step/standard/rate": [VALUE, LOWER, UPPER]}}, limits as shares of the value, null where there is
none.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_before, sanity_function, variable

PROJECT = Path(__file__).resolve().parents[2]
FIGURE = re.compile(r"^FOM (\S+) = ([-+.0-9e]+) (\S+)$", re.MULTILINE)
SIZES = {  # name: (nodes, share of a node's cores); 0 nodes: so many cores of one
    "1_core": (0, 1), "2_cores": (0, 2), "4_cores": (0, 4), "1_node": (1, 1), "2_nodes": (2, 1), "4_nodes": (4, 1),
    "8_nodes": (8, 1), "16_nodes": (16, 1),
}


class Figures(rfm.RunOnlyRegressionTest):
    """Reads the lines FOM of whatever the program printed."""

    valid_systems = ["*"]  # noqa: RUF012 (ReFrame's variables, which each test has for itself)
    valid_prog_environs = ["*"]  # noqa: RUF012
    program = variable(str, value="taugrid")
    references = variable(str, value="")
    device = variable(str, value="auto")

    @run_before("run")
    def name_program(self) -> None:
        self.executable = self.program

    @run_before("performance")
    def read_figures(self) -> None:
        printed = Path(self.stagedir) / str(sn.evaluate(self.stdout))
        matches = [match.groups() for match in FIGURE.finditer(printed.read_text(errors="replace"))]
        self.perf_variables = {
            name: sn.make_performance_function(sn.defer(float(value)), unit) for name, value, unit in matches
        }
        if not self.references:
            return
        units = {name: unit for name, _, unit in matches}
        references = json.loads(Path(self.references).read_text(encoding="utf-8"))
        for where, figures in references.items():
            unknown = sorted(figures.keys() - units.keys())
            if unknown and where in ("*", self.current_partition.fullname):
                raise ValueError(f"{self.references}: {where} has {unknown[0]}, which was not measured")
        self.reference = {
            where: {name: (*limits, units[name]) for name, limits in figures.items() if name in units}
            for where, figures in references.items()
        }


@rfm.simple_test
class TaugridBench(Figures):
    """The bench of one process; each case compares its result with another computation."""

    descr = "taugrid bench"
    size = variable(str, value="medium")  # small, medium or large
    cases = variable(str, value="")
    repetitions = variable(int, value=5)
    threads = variable(int, value=1)

    @run_before("run")
    def name_cases(self) -> None:
        self.num_tasks = 1
        self.num_cpus_per_task = self.threads
        self.env_vars["OMP_NUM_THREADS"] = self.threads
        self.executable_opts = ["bench", "--device", self.device, "--repetitions", str(self.repetitions),
                                "--size", self.size]
        if self.cases:
            self.executable_opts += ["--filter", f"'{self.cases}'"]

    @sanity_function
    def every_case_is_right(self) -> bool:  # a Slurm without accounts gives no exit code
        return sn.and_(
            sn.assert_found(r"^# verdict: VALID, \d+ cases?$", self.stdout),
            sn.assert_in(self.job.exitcode, (0, None)),
        )


@rfm.simple_test
class TaugridRun(Figures):
    """An experiment by as many ranks as a size has cores; its numbers are the same at each."""

    descr = "taugrid run"
    size = parameter(SIZES)
    experiment = variable(str, value=str(PROJECT / "jobs/experiments/quickstart.toml"))
    data = variable(str, value=str(PROJECT / "data"))

    @run_before("run")
    def share_out(self) -> None:
        nodes, share = SIZES[self.size]
        processor, here = self.current_partition.processor, self.current_partition.scheduler.is_local
        seen = processor.num_cpus or (len(os.sched_getaffinity(0)) if here else 1)  # with hyperthreads
        cores = processor.num_cores or seen
        self.num_tasks_per_node = share if nodes == 0 else cores
        self.skip_if(nodes == 0 and share > seen, f"{self.size}: a node of this partition has {seen} processors")
        self.skip_if(nodes > 1 and here, f"{self.size}: one node is here")
        self.num_tasks = self.num_tasks_per_node * max(nodes, 1)
        self.num_cpus_per_task = 1
        self.env_vars["OMP_NUM_THREADS"] = 1
        self.executable_opts = ["run", self.experiment, "--run-dir", "run", "--device", self.device,
                                "--set", f"'data.folder=\"{self.data}\"'"]

    @sanity_function
    def results_are_written(self) -> bool:
        return sn.and_(sn.assert_found(r"run/results\.h5$", self.stdout), sn.assert_in(self.job.exitcode, (0, None)))
