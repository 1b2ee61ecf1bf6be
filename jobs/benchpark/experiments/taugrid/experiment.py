# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid for Benchpark: the bench on one process, or an experiment on more and more ranks (strong scaling: the grid of
tasks and pairs stays the same, and so do its numbers)."""

from benchpark.directives import maintainers, variant
from benchpark.experiment import Experiment
from benchpark.programming_model import ProgrammingModel, ProgrammingModelType
from benchpark.scaling import Scaling, ScalingMode


class Taugrid(
    Experiment,
    ProgrammingModel(ProgrammingModelType.Mpionly, ProgrammingModelType.Cuda),
    Scaling(ScalingMode.Strong),
):
    variant("workload", default="run", values=("run", "bench"), description="An experiment, or the bench")
    variant("version", default="main", values=("main",), description="The program's version")
    maintainers("taugrid")

    def compute_applications_section(self) -> None:
        on_gpu = self.spec.satisfies("+cuda")
        self.add_experiment_variable("device", "cuda" if on_gpu else "cpu", True)
        ranks = 1 if self.spec.satisfies("workload=bench") or on_gpu else 2
        self.add_experiment_variable("n_resources", ranks, True)
        if self.spec.satisfies("workload=bench"):
            small = self.spec.satisfies("exec_mode=test")
            self.add_experiment_variable("cases", "^(combine|gram|forward|step/standard)$" if small else ".", True)
        self.set_required_variables(n_resources="{n_resources}", process_problem_size="1/{n_resources}",
                                    total_problem_size="1")
        self.register_scaling_config(
            {ScalingMode.Strong: {"n_resources": lambda var, itr, dim, scaling_factor: var.val(dim) * scaling_factor}})
        self.add_experiment_variable("n_gpus" if on_gpu else "n_ranks", "{n_resources}", True)

    def compute_package_section(self) -> None:
        gpu = "+cuda" if self.spec.satisfies("+cuda") else "~cuda"
        self.add_package_spec(self.name, [f"taugrid{self.determine_version()} {gpu}"])
