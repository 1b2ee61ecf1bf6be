# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the bench measures and does not only time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import launch
import pytest
from safetensors.numpy import load_file
from world import World

LAYERS, TOKENS, WIDTH, ALPHAS = 14, 65, 128, 3  # of linearity/vit12_*: the embedding's, 12 blocks', the output


def peak_memory(points: int, folder: Path) -> int:
    """Bytes beyond parameters."""
    done = subprocess.run(
        [launch.PROGRAM, "bench", "--filter", f"^linearity/vit12_{points}$", "--repetitions", "1", "--dump", folder],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(load_file(folder / "results" / f"linearity-vit12_{points}.safetensors")["peak_memory"][0])


def test_memory_of_linearity_does_not_grow_with_the_points(tmp_path: Path) -> None:
    """A pass and 16 points' features of T + 1 models, whatever the number of points; of each, inner products."""
    few, many = peak_memory(16, tmp_path / "few"), peak_memory(64, tmp_path / "many")
    # Each point has, for two pairs, layers whole and of the class token: 3 × 3 products, and 4 of each coefficient,
    # twice while they are gathered; and pixels.
    kept = (64 - 16) * (2 * 2 * LAYERS * (9 + 4 * ALPHAS) * 8 * 2 + 4 * 3 * 32 * 32)
    features = 4 * (64 - 16) * LAYERS * TOKENS * WIDTH  # of one model, of what is more
    assert many - few < kept < features / 5


SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "bench.schema.json").read_text(encoding="utf-8"))


def described(path: Path) -> dict[str, Any]:
    """What the bench wrote, which is as the schema says."""
    written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(written, SCHEMA)
    return written


def test_ranks_share_what_they_can_share(tmp_path: Path) -> None:
    """Each reads half, and the Gram matrix is bitwise that of vectors in memory; other cases are for one process."""
    together = launch.run(2, "bench", "--filter", "gram/out_of_core", "--repetitions", "1", "--json",
                          tmp_path / "bench.json")
    written = described(tmp_path / "bench.json")
    assert written["context"]["ranks"] == 2 and len(written["benchmarks"]) > 1
    assert together.returncode == 0, together.stderr
    assert "# ranks: 2" in together.stdout
    (row,) = (line for line in together.stdout.splitlines() if line.startswith("gram/out_of_core"))
    assert row.split()[-2:] == ["0.0e+00", "ok"]
    refused = launch.run(2, "bench", "--filter", "^forward$")
    assert refused.returncode == 2
    assert "no case of size medium that ranks share matches '^forward$'" in refused.stderr


def test_the_network_by_size(tmp_path: Path) -> None:
    """Latency, algorithm and bus bandwidth as nccl-tests and OSU define them: of n ranks, 2(n−1)/n and (n−1)/n."""
    done = launch.run(3, "bench", "--filter", "^network/", "--repetitions", "2", "--device", "cpu", "--json",
                      tmp_path / "bench.json")
    assert done.returncode == 0 and "# verdict: VALID, 11 cases" in done.stdout, done.stdout + done.stderr
    figures = {match[1]: (float(match[2]), match[3]) for line in done.stdout.splitlines()
               if (match := FIGURE.match(line))}
    medians = {row["run_name"]: row for row in described(tmp_path / "bench.json")["benchmarks"]
               if row["run_type"] == "aggregate"}
    for kind, bus in {"all_reduce": 4 / 3, "all_gather": 2 / 3, "point_to_point": 1}.items():
        for size, name in {8: "8B", 4 << 10: "4KiB", 256 << 10: "256KiB", 16 << 20: "16MiB"}.items():
            case = f"network/{kind}_{name}"
            if case == "network/all_gather_8B":  # three ranks have no four bytes each of these
                assert case not in medians
                continue
            row = medians[case]
            sent = 12 * (size // 12) if kind == "all_gather" else size  # whole numbers from each of three ranks
            calls = min(1000, (64 << 20) // sent) * (2 if kind == "point_to_point" else 1)
            (latency, microseconds), (algbw, unit), (busbw, _) = (figures[f"{case}/{of}"] for of in (
                "latency", "algbw", "busbw"))
            assert (microseconds, unit) == ("us", "B/s") and row["transfer_bytes"] == sent
            assert latency == pytest.approx(1e3 * row["real_time"] / calls, rel=1e-4)
            assert algbw == pytest.approx(sent / (1e-6 * latency), rel=1e-4)
            assert busbw == pytest.approx(bus * algbw, rel=1e-4)
            assert busbw == pytest.approx(row["bus_bandwidth"], rel=1e-4)
            assert f"{case}/share" not in figures and row["bound"] == "network"
            assert all(row[f"share_of_{peak}"] is None for peak in ("peak", "products", "triad"))
    alone = launch.run(1, "bench", "--filter", "^network/")
    assert alone.returncode == 2 and "no case of size medium matches '^network/'" in alone.stderr


def test_storage_beside_what_the_medium_gives(tmp_path: Path) -> None:
    """Each rank writes and reads 64 MiB of its own, and all of a packed task; results.h5 is of all ranks."""
    for ranks in (1, 2):
        done = launch.run(ranks, "bench", "--filter", "^storage/", "--repetitions", "1", "--device", "cpu", "--json",
                          tmp_path / "bench.json")
        assert done.returncode == 0 and "# verdict: VALID, 4 cases" in done.stdout, done.stdout + done.stderr
        medians = {row["run_name"]: row for row in described(tmp_path / "bench.json")["benchmarks"]
                   if row["run_type"] == "aggregate"}
        for name, bound in {"checkpoint_write": "write", "checkpoint_read": "read", "results_write": "write",
                            "packed_read": "read"}.items():
            row = medians[f"storage/{name}"]
            assert row["bound"] == bound and row["share_of_peak"] > 0
            rank_bytes = row["bytes"] / ranks
            assert rank_bytes == 64 << 20 if name != "packed_read" else 20_000 * 3072 < rank_bytes < 20_000 * 3300
            rate = re.search(rf"^FOM storage/{name}/rate = (\S+) B/s$", done.stdout, re.MULTILINE)
            assert rate and float(rate[1]) == pytest.approx(1e3 * row["bytes"] / row["real_time"], rel=1e-4)


def test_the_json_is_as_its_schema_says(tmp_path: Path) -> None:
    """The schema says enough, too: without any of its parts, or with one more, a file is refused."""
    done = launch.run(1, "bench", "--size", "small", "--repetitions", "2", "--device", "cpu", "--json",
                      tmp_path / "bench.json")
    assert done.returncode == 0, done.stderr
    written = described(tmp_path / "bench.json")
    assert written["schema_version"] == 2 and written["context"]["size"] == "small"
    runs, medians = ([row for row in written["benchmarks"] if row["run_type"] == kind]
                     for kind in ("iteration", "aggregate"))
    assert [row["run_name"] for row in medians] == ["combine", "gram", "forward", "step/standard"]
    assert len(runs) == sum(row["repetitions"] for row in medians) >= 8
    for row in medians:
        of_products, of_triad = (row[f"share_of_{name}"] for name in ("products", "triad"))
        assert row["share_of_peak"] == max(of_products, of_triad) and row["valid"]
        assert row["bound"] == ("products" if of_products > of_triad else "triad")
        seconds = row["flops"] / written["context"]["peak_flops"] / of_products
        assert seconds * 1e3 == pytest.approx(row["real_time"])
    assert written["versions"]["mpi_loaded"] and written["versions"]["git_revision"] in written["context"]["taugrid"]
    for place in (written, written["context"], written["versions"], runs[0], medians[0]):
        # The peak stands where the processor or the GPU multiplies bfloat16, and old files lack what multiplies.
        for name in set(place) - {"peak_bf16_flops", "products"}:
            kept = place.pop(name)
            assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(written), name
            place[name] = kept
    for place in (written, written["context"], runs[0], medians[0]):
        place["more"] = 1
        assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(written)
        del place["more"]
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(written)


def test_the_roofline_says_what_bounds_each_case(tmp_path: Path) -> None:
    """Its rows are the file's numbers: flops a byte, both rates beside both ceilings, the nearer of which binds."""
    done = launch.run(1, "bench", "--filter", "^(combine|gram|forward)$", "--roofline", "--repetitions", "1",
                      "--device", "cpu", "--json", tmp_path / "bench.json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("# roofline: "))
    written = described(tmp_path / "bench.json")
    assert f"memory_traffic: {written['context']['memory_traffic']}" in done.stdout
    rows = [row for row in written["benchmarks"] if row["run_type"] == "aggregate"]
    for row, line in zip(rows, lines[head + 3:head + 6], strict=True):
        name, *numbers, bound, traffic = line.replace("%", "").split()
        seconds = row["real_time"] / 1e3
        expected = [row["flops"] / row["bytes"], row["flops"] / seconds / 1e9, 100 * row["share_of_products"],
                    row["bytes"] / seconds / 1e9, 100 * row["share_of_triad"]]
        assert [name, bound] == [row["run_name"], row["bound"]]
        assert [float(number) for number in numbers] == pytest.approx(expected, rel=5e-3, abs=0.06)
        assert (traffic == "-") == (row["memory_bytes"] is None)
        assert bound == ("products" if row["share_of_products"] > row["share_of_triad"] else "triad")
    assert [rows[0]["bound"], rows[2]["bound"]] == ["triad", "products"]  # gram lies near the ridge of some processors


def test_sizes_are_cases() -> None:
    small, medium, large = (launch.printed("bench", "--list", "--size", size).split()
                            for size in ("small", "medium", "large"))
    assert medium == launch.printed("bench", "--list").split()
    assert set(small) < set(medium) < set(large) and "gram/roberta_70" in set(large) - set(medium)
    assert launch.printed("bench", "--list", "--size", "small", "--filter", "^gram/roberta_70$").split() == [
        "gram/roberta_70"]  # what is named
    refused = launch.run(1, "bench", "--list", "--size", "small", "--filter", "ntk|jvp")
    assert refused.returncode == 2 and "no case of size small matches 'ntk|jvp'" in refused.stderr
    launch.complaint(launch.run(1, "bench", "--size", "huge"), "--size")


# docs/figures_of_merit.md; energies, which machines with counters have, are test_energy's.
FIGURE = re.compile(r"FOM (?!\S+/energy )(\S+) = ([-+.0-9e]+) (\S+)$")


def test_figures_of_merit_are_those_of_the_rows() -> None:
    done = launch.run(1, "bench", "--filter", "^(combine|forward)$", "--repetitions", "1", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOM") and "/energy = " not in line]
    figures = {match[1]: (float(match[2]), match[3]) for line in lines if (match := FIGURE.match(line))}
    assert len(figures) == len(lines)
    assert figures.keys() - {"peak/products_bf16"} == {"peak/products", "peak/triad", "combine/rate", "combine/share",
                                                       "forward/rate", "forward/share"}
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith("forward"))
    value, unit = figures["forward/rate"]
    assert unit == "images/s" and abs(128 / float(row[1]) * 1e3 / value - 1) < 1e-3
    assert all(figures[f"{case}/share"][0] > 0 for case in ("combine", "forward"))
    assert done.stdout.splitlines()[-1] == "# verdict: VALID, 2 cases"


def test_a_run_ends_with_its_figures_and_its_results(world: World, tmp_path: Path) -> None:
    """A speed is that of all of the work: a run that goes on, and finds some of it done, has none."""
    for expected in ({"run/time", "run/units", "run/rate", "run/speed"}, {"run/time", "run/units"}):
        done = launch.run(1, "run", world.experiment, "--run-dir", tmp_path / "run")
        assert done.returncode == 0, done.stderr
        *figures, last = (line for line in done.stdout.splitlines() if "/energy = " not in line)
        assert last == str(tmp_path / "run" / "results.h5")
        assert {match[1] for line in figures if (match := FIGURE.match(line))} == expected
        assert len(figures) == len(expected)


def test_a_bench_that_is_told_to_stop_says_what_it_measured() -> None:
    cases = "^(combine|gram|forward|jvp|ntk)$"
    job = launch.start(1, "bench", "--filter", cases, "--repetitions", "3", "--device", "cpu")
    assert job.stdout
    for line in job.stdout:
        if line.startswith("combine"):
            break
    (rank,) = launch.ranks_of(job)
    os.kill(rank, signal.SIGTERM)
    said, _ = job.communicate(timeout=launch.PATIENCE)
    assert job.returncode == 75
    assert re.search(r"^# stopped by SIGTERM: [1-4] of 5 cases measured$", said, re.MULTILINE), said
    assert "INVALID" not in said


def test_verify_names_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix product that is 1 % too large is seen where one is computed, be it by the other computation alone."""
    monkeypatch.setenv("LD_PRELOAD", f"{os.environ['TAUGRID_WRONG_PRODUCT']} {launch.PRELOADED}")
    products = {"forward", "jvp", "step/standard", "ntk", "hvp/first", "lambda_max/lanczos", "resnet/ntk",
                "text/forward", "decoder/forward", "decoder/step", "decoder/lambda_max", "fisher", "regmean"}
    others = {"merge/linear", "merge/ties", "hdf5_write", "storage/packed_read"}
    done = launch.run(1, "verify", "--device", "cpu", "--filter", f"^({'|'.join(products | others)})$")
    assert done.returncode == 1, done.stdout + done.stderr
    *lines, last = done.stdout.splitlines()
    results = {row[0]: row[-1] for row in (line.split() for line in lines if not line.startswith("#"))}
    wrong = [name for name, result in results.items() if result == "WRONG"]
    assert last == "# verify: WRONG: " + ", ".join(wrong)
    assert results == dict.fromkeys(products, "WRONG") | dict.fromkeys(others, "ok")


def test_verify_is_right_on_whichever_processor_this_is() -> None:
    """Every case that has a result stands beside recorded values."""
    done = launch.run(1, "verify", "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, last = done.stdout.splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    assert re.fullmatch(rf"# verify: RIGHT, {len(rows)} cases", last)
    listed = launch.printed("bench", "--list").split()
    assert [row[0] for row in rows] == listed
    beside = {row[0] for row in rows if "-" not in row[1:]}
    assert {"combine", "gram", "forward", "jvp", "step/standard", "step/linear", "ntk", "hvp/first", "resnet/ntk",
            "lambda_max/lanczos", "grid/nonlinear_7x7", "text/forward", "decoder/forward", "fisher"} <= beside
    unknown = launch.run(1, "verify", "--device", "cpu", "--filter", "decoders")
    launch.complaint(unknown, "--filter", "'decoders'", "taugrid bench --list")
    refused = launch.run(2, "verify", "--device", "cpu")
    assert refused.returncode == 2 and "taugrid verify is for one process" in refused.stderr
