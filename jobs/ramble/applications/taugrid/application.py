# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F403, F405 (Ramble's own way of writing applications)
"""taugrid for Ramble. Its figures of merit are the lines that the program prints (docs/figures_of_merit.md)."""

from ramble.appkit import *


class Taugrid(ExecutableApplication):
    """How task vectors compose: the bench of one process, or an experiment that ranks share"""

    name = "taugrid"
    maintainers("taugrid")
    tags("machine-learning", "task-vectors", "mpi")

    executable(
        "measure", "taugrid bench --device {device} --repetitions {repetitions} --filter '{cases}'", use_mpi=False)
    executable(
        "experiment", "taugrid run {experiment} --run-dir {experiment_run_dir}/run --device {device}", use_mpi=True)
    workload("bench", executables=["measure"])
    workload("run", executables=["experiment"])

    workload_variable("device", default="auto", description="auto, cpu or cuda", workloads=["bench", "run"])
    workload_variable("repetitions", default="5", description="Timed runs of a case, at least", workloads=["bench"])
    workload_variable("cases", default=".", description="A regular expression of cases' names", workloads=["bench"])
    workload_variable(
        "experiment", default="quickstart.toml", description="The experiment file (TOML)", workloads=["run"])

    log = "{experiment_run_dir}/{experiment_name}.out"
    figure_of_merit_context("figure", regex=r"FOM (?P<figure>\S+) = ", output_format="{figure}")
    figure_of_merit(
        "value", log_file=log, fom_regex=r"FOM (?P<figure>\S+) = (?P<value>[-+.0-9e]+) (?P<unit>\S+)$",
        group_name="value", units="{unit}", contexts=["figure"])

    # A bench whose numbers are wrong says INVALID; a run that did not end names no results.
    success_criteria("done", mode="string", match=r"# verdict: VALID, |run/results\.h5$", file=log)
