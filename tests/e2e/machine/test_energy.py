# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Joules of a run, of its units and of the bench, on a machine that has RAPL's counters: a stand-in for /sys/class."""

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest
from launch import PATIENCE, command, environment
from world import World

FIGURE = re.compile(r"FOM (\S+) = ([-+.0-9e]+) (\S+)$", re.MULTILINE)
RANGE = 200_000_000  # microjoules: less than once around in ten seconds, after which they are read at the latest


ZONES = {"intel-rapl:0": "package-0", "intel-rapl:1": "package-1", "intel-rapl:1:0": "dram"}


class Packages:
    """Two, and the memory of one: each takes a joule in a tenth of a second."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.spent, self._ended = folder, 0, threading.Event()
        for zone, name in ZONES.items():
            place = folder / "powercap" / zone
            place.mkdir(parents=True)
            (place / "name").write_text(name + "\n")
            (place / "max_energy_range_uj").write_text(f"{RANGE}\n")
        self._count()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _count(self) -> None:
        for place, zone in enumerate(ZONES):  # each begins shortly before its end
            file = self.folder / "powercap" / zone / "energy_uj"
            beside = file.with_suffix(".new")
            taken = self.spent * 1_000_000 // len(ZONES)
            beside.write_text(f"{(RANGE - 2_000_000 * (place + 1) + taken) % RANGE}\n")
            os.replace(beside, file)

    def _work(self) -> None:
        while not self._ended.wait(0.1):
            self.spent += len(ZONES)  # joules of all
            self._count()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def run(self, ranks: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        words = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /sys/class && exec "$@"', str(self.folder),
                 *command(ranks, *arguments)]
        return subprocess.run(words, env=environment(), text=True, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=PATIENCE, check=False)


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Packages]:
    tried = ["unshare", "-m", "mount", "--bind", str(tmp_path), "/sys/class"]
    if subprocess.run(tried, check=False, capture_output=True).returncode != 0:
        pytest.skip("a stand-in for /sys needs the right to mount")
    stand_in = Packages(tmp_path / "class")
    yield stand_in
    stand_in.end()


def figures(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[float, str]]:
    assert done.returncode == 0, done.stderr
    return {name: (float(value), unit) for name, value, unit in FIGURE.findall(done.stdout)}


@pytest.mark.parametrize("width", [1, 2])
def test_a_run_counts_each_joule_once(world: World, packages: Packages, tmp_path: Path, width: int) -> None:
    """The ranks share the counters, and so the joules. Units that were counted keep theirs where nothing counts."""
    words = ("run", world.training, "--run-dir", tmp_path / "run", "--set", f"run.ranks_per_unit={width}")
    done = packages.run(2, *words)
    assert "# joules: rapl; what is idle, and what others do, counts too" in done.stderr.splitlines()
    energy, unit = figures(done)["run/energy"]
    with h5py.File(tmp_path / "run" / "results.h5") as file:
        rows, facts = file["units"][()], dict(file["provenance"].attrs)
    assert unit == "J" and 0 < rows["joules"].sum() < facts["joules"] <= energy <= packages.spent
    assert facts["energy_source"] == "rapl" and set(rows["energy_source"]) == {b"rapl"}

    (tmp_path / "run" / "results.h5").unlink()
    again = subprocess.run(command(2, *words), env=environment(), text=True, capture_output=True, check=False)
    (line,) = (line for line in again.stderr.splitlines() if line.startswith("# joules: "))
    assert ("run/energy" in figures(again)) == (not line.startswith("# joules: none: "))  # this machine's own counters
    with h5py.File(tmp_path / "run" / "results.h5") as file:
        assert (file["units"][()] == rows).all()


def test_the_bench_counts_joules_an_item(packages: Packages, tmp_path: Path) -> None:
    done = packages.run(1, "bench", "--filter", "^(forward|ntk|merge/linear)$", "--device", "cpu",
                        "--repetitions", "20", "--json", tmp_path / "bench.json")
    figures_by_name = figures(done)
    assert {name: unit for name, (_, unit) in figures_by_name.items() if name.endswith("/energy")} == {
        "forward/energy": "J/image", "ntk/energy": "J/entry", "merge/linear/energy": "J/GB"}
    rows = {row["run_name"]: row for row in json.loads((tmp_path / "bench.json").read_text())["benchmarks"]
            if row["run_type"] == "aggregate"}
    for name, items in (("forward", 128), ("merge/linear", 1e-9 * rows["merge/linear"]["bytes"])):
        assert figures_by_name[f"{name}/energy"][0] * items == pytest.approx(rows[name]["joules"], rel=1e-4)
        assert 0 < rows[name]["joules"] <= packages.spent
    assert "# joules: rapl; " in done.stdout
