# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid merge by several ranks, and over several starts: the same bytes as one rank makes at once."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import launch
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_merge_folders import Tensors, write

# What methods need beside their defaults, to have cuts, drops and factors; and how many models some take.
PARAMETERS = dict.fromkeys([
    "linear", "task_arithmetic", "magmax", "emr", "model_stock", "ram", "ramplus_tl", "nuslerp", "multislerp",
    "karcher", "arcee_fusion", "consensus_ta", "consensus_ties", "tsv_m", "iso_c", "iso_cts", "wudi", "cart",
    "dc_merge", "passthrough",
], "") | {
    "ties": "density = 0.3", "top_k": "density = 0.3", "dare_linear": "density = 0.5", "dare_ties": "density = 0.5",
    "della_linear": "density = 0.5, epsilon = 0.1", "della": "density = 0.5, epsilon = 0.1", "pcb": "density = 0.5",
    "breadcrumbs": "density = 0.6, gamma = 0.1", "breadcrumbs_ties": "density = 0.6, gamma = 0.1",
    "sce": "select_topk = 0.4", "slerp": "t = 0.3", "nearswap": "t = 0.01",
}  # fmt: skip
COUNT = {"slerp": 2, "nuslerp": 2, "nearswap": 1, "arcee_fusion": 1, "passthrough": 1}
# A cut of the whole vector among equal numbers, a majority, cuts by tensor, and matrices that are calibrated.
VARIANTS = [
    ("ties", 'density = 0.3, cut = "exact"'), ("ties", 'density = 0.3, scope = "tensor"'),
    ("ties", 'density = 0.3, zero_sign = "majority"'), ("ties", "density = 0.3, calibration = 0.5"),
    ("tsv_m", "calibration = 0.5"), ("pcb", 'density = 0.5, scope = "tensor"'),
]  # fmt: skip


def models(folder: Path, count: int = 3, layers: int = 6, width: int = 40) -> None:
    """Vectors on a coarse grid: equal magnitudes, zeros, signs that cancel. One tensor is bfloat16, and tied to another
    that the base alone has; one is not merged, one empty."""
    draw = torch.Generator().manual_seed(0)
    base: Tensors = {"counter": torch.arange(7), "nothing": torch.zeros(0, 4)}
    for i in range(layers):
        base[f"layers.{i}.w"] = torch.randn(width, width // 2, generator=draw)
        base[f"layers.{i}.b"] = torch.randn(width, generator=draw)
    base["embed.weight"] = torch.randn(5 * width, width // 4, generator=draw).to(torch.bfloat16)
    write(folder / "base", base | {"lm_head.weight": base["embed.weight"].clone()})
    for t in range(count):
        write(folder / f"m{t}", {
            name: (x.float() + torch.round(torch.randn(x.shape, generator=draw) * 2) / 16).to(x.dtype)
            if x.is_floating_point() else x for name, x in base.items()
        })  # fmt: skip


def recipe(folder: Path, method: str, parameters: str, out: str) -> Path:
    entries = ", ".join(f'{{ model = "m{t}" }}' for t in range(COUNT.get(method, 3)))
    path = folder / f"{Path(out).name}.toml"
    path.write_text(
        f'merge_method = "{method}"\nbase_model = "base"\nout = "{out}"\nparameters = {{ {parameters} }}\n'
        f"models = [ {entries} ]\n"
    )
    return path


def contents(out: Path) -> dict[str, bytes]:
    """What all files hold; what the card and the recipe say of paths aside."""
    assert not list(out.parent.glob(".*.partial"))
    files = {path.name: path.read_bytes() for path in out.iterdir() if path.suffix != ".md"}
    files["merge.toml"] = files["merge.toml"].splitlines()[1]  # numbers, and the merged vector's density
    return files


def merged_files(folder: Path, method: str, parameters: str, ranks: int) -> dict[str, bytes]:
    out = f"{method}-{ranks}"
    done = launch.run(ranks, "merge", recipe(folder, method, parameters, out))
    assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    return contents(folder / out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("ranks")
    models(base)
    return base


def test_every_method_is_here() -> None:
    reference = launch.printed("keys", "--recipe")
    assert set(re.findall(r"\[parameters\] of \[(\w+)\]", reference)) == set(PARAMETERS)


@pytest.mark.parametrize(("method", "parameters"), [*PARAMETERS.items(), *VARIANTS])
def test_any_number_of_ranks_gives_the_same_bytes(folder: Path, tmp_path: Path, method: str, parameters: str) -> None:
    for name in ("base", *(f"m{t}" for t in range(3))):
        (tmp_path / name).symlink_to(folder / name)
    alone = merged_files(tmp_path, method, parameters, 1)
    for ranks in (2, 4) if method in ("linear", "ties") else (4,):
        assert merged_files(tmp_path, method, parameters, ranks) == alone


def test_a_long_tensor_is_cut_where_numbers_are_alone(tmp_path: Path) -> None:
    for name, scale in (("base", 1.0), ("m0", 1.5), ("m1", -0.25)):
        numbers = torch.arange(2**25 + 4097).remainder(251).mul(scale).to(torch.bfloat16)
        write(tmp_path / name, {"embed.weight": numbers.view(-1, 1)})
    recipes = [recipe(tmp_path, "task_arithmetic", "", out) for out in ("one", "two")]
    for path in recipes:
        path.write_text(path.read_text().replace(', { model = "m2" }', ""))
    assert launch.run(1, "merge", recipes[0]).returncode == 0
    done = launch.run(2, "merge", recipes[1])
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert "2 ranks: each reads 201.3 MB and writes 67.1 MB at most" in done.stdout


def journals(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob(".out.partial/.finished.*"))


def started(folder: Path, method: str, ranks: int, parameters: str = "") -> subprocess.Popen[str]:
    """A merge of which each rank has finished something, and none all."""
    job = launch.start(ranks, "merge", recipe(folder, method, parameters, "out"))
    assert launch.wait_until(lambda: journals(folder).count("end") >= 2, job)
    return job


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Matrices whose factors take some hundred milliseconds each."""
    base = tmp_path_factory.mktemp("slow")
    models(base, layers=28, width=900)
    assert launch.run(1, "merge", recipe(base, "tsv_m", "", "whole")).returncode == 0
    return base


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Matrices that take long enough for a kill right after the folder is laid out."""
    base = tmp_path_factory.mktemp("brief")
    models(base, layers=8, width=500)
    return base


def linked(slow: Path, folder: Path) -> Path:
    for path in slow.iterdir():
        if path.is_dir():
            (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 1), (1, 2)])
def test_a_killed_merge_goes_on_with_other_ranks(slow: Path, tmp_path: Path, before: int, after: int) -> None:
    folder = linked(slow, tmp_path)
    job = started(folder, "tsv_m", before)
    launch.kill_all(job)
    assert job.returncode != 0 and not (folder / "out").exists()
    part = folder / ".out.partial/model.safetensors"
    file, lines = part.stat().st_ino, journals(folder).count("end")
    (folder / ".out.partial/.finished.9").write_text(
        "\n0 -5 3 3 0 0 end\n7 0 4 4 0 0 end\n0 0 99999999999 4 0 0 end\n0 1 2")
    done = launch.run(after, "merge", recipe(folder, "tsv_m", "", "out"))
    assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    assert contents(folder / "out") == contents(slow / "whole")
    assert (folder / "out/model.safetensors").stat().st_ino == file and lines >= 2
    passes = re.search(r"([\d.]+) passes over the vectors", done.stdout)
    assert passes is not None and float(passes[1]) < 0.97  # the rest alone


def test_slices_go_on_after_a_kill(slow: Path, tmp_path: Path) -> None:
    """Two stages that write one file: the first is finished, and not made again, the second has just begun."""
    folder = linked(slow, tmp_path)
    (folder / "base").unlink()
    shutil.copytree(slow / "base", folder / "base")
    (folder / "base/config.json").write_text('{"model_type": "none of ours", "num_hidden_layers": 28}')
    slices = "".join(
        "[[slices]]\n" + "".join(f'[[slices.sources]]\nmodel = "m{t}"\nlayer_range = {part}\n' for t in range(3))
        for part in ([0, 10], [10, 28])
    )

    def sliced(out: str) -> Path:
        path = folder / f"{out}.toml"
        path.write_text(f'merge_method = "tsv_m"\nbase_model = "base"\nout = "{out}"\n{slices}')
        return path

    assert launch.run(1, "merge", sliced("at-once")).returncode == 0
    job = launch.start(2, "merge", sliced("out"))
    assert launch.wait_until(lambda: journals(folder).count("end") >= 4, job)  # all of the first
    launch.kill_all(job)
    assert not (folder / "out").exists()
    done = launch.run(4, "merge", sliced("out"))
    assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    assert contents(folder / "out") == contents(folder / "at-once")
    passes = re.search(r"([\d.]+) passes over the vectors", done.stdout)
    assert passes is not None and float(passes[1]) < 0.75


def test_a_stopped_merge_goes_on(slow: Path, tmp_path: Path) -> None:
    folder = linked(slow, tmp_path)
    job = started(folder, "tsv_m", 2)
    job.send_signal(signal.SIGUSR1)  # mpirun hands it on
    _, errors = job.communicate(timeout=launch.PATIENCE)
    assert job.returncode == 75 and launch.without_progress(errors).count("\n") == 1
    assert "taugrid: stopped: merge: by SIGUSR1; what is finished stays in" in errors and ".out.partial" in errors
    done = launch.run(2, "merge", recipe(folder, "tsv_m", "", "out"))
    assert done.returncode == 0 and contents(folder / "out") == contents(slow / "whole")


def begun(folder: Path, method: str, parameters: str) -> None:
    """The folder that is built, as a kill leaves it right after it was laid out: weights of zeros."""
    for _ in range(20):  # until the kill comes in time
        job = launch.start(2, "merge", recipe(folder, method, parameters, "out"))
        launch.wait_until((folder / ".out.partial/.begun").exists, job)
        launch.kill_all(job)
        if (folder / ".out.partial/.begun").exists():
            return
        shutil.rmtree(folder / "out")
    raise AssertionError("no kill came in time")


def place(file: Path, name: str) -> tuple[int, int]:
    """Where the bytes of a tensor lie in a file of safetensors."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    begin, end = json.loads(content[8 : 8 + length])[name]["data_offsets"]
    return 8 + length + begin, 8 + length + end


@pytest.mark.parametrize(("zero_sign", "balance", "scope", "ranks"), [
    ("positive", 0, "vector", 3), ("majority", 10**9, "vector", 3), ("majority", -(10**9), "vector", 3),
    ("majority", 10**9, "tensor", 1), ("majority", -(10**9), "tensor", 1), ("majority", -(10**9), "tensor", 3),
])  # fmt: skip
def test_what_the_journal_calls_finished_is_not_made_again(
    slow: Path, tmp_path: Path, zero_sign: str, balance: int, scope: str, ranks: int
) -> None:
    """A line says that some tensors of a merge by cuts are finished, which have other bytes than they would get: these
    stay, all others come, and the density counts what the journal says. Where most places of the journal elected −,
    those that cancel become − everywhere, and the tensors are made again."""
    folder = linked(slow, tmp_path)
    method, cut = "ties", f'density = 0.3, scope = "{scope}"'
    parameters = f'{cut}, zero_sign = "{zero_sign}"'
    fresh = recipe(folder, method, f'{cut}, zero_sign = "positive"', "fresh")
    assert launch.run(1, "merge", fresh).returncode == 0
    begun(folder, method, parameters)
    weights = folder / ".out.partial/model.safetensors"
    expected, start = load_file(folder / "fresh/model.safetensors"), load_file(folder / "base/model.safetensors")
    merged = [name for name in sorted(expected) if name not in ("counter", "lm_head.weight", "nothing")]
    first = merged.index("layers.3.w")
    finished = merged[first : first + 4]
    before = sum(expected[name].numel() for name in merged[:first])
    numbers = sum(expected[name].numel() for name in finished)
    nonzero = sum(int((expected[name] != start[name]).sum()) for name in finished)
    for journal in folder.glob(".out.partial/.finished.*"):
        journal.unlink()
    line = f"0 {before} {numbers} {nonzero} 1 {balance} end\n"
    (folder / ".out.partial/.finished.0").write_text(line)
    places = [place(weights, name) for name in finished]
    with open(weights, "r+b") as file:
        for name, (begin, end) in zip(finished, places, strict=True):
            file.seek(begin)
            file.write(torch.full_like(expected[name], 7).numpy().tobytes())
            assert file.tell() == end
    done = launch.run(ranks, "merge", recipe(folder, method, parameters, "out"))
    assert done.returncode == 0, done.stderr
    out = load_file(folder / "out/model.safetensors")
    if balance < 0:
        for name in merged:
            expected_tau, tau = (x[name].double() - start[name].double() for x in (expected, out))
            is_other = tau != expected_tau
            assert is_other.any() and (tau[is_other] < 0).all() and (expected_tau[is_other] > 0).all()
    else:
        assert all(out[name].eq(7).all() for name in finished)
        assert all(torch.equal(out[name], expected[name]) for name in expected if name not in finished)
    records = [(folder / name / "merge.toml").read_text().splitlines()[1] for name in ("out", "fresh")]
    assert records[0] == records[1]


@pytest.mark.parametrize("change", ["recipe", "input", "weights"])
def test_what_is_no_longer_as_it_was_starts_anew(brief: Path, tmp_path: Path, change: str) -> None:
    folder = linked(brief, tmp_path)
    begun(folder, "tsv_m", "")
    (folder / ".out.partial/.finished.0").write_text("0 0 100000000 1 0 0 end\n0 0 5000 1 0 0 end\n")
    weights, method = folder / ".out.partial/model.safetensors", "tsv_m"
    if change == "recipe":
        method = "task_arithmetic"
    elif change == "input":
        (folder / "m1").unlink()
        (folder / "m1").symlink_to(brief / "m2")
    else:
        weights.write_bytes(weights.read_bytes()[:-1])
    done = launch.run(2, "merge", recipe(folder, method, "", "out"))
    assert done.returncode == 0, done.stderr
    assert launch.run(1, "merge", recipe(folder, method, "", "fresh")).returncode == 0
    assert contents(folder / "out") == contents(folder / "fresh")


def test_one_folder_is_made_by_one_merge(slow: Path, tmp_path: Path) -> None:
    folder = linked(slow, tmp_path)
    job = started(folder, "tsv_m", 2)
    ranks = launch.ranks_of(job)
    for pid in ranks:
        os.kill(pid, signal.SIGSTOP)  # it does not end meanwhile
    second = launch.run(1, "merge", recipe(folder, "tsv_m", "", "out"))
    for pid in ranks:
        os.kill(pid, signal.SIGCONT)
    launch.complaint(second, folder / "out", "another process", "locked")
    assert job.wait(launch.PATIENCE) == 0
    assert contents(folder / "out") == contents(slow / "whole")


@pytest.mark.parametrize(("variables", "problem"), [
    ({"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}, "srun started 2 tasks and connects none of them"),
    ({"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}, ""),  # the first has said it
])
def test_processes_that_do_not_know_of_each_other_are_refused(
        folder: Path, tmp_path: Path, variables: dict[str, str], problem: str) -> None:
    """Each would merge all of it into the same folder."""
    done = subprocess.run([os.environ["TAUGRID"], "merge", recipe(folder, "linear", "", str(tmp_path / "out"))],
                          env=os.environ | variables, text=True, capture_output=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == (1 if problem else 0) and problem in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_in_the_way_stays(folder: Path, tmp_path: Path) -> None:
    for name in ("base", *(f"m{t}" for t in range(3))):
        (tmp_path / name).symlink_to(folder / name)
    in_the_way = tmp_path / ".out.partial"
    in_the_way.mkdir()
    (in_the_way / "theirs").write_text("kept")
    for ranks in (1, 2):
        done = launch.run(ranks, "merge", recipe(tmp_path, "linear", "", "out"))
        launch.complaint(done, in_the_way, "in the way")
    assert (in_the_way / "theirs").read_text() == "kept" and not (tmp_path / "out").exists()
    theirs = in_the_way.rename(tmp_path / "theirs") / "theirs"
    for put in (lambda: in_the_way.write_text("kept"), lambda: in_the_way.symlink_to(theirs)):
        in_the_way.unlink(missing_ok=True)
        put()
        launch.complaint(launch.run(1, "merge", recipe(tmp_path, "linear", "", "out")), in_the_way, "in the way")
        assert in_the_way.read_text() == "kept"


def test_a_start_that_cannot_look_at_an_earlier_one_leaves_it(folder: Path, tmp_path: Path) -> None:
    for name in ("base", *(f"m{t}" for t in range(3))):
        (tmp_path / name).symlink_to(folder / name)
    begun = tmp_path / ".out.partial"
    (begun / ".begun").mkdir(parents=True)  # what cannot be read, whoever reads it
    (begun / ".lock").touch()
    (begun / "model.safetensors").write_text("hours of work")
    done = launch.run(1, "merge", recipe(tmp_path, "linear", "", "out"))
    launch.complaint(done, begun / ".begun", "is a folder")
    assert (begun / "model.safetensors").read_text() == "hours of work"


@pytest.mark.parametrize(("method", "parameters"), [
    ("task_arithmetic", ""), ("ties", 'density = 0.3, scope = "tensor"'), ("slerp", "t = 0.3"), ("karcher", ""),
])  # fmt: skip
def test_threads_of_one_process_make_the_same_bytes(slow: Path, tmp_path: Path, method: str, parameters: str) -> None:
    folder = linked(slow, tmp_path)
    for threads in (1, 4):
        done = launch.run(1, "merge", recipe(folder, method, parameters, f"out{threads}"), threads=threads)
        assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    assert contents(folder / "out1") == contents(folder / "out4")


@pytest.mark.parametrize(("ranks", "threads"), [(1, 1), (4, 1), (1, 4)])
def test_nan_that_one_meets_ends_all(folder: Path, tmp_path: Path, ranks: int, threads: int) -> None:
    models(tmp_path, layers=40, width=600 if threads > 1 else 300)
    bad = load_file(tmp_path / "m1/model.safetensors")
    bad["layers.17.w"][3, 3] = torch.nan
    write(tmp_path / "m1", bad)
    path = recipe(tmp_path, "ties", 'density = 0.3, scope = "tensor"', "out")
    done = launch.run(ranks, "merge", path, threads=threads)
    launch.complaint(done, "m1", "layers.17.w", "NaN")
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".*.partial"))


def test_a_full_disk_ends_all_and_keeps_nothing(tmp_path: Path) -> None:
    models(tmp_path, layers=40, width=300)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", disk], check=False, capture_output=True)
    if mount.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        for size, ranks in (("8k", 2), ("100k", 4), ("2m", 2), ("4m", 4)):  # of seven megabytes
            subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)
            done = launch.run(ranks, "merge", recipe(tmp_path, "task_arithmetic", "", "disk/new/out"))
            launch.complaint(done, disk, "No space left on device")
            assert not list(disk.iterdir())
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)  # ranks that were ended may hold files for a moment


def layered(folder: Path, layers: int, width: int) -> Path:
    """Three models that differ from their base in matrices and biases of layers, in a head, and in one parameter that
    PEFT has no place for."""
    draw = torch.Generator().manual_seed(1)
    base = {"scale": torch.randn(width, generator=draw), "lm_head.weight": torch.randn(30, width, generator=draw)}
    for i in range(layers):
        base[f"layers.{i}.proj.weight"] = torch.randn(width, width // 2, generator=draw)
        base[f"layers.{i}.proj.bias"] = torch.randn(width, generator=draw)
    write(folder / "base", base)
    for t in range(3):
        write(folder / f"m{t}", {name: x + torch.round(torch.randn(x.shape, generator=draw) * 2) / 16
                                 for name, x in base.items()})  # fmt: skip
    return folder


def to_adapter(folder: Path, method: str, parameters: str, rank: str, out: str) -> Path:
    path = recipe(folder, method, parameters, out)
    path.write_text(path.read_text() + f"adapter = {{ {rank} }}\n")
    return path


# One tensor after another; cuts of the whole vector; the models themselves; factors of matrices.
TO_ADAPTERS = [("task_arithmetic", ""), ("ties", "density = 0.3"), ("slerp", "t = 0.3"), ("tsv_m", "")]


@pytest.mark.parametrize(("method", "parameters"), TO_ADAPTERS)
def test_any_number_of_ranks_gives_the_same_adapter(tmp_path: Path, method: str, parameters: str) -> None:
    layered(tmp_path, layers=5, width=40)
    outs = []
    for ranks in (1, 2, 4):
        path = to_adapter(tmp_path, method, parameters, "rank = 3", f"out{ranks}")
        done = launch.run(ranks, "merge", path)
        assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
        assert "an adapter: 6 matrices of rank 3" in done.stdout and '"scale": differs' in done.stdout
        assert ranks == 1 or f"{ranks} ranks: each reads" in done.stdout
        outs.append(contents(tmp_path / f"out{ranks}"))
        assert set(outs[0]) == {"adapter_config.json", "adapter_model.safetensors", "merge.toml"}
    assert outs[1] == outs[0] and outs[2] == outs[0]


def test_threads_make_the_vectors_of_an_adapter(tmp_path: Path) -> None:
    """The factors are rounded otherwise by several threads; their products are as near to the merged matrix."""
    base = layered(tmp_path, layers=12, width=600)
    for threads in (1, 4):
        by_tensor = 'density = 0.3, scope = "tensor", zero_sign = "positive"'
        done = launch.run(1, "merge", to_adapter(base, "ties", by_tensor, "rank = 3", f"out{threads}"), threads=threads)
        assert done.returncode == 0, done.stderr
    single, four = (load_file(base / f"out{threads}/adapter_model.safetensors") for threads in (1, 4))
    assert set(single) == set(four)
    for name in (name.removesuffix("A.weight") for name in single if "lora_A" in name):
        products = [x[f"{name}B.weight"].double() @ x[f"{name}A.weight"].double() for x in (single, four)]
        torch.testing.assert_close(products[0], products[1], rtol=1e-5, atol=1e-6)


def test_any_number_of_ranks_extracts_the_same(tmp_path: Path) -> None:
    layered(tmp_path, layers=5, width=40)
    for ranks in (1, 3):
        folders = (tmp_path / name for name in ("base", "m0", f"out{ranks}"))
        done = launch.run(ranks, "extract", *folders, "--share", "0.5")
        assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "out1") == contents(tmp_path / "out3")


@pytest.mark.parametrize("method", ["task_arithmetic", "ties"])
def test_a_killed_adapter_goes_on_with_other_ranks(tmp_path: Path, method: str) -> None:
    """What was factored is not factored again: zeros that are written in the place of one matrix' factors stay. What
    has another shape, or is no file of tensors, is made again."""
    layered(tmp_path, layers=24, width=600)
    cut = "density = 0.3" if method == "ties" else ""
    whole = to_adapter(tmp_path, method, cut, "rank = 2", "whole")
    assert launch.run(1, "merge", whole).returncode == 0
    making = tmp_path / ".out.partial/.making"
    job = launch.start(2, "merge", to_adapter(tmp_path, method, cut, "rank = 2", "out"))
    assert launch.wait_until(lambda: len(list(making.glob("factors.*.safetensors"))) >= 3, job)
    launch.kill_all(job)
    finished = sorted(making.glob("factors.*.safetensors"))
    assert len(finished) < 24 and not (tmp_path / "out").exists()
    factors = load_file(finished[0])
    number = int(finished[0].name.split(".")[1])
    save_file(factors | {"a": torch.zeros_like(factors["a"])}, finished[0])
    save_file(factors | {"a": torch.zeros(2, 3)}, finished[1])
    finished[2].write_bytes(b"{}")
    done = launch.run(3, "merge", tmp_path / "out.toml")
    assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    name = sorted(load_file(tmp_path / "base/model.safetensors"))[number].removesuffix("weight")
    out, expected = (load_file(tmp_path / f"{name}/adapter_model.safetensors") for name in ("out", "whole"))
    changed = {key for key, x in out.items() if not torch.equal(x, expected[key])}
    assert changed == {f"base_model.model.{name}lora_A.weight"} and set(out) == set(expected)
    assert not list((tmp_path / "out").glob(".[fmv]*"))  # neither journals nor factors


def test_the_plan_of_an_adapter(tmp_path: Path) -> None:
    layered(tmp_path, layers=16, width=300)
    numbers = 16 * 300 * 151 + 31 * 300
    for method, kept in (("task_arithmetic", 0), ("ties", 4)):
        path = to_adapter(tmp_path, method, "", "rank = 2", method)
        done = launch.run(1, "merge", path, "--plan", "1,4")
        assert done.returncode == 0, done.stderr
        rows = {int(row[0]): row for row in map(str.split, done.stdout.splitlines()) if row[0].isdigit()}
        least = (4 * 4 + kept) * numbers / 1e6  # θ0 and three models; λτ as it was kept
        assert rows[1][2] == rows[1][4] == rows[1][6] == "MB"
        # ties goes through them several times
        assert least < float(rows[1][1]) < (4 if method == "ties" else 1.2) * least
        assert float(rows[4][1]) < 0.5 * float(rows[1][1]) and float(rows[4][7]) < 0.3 * float(rows[1][7])
        done = launch.run(1, "merge", path)
        assert done.returncode == 0, done.stderr
        measured = 2**20 * int(re.search(r"anonymous memory (\d+) MiB", done.stdout)[1])  # type: ignore[index]
        assert measured < 1.5e6 * float(rows[1][5]) + 40e6


def sparse_llama(folder: Path, layers: int, width: int, inner: int, rows: int, kv: int) -> Path:
    """A Llama of this shape in bfloat16, in a part a layer: headers, and holes for the numbers."""
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "none of ours"}')
    layer = {"q_proj": (width, width), "k_proj": (kv, width), "v_proj": (kv, width), "o_proj": (width, width)}
    mlp = {"gate_proj": (inner, width), "up_proj": (inner, width), "down_proj": (width, inner)}
    parts: list[dict[str, tuple[int, ...]]] = [
        {"model.embed_tokens.weight": (rows, width), "lm_head.weight": (rows, width), "model.norm.weight": (width,)}
    ]
    for i in range(layers):
        names = {f"self_attn.{name}": shape for name, shape in layer.items()} | {f"mlp.{k}": v for k, v in mlp.items()}
        parts.append({f"model.layers.{i}.{name}.weight": shape for name, shape in names.items()})
    places = {}
    for p, tensors in enumerate(parts):
        name, at, header = f"model-{p:05}.safetensors", 0, {}
        for tensor, shape in tensors.items():
            end = at + 2 * math.prod(shape)
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
            at, places[tensor] = end, name
        text = json.dumps(header).encode()
        with open(folder / name, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + at)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def storage(path: Path, ranks: int, read: float, written: float) -> Path:
    """What the bench says of a file system, in bytes a second."""
    cases = [{"run_type": "aggregate", "run_name": f"storage/checkpoint_{name}", "real_time": 1e3, "bytes": rate}
             for name, rate in (("read", read), ("write", written))]
    path.write_text(json.dumps({"context": {"processor": "any", "ranks": ranks}, "benchmarks": cases}))
    return path


def test_the_plan_of_eight_models_of_70_billion_on_eight_nodes(tmp_path: Path) -> None:
    for name in ("base", *(f"m{t}" for t in range(8))):
        sparse_llama(tmp_path / name, layers=80, width=8192, inner=28672, rows=128256, kv=1024)
    path = tmp_path / "recipe.toml"
    entries = ", ".join(f'{{ model = "m{t}" }}' for t in range(8))
    path.write_text(f'merge_method = "task_arithmetic"\nbase_model = "base"\nmodels = [ {entries} ]\n')
    bench = storage(tmp_path / "bench.json", ranks=64, read=80e9, written=40e9)
    done = launch.run(1, "merge", path, "--plan", "1,8,64", "--bench", bench)
    assert done.returncode == 0, done.stderr
    model = 2 * sum(math.prod(x) for x in (*[(128256, 8192)] * 2, (8192,), *[(8192, 8192)] * 160, *[(1024, 8192)] * 160,
                                           *[(28672, 8192)] * 240))  # fmt: skip
    assert 1.41e11 < model < 1.42e11
    rows = {int(row[0]): row for row in map(str.split, done.stdout.splitlines()) if row[0].isdigit()}
    for ranks in (1, 8, 64):
        _, read, _, written, _, memory, unit, _, seconds = rows[ranks]
        assert unit == "MB" and 100 < float(memory) < 120  # stretches alone, whatever the models' size
        assert 0.999 < float(read) * ranks / (9 * model / 1e9) < 1.05  # the busiest has little more than its part
        assert 0.99 < float(written) * ranks / (model / 1e9) < 1.05
        # Each rank has a 64th of what 64 ranks did when they were measured.
        assert float(seconds) == pytest.approx(64 * (float(read) / 80 + float(written) / 40), rel=0.02, abs=0.6)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    models(folder, layers=2, width=1200)
    return folder


@pytest.mark.parametrize(
    ("method", "parameters"),
    [("linear", ""), ("ties", "density = 0.3"), ("tsv_m", ""), ("iso_c", ""), ("wudi", ""), ("della", "density = 0.5"),
     ("ties", "calibration = 0.5"), ("nuslerp", 'along = "first"'), ("ties", 'density = 0.3, space = "knots"'),
     ("pcb", ""), ("sce", "select_topk = 0.5")],
)  # fmt: skip
def test_the_plan_tells_a_rank_s_memory(wide: Path, method: str, parameters: str) -> None:
    path = recipe(wide, method, parameters, f"{method}-{len(parameters)}")
    planned = launch.run(1, "merge", path, "--plan", "1").stdout
    row = next(line.split() for line in planned.splitlines() if line.split()[0] == "1")
    planned_bytes = float(row[5]) * {"MB": 1e6, "GB": 1e9}[row[6]]
    done = launch.run(1, "merge", path)
    assert done.returncode == 0, done.stderr
    measured = 2**20 * int(re.search(r"anonymous memory (\d+) MiB", done.stdout)[1])  # type: ignore[index]
    # The allocator keeps what small matrices leave, and libraries have buffers of their own, by processor.
    assert measured < 1.5 * planned_bytes + 40e6 and planned_bytes < 3 * measured


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{}", "context"), ('{"context": {"processor": "any", "ranks": 2}, "benchmarks": []}', "storage/checkpoint_read")],
)
def test_a_bench_without_the_file_system_is_refused(folder: Path, tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "bench.json").write_text(text)
    path = recipe(folder, "linear", "", "planned")
    for words in ("--plan", "2"), ():
        done = launch.run(1, "merge", path, *words, "--bench", tmp_path / "bench.json")
        launch.complaint(done, "bench.json", expected)
    assert not (folder / "planned").exists() and not list(folder.glob(".*.partial"))


def test_a_merge_says_which_share_of_the_file_system_it_reached(folder: Path, tmp_path: Path) -> None:
    bench = storage(tmp_path / "bench.json", ranks=2, read=1e9, written=1e9)
    path = recipe(folder, "task_arithmetic", "", "measured")
    done = launch.run(2, "merge", path, "--bench", bench)
    assert done.returncode == 0, done.stderr
    line = r"of the file system: (\d+) % of what 2 ranks read when it was measured, (\d+) % of what they wrote"
    shares = re.search(line, done.stdout)
    assert shares is not None and 0 <= int(shares[2]) <= int(shares[1])
