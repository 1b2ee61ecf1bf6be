# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F403, F405, RUF012 (Spack's own way of writing packages)
"""taugrid for Spack 1: `spack repo add jobs/spack/spack_repo/taugrid`, then `spack install taugrid`, which takes the
branch main of this checkout, or `spack dev-build taugrid@main` for the files as they lie there.

`spack test run taugrid` runs `taugrid verify`."""

import os

from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage


class Taugrid(CMakePackage, CudaPackage):
    """How task vectors compose: an MPI-parallel benchmark suite that fine-tunes one pre-trained model on many tasks and
    measures every task and every pair."""

    git = "file://" + os.path.realpath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 6))  # this checkout
    tags = ["benchmark"]
    test_requires_compiler = False

    license("Apache-2.0")
    version("main", branch="main")

    variant("cuda", default=False, description="Run on NVIDIA GPUs, by LibTorch and NCCL")
    variant("native", default=True, description="Compile for the processor of this machine")
    variant("python", default=True, description="What the analysis and the scripts of jobs/ need")
    variant("tests", default=False, description="Build the tests")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    generator("ninja")

    depends_on("mpi@3.1:")
    depends_on("hdf5@1.10.8: +mpi +hl")
    depends_on("kokkos@3.4: +serial cxxstd=20")
    depends_on("cli11")
    depends_on("spdlog@1.10:")
    depends_on("tomlplusplus@3:")
    depends_on("yaml-cpp@0.7:")
    depends_on("nlohmann-json@3.11:")
    depends_on("python@3.11:", type=("build", "run"))
    # CMake finds and links it. As a dependency of type link its headers, a newer fmt's among them, would stand before
    # those that spdlog was built with.
    of_torch = ("build", "run")
    depends_on("py-torch@2.11:", type=of_torch)
    depends_on("googletest@1.12: +gmock", type=("build", "test"), when="+tests")

    depends_on("py-torch +cuda +nccl", when="+cuda", type=of_torch)
    depends_on("py-torch ~cuda", when="~cuda", type=of_torch)
    for arch in CudaPackage.cuda_arch_values:
        depends_on(f"py-torch cuda_arch={arch}", when=f"+cuda cuda_arch={arch}", type=of_torch)
        depends_on(f"kokkos +cuda +wrapper cuda_arch={arch}", when=f"+cuda cuda_arch={arch}")

    for package in ("numpy", "scipy", "h5py", "pandas", "xarray", "tabulate", "pillow", "matplotlib", "jinja2"):
        depends_on(f"py-{package}", type="run", when="+python")

    def cmake_args(self):
        share = self.spec["py-torch"].package.cmake_prefix_paths[0]  # …/torch/share/cmake
        return [
            self.define_from_variant("TAUGRID_ENABLE_TESTS", "tests"),
            self.define_from_variant("TAUGRID_ENABLE_NATIVE", "native"),
            self.define("TAUGRID_TORCH_ROOT", os.path.dirname(os.path.dirname(share))),
            self.define("TAUGRID_PYTHON", self.spec["python"].command.path),
        ]

    def test_kernels(self):
        """every kernel's result against another computation"""
        program = which(self.prefix.bin.taugrid)
        out = program("verify", "--device", "cpu", output=str.split, error=str.split)
        check_outputs([r"# verify: RIGHT, \d+ cases"], out)
