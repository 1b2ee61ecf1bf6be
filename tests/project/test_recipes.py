# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Spack's package, Ramble's application and Benchpark's experiment: read as these tools read them, by stand-ins of
their documented interfaces, and held against what taugrid really has. None of the three is on PyPI."""

from __future__ import annotations

import inspect
import os
import re
import runpy
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[2]
SPACK = PROJECT / "jobs/spack/spack_repo/taugrid"
PROGRAM = os.environ["TAUGRID"]
Calls = list[tuple[str, tuple[Any, ...], dict[str, Any]]]


def directive(name: str, form: Callable[..., None], calls: Calls) -> Callable[..., None]:
    """A directive that takes what its documentation says and no more."""

    def taken(*arguments: Any, **named: Any) -> None:
        inspect.signature(form).bind(*arguments, **named)
        calls.append((name, arguments, named))

    return taken


@contextmanager
def modules(**named: dict[str, Any]) -> Iterator[None]:
    """These modules in place of ones that are not installed; names with __ for dots."""
    contents = {name.replace("__", "."): content for name, content in named.items()}
    before = set(sys.modules)
    for name, content in contents.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        vars(sys.modules[name]).update(content)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            del sys.modules[name]


def named(calls: Calls, kind: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [(arguments, more) for name, arguments, more in calls if name == kind]


def test_spack_knows_what_cmake_looks_for() -> None:
    calls: Calls = []

    class CMakePackage:
        def define(self, name: str, value: Any) -> str:
            return f"-D{name}={value}"

        def define_from_variant(self, name: str, variant: str) -> str:
            assert variant in {arguments[0] for arguments, _ in named(calls, "variant")}
            return self.define(name, f"<{variant}>")

    class CudaPackage:
        cuda_arch_values = ("80", "90")

    forms: dict[str, Callable[..., None]] = {
        "license": lambda name, checked_by=None, when=None: None,
        "version": lambda name, branch=None, tag=None, commit=None, sha256=None: None,
        "variant": lambda name, default=None, description="", values=None, multi=None, when=None: None,
        "depends_on": lambda spec, when=None, type=None, patches=None: None,
        "generator": lambda *names, default=None: None,
    }
    package = {name: directive(name, form, calls) for name, form in forms.items()}
    more = {"which": None, "check_outputs": None, "join_path": os.path.join}
    with modules(spack__package=package | more,
                 spack_repo__builtin__build_systems__cmake={"CMakePackage": CMakePackage},
                 spack_repo__builtin__build_systems__cuda={"CudaPackage": CudaPackage}):
        recipe = runpy.run_path(str(SPACK / "packages/taugrid/package.py"))["Taugrid"]
    repository = yaml.safe_load((SPACK / "repo.yaml").read_text())["repo"]
    # From interface 2.0 on, a repository lies in spack_repo, in a folder of its name.
    assert repository == {"namespace": SPACK.name, "api": "v2.0"} and SPACK.parent.name == "spack_repo"
    assert recipe.git == f"file://{PROJECT.resolve()}"

    specs = [arguments[0] for arguments, _ in named(calls, "depends_on")]
    needed = set(re.findall(r"find_package\((\w+)", (PROJECT / "CMakeLists.txt").read_text()
                            + (PROJECT / "cmake/taugrid_kokkos.cmake").read_text()))
    names = {"MPI": "mpi", "HDF5": "hdf5", "CLI11": "cli11", "Kokkos": "kokkos", "nlohmann_json": "nlohmann-json",
             "yaml": "yaml-cpp"}
    assert {"MPI", "HDF5", "Kokkos", "spdlog"} <= needed
    for name in needed - {"Threads"}:
        spec = names.get(name, name)
        assert any(re.match(rf"{re.escape(spec)}([@ ]|$)", each) for each in specs), name
    # What the environment for a cluster says of versions, the package says too.
    environment = yaml.safe_load((PROJECT / "jobs/spack.yaml").read_text())["spack"]["specs"]
    for spec in environment:
        package_name, _, version = spec.split()[0].partition("@")
        if package_name in ("ccache", "openmpi", "kokkos"):
            continue  # a tool; MPI and Kokkos by what they offer
        same = [each for each in specs if each.split()[0].partition("@")[0] == package_name]
        assert same, package_name
        assert any(each.split()[0].partition("@")[2] == version for each in same), spec

    class Spec(dict):
        command = types.SimpleNamespace(path="/spack/bin/python3")
        package = types.SimpleNamespace(cmake_prefix_paths=["/spack/lib/torch/share/cmake"])

        def __missing__(self, _: str) -> Spec:
            return self

    instance = recipe()
    instance.spec = Spec()
    options = (PROJECT / "CMakeLists.txt").read_text()
    given = instance.cmake_args()
    assert "-DTAUGRID_TORCH_ROOT=/spack/lib/torch" in given
    for argument in given:
        name = argument.removeprefix("-D").partition("=")[0]
        assert re.search(rf"(option|set)\({name}\b", options), name

    asked: list[str] = []
    instance.prefix = types.SimpleNamespace(bin=types.SimpleNamespace(taugrid=PROGRAM))
    recipe.test_kernels.__globals__.update(
        which=lambda path: lambda *words, output, error: asked.extend([path, *words]) or "# verify: RIGHT, 2 cases",
        check_outputs=lambda patterns, text: [re.search(pattern, text)[0] for pattern in patterns])
    instance.test_kernels()
    assert asked == [PROGRAM, "verify", "--device", "cpu"]
    known = subprocess.run([PROGRAM, "verify", "--help"], text=True, capture_output=True, check=True).stdout
    assert "--device" in known


def test_ramble_reads_the_figures() -> None:
    calls: Calls = []
    forms: dict[str, Callable[..., None]] = {
        "maintainers": lambda *names: None,
        "tags": lambda *names: None,
        "executable": lambda name, template, use_mpi=False, variables=None, redirect="", output_capture="": None,
        "workload": lambda name, executables=None, inputs=None, tags=None: None,
        "workload_variable": lambda name, default, description, values=None, workloads=None: None,
        "figure_of_merit_context": lambda name, regex, output_format: None,
        "figure_of_merit": lambda name, fom_regex, group_name, log_file="", units="", contexts=None: None,
        "success_criteria": lambda name, mode, match=None, file="", fom_name=None, formula=None: None,
    }
    kit = {name: directive(name, form, calls) for name, form in forms.items()}
    with modules(ramble__appkit=kit | {"ExecutableApplication": type("ExecutableApplication", (), {})}):
        application = runpy.run_path(str(PROJECT / "jobs/ramble/applications/taugrid/application.py"))["Taugrid"]
    assert application.name == "taugrid"
    assert yaml.safe_load((PROJECT / "jobs/ramble/repo.yaml").read_text())["repo"]["namespace"] == "taugrid"

    workloads = {arguments[0]: more["executables"] for arguments, more in named(calls, "workload")}
    templates = {arguments[0]: arguments[1] for arguments, _ in named(calls, "executable")}
    variables = {arguments[0]: more["workloads"] for arguments, more in named(calls, "workload_variable")}
    for workload, executables in workloads.items():
        for name in executables:
            asked = set(re.findall(r"\{(\w+)\}", templates[name])) - {"experiment_run_dir"}
            assert asked == {variable for variable, ours in variables.items() if workload in ours}

    said = "FOM step/standard/rate = 876.2 images/s\n# verdict: VALID, 1 case\n"
    ((_, figure),) = named(calls, "figure_of_merit")
    ((context, of_context),) = named(calls, "figure_of_merit_context")
    match = re.search(figure["fom_regex"], said, re.MULTILINE)
    assert match and (match[figure["group_name"]], figure["units"].format(**match.groupdict())) == ("876.2", "images/s")
    assert figure["contexts"] == [context[0]]
    figure_name = of_context["output_format"].format(**re.search(of_context["regex"], said).groupdict())
    assert figure_name == "step/standard/rate"
    ((_, success),) = named(calls, "success_criteria")
    for text, good in ((said, True), (said.replace("VALID, 1 case", "INVALID: forward"), False),
                       ("FOM run/time = 8 s\n/somewhere/run/results.h5\n", True), ("taugrid: stopped", False)):
        assert bool(re.search(success["match"], text, re.MULTILINE)) == good, text


def test_benchpark_scales_the_ranks() -> None:
    calls: Calls = []

    class Experiment:
        name = "taugrid"

        def __init__(self, *words: str) -> None:
            self.spec = types.SimpleNamespace(satisfies=lambda word: word in words)
            self.variables: dict[str, Any] = {}
            self.required: dict[str, str] = {}
            self.scaling: dict[Any, Any] = {}
            self.packages: dict[str, list[str]] = {}

        def add_experiment_variable(self, name: str, value: Any, use_in_expr_name: bool = False) -> None:
            self.variables[name] = value

        def set_required_variables(self, *, n_resources: str, process_problem_size: str,
                                   total_problem_size: str) -> None:
            self.required = {"n_resources": n_resources, "size": process_problem_size, "total": total_problem_size}

        def register_scaling_config(self, config: dict[Any, Any]) -> None:
            self.scaling = config

        def add_package_spec(self, name: str, specs: list[str]) -> None:
            self.packages[name] = specs

        def determine_version(self) -> str:
            return "@main"

    def mixed(name: str) -> Callable[..., type]:
        return lambda *modes: type(name, (), {"modes": modes})

    models = types.SimpleNamespace(Mpionly="mpionly", Cuda="cuda")
    scaling = types.SimpleNamespace(Strong="strong", Weak="weak", Throughput="throughput")
    forms: dict[str, Callable[..., None]] = {
        "variant": lambda name, default=None, description="", values=None, multi=None: None,
        "maintainers": lambda *names: None,
    }
    with modules(benchpark__directives={name: directive(name, form, calls) for name, form in forms.items()},
                 benchpark__experiment={"Experiment": Experiment},
                 benchpark__programming_model={"ProgrammingModel": mixed("Model"), "ProgrammingModelType": models},
                 benchpark__scaling={"Scaling": mixed("Scaling"), "ScalingMode": scaling}):
        experiment = runpy.run_path(str(PROJECT / "jobs/benchpark/experiments/taugrid/experiment.py"))["Taugrid"]
    on_host, on_gpu, bench = experiment(), experiment("+cuda"), experiment("workload=bench", "exec_mode=test")
    for variant in (on_host, on_gpu, bench):
        variant.compute_applications_section()
        variant.compute_package_section()
        assert variant.required["n_resources"] == "{n_resources}"
    assert (on_host.variables["n_resources"], on_host.variables["n_ranks"]) == (2, "{n_resources}")
    assert (on_gpu.variables["device"], on_gpu.variables["n_gpus"]) == ("cuda", "{n_resources}")
    assert bench.variables["n_resources"] == 1 and re.search(bench.variables["cases"], "gram")
    assert on_gpu.packages == {"taugrid": ["taugrid@main +cuda"]}
    twice = on_host.scaling["strong"]["n_resources"](types.SimpleNamespace(val=lambda dim: 2), 0, None, 2)
    assert twice == 4 and on_host.scaling.keys() == {"strong"}
    values = {arguments[0]: more["values"] for arguments, more in named(calls, "variant")}
    assert set(values["workload"]) == {"run", "bench"}
