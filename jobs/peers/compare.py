# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs taugrid's cases and their peers in turn and prints the ratios of their CPU times, with whether both computed
the same. Peers that are not installed are named and left out. A line says each measurement as it is made, with the time
left. What was measured is kept: after an interruption the same command goes on."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import merge_command
import recorded
import torch
from safetensors.torch import load_file

HERE = Path(__file__).parent
# Where bench_peers.sh --install puts packages that nothing else here needs: packages for this Python, and JAX with
# another NumPy in an environment of its own.
INSTALLED = HERE.parents[1] / "build" / "peers"
TORCH_PEERS, JAX = INSTALLED / "torch", INSTALLED / "jax" / "bin" / "python"
KEPT = INSTALLED / "measured"  # what was measured, until the table is printed


@dataclass
class Pair:
    """A case of taugrid bench against a peer; `target` is the least ratio of times, None where none is set."""

    case: str
    peer: str
    tensor: str  # or "NAME/" for all that begin so, by their names
    same: float  # largest difference, relative to the largest number
    target: float | None
    repetitions: int
    reference: str = ""  # whose number counts, where that is not the peer
    needs: str = ""  # what must be installed besides
    of: str = ""  # which of the peer's inputs
    memory: float | None = None  # the most that our peak memory beyond parameters may be of the peer's
    ratios: list[float] = field(default_factory=list)
    difference: float = float("nan")


PAIRS = [
    Pair("ntk", "ntk", "gram", 1e-5, 4.0, 3),
    Pair("ntk", "ntk_jax", "gram", 1e-4, None, 3, needs="neural-tangents"),
    Pair("lambda_max/lanczos", "lambda_max", "lambda_max", 1e-3, 3.0, 1, reference="arpack"),
    Pair("lambda_max/lanczos", "curvlinops_lambda", "lambda_max", 1e-3, None, 1, "arpack", "curvlinops"),
    Pair("hvp/further", "curvlinops_product", "product/", 1e-4, None, 3, "autograd_product", "curvlinops"),
    Pair("grid/linear_20x20", "linear_grid", "error_by_task", 1.5 / 64, 50.0, 1),
    Pair("grid/nonlinear_7x7", "nonlinear_grid", "error_by_task", 1.5 / 64, 1.8, 1),
    Pair("sweep/linear_21", "linear_sweep", "accuracy", 1.5 / 64, 8.0, 1),
    Pair("step/standard", "standard_step", "losses", 1e-3, 1.15, 10),
    Pair("step/standard", "fused_step", "losses", 1e-3, None, 10),
    Pair("step/standard", "compiled_step", "losses", 1e-3, None, 10, needs="g++"),
    Pair("step/linear", "linear_step", "losses", 1e-3, None, 5),
    Pair("resnet/step", "resnet_step", "losses", 1e-3, 1.0, 5),
    Pair("convnext/step", "convnext_step", "losses", 1e-3, 1.0, 5),
    Pair("vit/step", "vit_step", "losses", 1e-3, 1.0, 5),
    Pair("mlp/step", "mlp_step", "losses", 1e-3, 1.0, 5),
    Pair("resnet/ntk", "resnet_ntk", "gram", 1e-4, 2.0, 3, reference="resnet_ntk_double"),
    Pair("text/step", "text_step", "losses", 1e-3, 1.15, 5),
    Pair("text/forward", "text_forward", "logits", 1e-4, 1.2, 5),
    Pair("text/ntk", "text_ntk", "gram", 1e-4, 4.0, 1),
    Pair("text/lambda_max", "text_lambda_max", "lambda_max", 1e-2, 3.0, 1),
    Pair("text/full_step", "text_step", "losses", 1e-3, None, 5, of="_full"),
    Pair("text/full_forward", "text_forward", "logits", 1e-4, None, 5, of="_full"),
    Pair("text/full_ntk", "text_ntk", "gram", 1e-4, None, 1, of="_full"),
    Pair("text/full_lambda_max", "text_lambda_max", "lambda_max", 1e-2, None, 1, of="_full"),
    Pair("decoder/step", "text_step", "losses", 1e-3, 1.3, 3, of="_decoder"),
    Pair("decoder/forward", "text_forward", "logits", 1e-4, 1.1, 3, of="_decoder"),
    Pair("decoder/whole_forward", "text_forward", "logits", 1e-4, 1.1, 3, of="_decoder_whole"),
    Pair("decoder/cached_forward", "text_forward", "logits", 1e-4, 5.0, 3, of="_decoder_whole"),
    Pair("decoder/ntk", "text_ntk", "gram", 1e-4, 4.0, 1, of="_decoder"),
    Pair("decoder/lambda_max", "text_lambda_max", "lambda_max", 1e-2, None, 1, of="_decoder"),
    Pair("decoder/sweep_linear_21", "text_sweep", "accuracy", 1.5 / 16, 20.0, 1, of="_decoder"),
    Pair("linearity/vit12_256", "linearity_hooks", "cosine", 1e-5, 1.0, 1, memory=0.1),
    Pair("linearity/vit12_256", "linearity_anew", "cosine", 1e-5, 1.5, 1, memory=0.1),
    Pair("fisher", "fisher", "fisher/", 1e-4, 3.0, 1),
    Pair("merge/ties", "merge_mergekit", "tau", 1e-5, 5.0, 1, needs="mergekit"),
    Pair("merge/ties", "merge_fusion_bench", "tau", 1e-5, 3.0, 1, needs="fusion_bench"),
]


def is_installed(name: str) -> bool:
    if name == "neural-tangents":
        return JAX.exists()
    if name == "curvlinops":
        return (TORCH_PEERS / name).exists()
    if name in ("mergekit", "fusion_bench"):  # jobs/setup.sh --tests installs them
        return importlib.util.find_spec(name) is not None
    return not name or shutil.which(name) is not None


LONG = ("linear_grid", "text_sweep", "linearity_hooks", "linearity_anew", "text_lambda_max", "merge_mergekit",
        "merge_fusion_bench")  # a warm-up would take as long again
# The least share of this machine's triad that cases which memory bounds are to reach.
SHARES = {
    "combine": 0.8,
    "gram": 0.8,
    "merge/linear": 0.7,
    "merge/task_arithmetic": 0.7,
    "merge/dare_linear": 0.7,
    "merge/consensus_ta": 0.7,
    "merge/top_k": 0.7,
    "merge/ties": 0.4,
}
# Measured without a peer in each round. Names that go on, such as merge/ties_vit_s_70, are of cases too large for that.
OWN = f"^({'|'.join(SHARES)})$|^step|^text/step|^forward$|^regmean|^adamerging"


def run_bench(program: Path, folder: Path, pattern: str, repetitions: int) -> dict[str, dict]:
    """The aggregate rows of taugrid bench by case."""
    out = folder / "bench.json"
    command = [program, "bench", "--filter", pattern, "--json", out, "--dump", folder]
    subprocess.run([*command, "--repetitions", str(repetitions)], check=True, stdout=subprocess.DEVNULL)
    rows = json.loads(out.read_text())["benchmarks"]
    return {row["run_name"]: row for row in rows if row["run_type"] == "aggregate"}


def run_peer(folder: Path, name: str, *options: str) -> float:
    """The median CPU seconds of a peer."""
    python = JAX if name == "ntk_jax" else sys.executable
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(TORCH_PEERS)]))
    environment = os.environ if python == JAX else os.environ | {"PYTHONPATH": path}
    command = [python, HERE / f"{name}.py", folder, *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return statistics.median(json.loads(done.stdout.splitlines()[-1])["seconds"])


def difference(results: Path, expected: Path, tensor: str) -> float:
    """The largest difference of two results, relative to the largest number; of series as far as both go."""
    def read(path: Path) -> torch.Tensor:
        tensors = load_file(path)
        if not tensor.endswith("/"):
            return tensors[tensor].double()
        return torch.cat([v.double().flatten() for k, v in sorted(tensors.items()) if k.startswith(tensor)])

    ours, theirs = read(results), read(expected)
    n = min(len(ours), len(theirs), {"accuracy": 21, "losses": 6}.get(tensor, len(theirs)))
    scale = torch.tensor(1.0) if tensor in ("error_by_task", "accuracy") else theirs[:n].abs().max()
    return ((ours[:n] - theirs[:n]).abs().max() / scale).item()


def spread(values: list[float], form: str) -> str:
    return "  ".join(form.format(v) for v in (statistics.median(values), min(values), max(values)))


@dataclass
class Limit:
    """A case against another of our own, in the same run; `target` is the most that the ratio may be."""

    case: str
    base: str
    target: float
    what: str = "time"  # or "memory": the most bytes of tensors alive in a step
    ratios: list[float] = field(default_factory=list)


LIMITS = [
    Limit("step/linear", "step/standard", 1.8),
    Limit("text/step_linear", "text/step", 1.8),
    Limit("step/attention", "step/standard", 0.85),
    Limit("step/tau_jp", "step/linear", 1.25),
    Limit("step/tau_jp_strict", "step/linear", 2.2),
    # What Gram matrices add to the pass that they are accumulated in, which has all tokens in all layers: 1.2 of
    # "forward" by count, and XᵀX 0.8.
    Limit("regmean", "regmean/pass", 1.4),
    Limit("adamerging/step", "adamerging/passes", 1.1),
    Limit("step/linear", "step/standard", 1.6, "memory"),
]


def peak_memory(folder: Path, case: str) -> float:
    return float(load_file(folder / "results" / f"{case.replace('/', '-')}.safetensors")["peak_memory"])


def share_of_memory(folder: Path, pair: Pair) -> float:
    """Ours over the peer's."""
    theirs = load_file(folder / "peers" / f"{pair.peer}{pair.of}.safetensors")
    return peak_memory(folder, pair.case) / float(theirs["peak_memory"])


def row_of(pair: Pair) -> recorded.Row:
    beside = pair.peer + (f" ({pair.reference}'s numbers)" if pair.reference else "")
    return recorded.Row(pair.case, beside, pair.ratios, pair.target, different=not pair.difference <= pair.same)


def row_of_memory(pair: Pair, shares: list[float]) -> recorded.Row:
    return recorded.Row(pair.case, f"{pair.peer} (memory)", shares, at_most=pair.memory)


def row_of_limit(limit: Limit) -> recorded.Row:
    beside = limit.base + (f" ({limit.what})" if limit.what != "time" else "")
    return recorded.Row(limit.case, beside, limit.ratios, at_most=limit.target)


def rows_of_command(case: merge_command.Case) -> list[recorded.Row]:
    return [recorded.Row(case.name, "mergekit (time)", case.times, case.time),
            recorded.Row(case.name, "mergekit (memory)", case.shares_of_memory, at_most=case.memory)]


def row_of_share(case: str, shares: list[float]) -> recorded.Row:
    return recorded.Row(case, "share of triad", shares, SHARES[case])


def rows_of(
    pairs: list[Pair],
    limits: list[Limit],
    memory: list[tuple[Pair, list[float]]],
    commands: list[merge_command.Case],
    shares: dict[str, list[float]],
) -> list[recorded.Row]:
    rows = [*map(row_of, pairs), *map(row_of_limit, limits), *(row_of_memory(*each) for each in memory)]
    rows += [row for case in commands for row in rows_of_command(case)]
    return rows + [row_of_share(*each) for each in shares.items()]


def goals() -> dict[str, str]:
    """Each row's goal by its name, in the order of the rows."""
    memory = [(pair, []) for pair in PAIRS if pair.memory is not None]
    rows = rows_of(PAIRS, LIMITS, memory, merge_command.CASES, {case: [] for case in SHARES})
    return {row.name(): row.goal() for row in rows}


class Journal:
    """What was measured, a line each in a folder that outlives an interruption, beside the numbers that were dumped."""

    def __init__(self, folder: Path, program: Path, names: list[str]) -> None:
        self.folder, self.names = folder, names
        self.file = folder / "measured.jsonl"
        threads = os.environ["OMP_NUM_THREADS"]
        subject = f"{hashlib.sha256(program.read_bytes()).hexdigest()} {threads} threads"
        self.lines: dict[str, dict] = {}
        if self.file.exists():
            whole = self.file.read_bytes().rpartition(b"\n")[0]  # without a line that was cut off
            kept = [json.loads(line) for line in whole.splitlines()]
            if kept and kept[0] == {"subject": subject}:
                self.lines = {line["name"]: line for line in kept[1:]}
                self.file.write_bytes(whole + b"\n")
        if not self.lines:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.file.write_text(json.dumps({"subject": subject}) + "\n")
            return
        there = sum(name in self.lines for name in names)
        print(f"# {there} of {len(names)} measurements are kept from before in {folder}", file=sys.stderr)

    def once(self, name: str, measured: Callable[[], dict]) -> dict:
        """The numbers that `measured()` gives, or gave before an interruption."""
        if name not in self.lines:
            begin = time.monotonic()
            numbers = measured()
            self.lines[name] = {"name": name, "seconds": time.monotonic() - begin, "numbers": numbers}
            with self.file.open("a") as out:
                out.write(json.dumps(self.lines[name]) + "\n")
            said = ", ".join(f"{key} {value:.4g}" for key, value in numbers.items() if isinstance(value, float))
            left = [each for each in self.names if each not in self.lines]
            print(f"# {name}: {said} ({len(self.names) - len(left)} of {len(self.names)}, about"
                  f" {self._seconds(left) / 60:.0f} min left)", file=sys.stderr, flush=True)
        return self.lines[name]["numbers"]

    def _seconds(self, left: list[str]) -> float:
        """As long as the same took in another round, or else as all did on the average."""
        took: dict[str, list[float]] = {}
        for name, line in self.lines.items():
            took.setdefault(name.partition(": ")[2], []).append(line["seconds"])
        usual = statistics.mean(line["seconds"] for line in self.lines.values())
        return sum(statistics.mean(took.get(name.partition(": ")[2], [usual])) for name in left)


def name_of(turn: int, pair: Pair) -> str:
    return f"round {turn + 1}: {pair.case} beside {pair.peer}{pair.of}"


def limits_of(turn: int) -> str:
    return f"round {turn + 1}: our own cases"


def measure(
    program: Path, folder: Path, pairs: list[Pair], rounds: int, limits: bool
) -> tuple[Journal, dict[str, list[float]]]:
    """Fills the ratios of pairs and, with `limits`, of LIMITS; returns the shares of triad of SHARES."""
    names = [name for turn in range(rounds)
             for name in [*(name_of(turn, pair) for pair in pairs), *([limits_of(turn)] if limits else [])]]
    journal = Journal(folder, program, names)

    def beside(pair: Pair, turn: int) -> dict:
        ours = run_bench(program, folder, f"^{pair.case}$", pair.repetitions)[pair.case]["cpu_time"] / 1e3
        cold = ["--cold"] if pair.peer in LONG else []
        theirs = run_peer(
            folder, pair.peer, "--repetitions", str(pair.repetitions), "--seed", str(turn), "--of", pair.of, *cold
        )
        return {"ours": ours, "theirs": theirs, "ratio": theirs / ours}

    def own_cases() -> dict:
        rows = run_bench(program, folder, OWN, 10)
        of_limits = []
        for limit in LIMITS:
            case, base = (rows[name]["cpu_time"] if limit.what == "time" else peak_memory(folder, name)
                          for name in (limit.case, limit.base))
            of_limits.append(case / base)
        return {"limits": of_limits, "shares": {case: rows[case]["share_of_peak"] for case in SHARES}}

    shares: dict[str, list[float]] = {}
    for turn in range(rounds):
        for pair in pairs:
            numbers = journal.once(name_of(turn, pair), lambda pair=pair, turn=turn: beside(pair, turn))
            pair.ratios.append(numbers["ratio"])
        if not limits:
            continue
        numbers = journal.once(limits_of(turn), own_cases)
        for limit, ratio in zip(LIMITS, numbers["limits"], strict=True):
            limit.ratios.append(ratio)
        for case, share in numbers["shares"].items():
            shares.setdefault(case, []).append(share)
    return journal, shares


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--program", type=Path, help="the program taugrid")
    what.add_argument("--table", action="store_true", help="measure nothing, renew docs/speed.md from docs/peers.toml")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="only peers of cases whose name holds this")
    parser.add_argument("--record", action="store_true", help="add the numbers to docs/peers.toml and docs/speed.md")
    options = parser.parse_args()
    if options.table:
        recorded.renew(goals())
        return 0
    if options.record and options.only:
        parser.error("--record is for all peers; expected no --only")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    wanted = [pair for pair in PAIRS if options.only in pair.case]
    pairs = [pair for pair in wanted if is_installed(pair.needs)]
    folder = KEPT / (options.only or "all").replace("/", "-")
    try:
        journal, shares = measure(options.program.resolve(), folder, pairs, options.rounds, limits=not options.only)
    except KeyboardInterrupt:
        print(f"# stopped; what was measured is kept in {folder}, and the same command goes on", file=sys.stderr)
        return 130
    for reference in sorted({pair.reference for pair in pairs} - {""}):
        run_peer(folder, reference, "--repetitions", "1", "--cold")
    notes, memory = [], []
    for pair in pairs:
        peer, ours = (folder / "peers" / f"{pair.peer}{pair.of}.safetensors",
                      folder / "results" / f"{pair.case.replace('/', '-')}.safetensors")
        expected = folder / "peers" / f"{pair.reference}.safetensors" if pair.reference else peer
        pair.difference = difference(ours, expected, pair.tensor)
        if pair.memory is not None:
            memory.append((pair, [share_of_memory(folder, pair)]))
        if pair.reference:
            apart = difference(peer, expected, pair.tensor)
            notes.append(f"# {pair.peer}.py's own number is {apart:.1e} from {pair.reference}.py's")

    # No pairs: both are whole processes, by the clock, with their anonymous memory.
    commands = [case for case in merge_command.CASES if options.only in case.name and is_installed("mergekit")]
    notes += [f"# {line}" for line in merge_command.compare(commands, options.program.resolve(), options.rounds)]
    commands = [case for case in commands if case.times]
    notes += [f"# {case.name}: {case.differing:.1e} of the numbers differ from mergekit's" for case in commands
              if not case.draws]

    threads = int(os.environ["OMP_NUM_THREADS"])
    print(f"# {options.rounds} rounds in turn, {threads} thread(s); ratio: peer's CPU time / taugrid's")
    print(f"{'case':<24} {'against':<34} {'median':>7} {'min':>7} {'max':>7} {'target':>8}  {'difference':>10}  result")
    rows = rows_of(pairs, [limit for limit in LIMITS if limit.ratios], memory, commands, shares)
    differences = {row_of(pair).name(): f"{pair.difference:.1e}" for pair in pairs}
    for row in rows:
        figures = " ".join(f"{v:>7.2f}" for v in (row.median(), min(row.values), max(row.values)))
        word = "DIFFERENT NUMBERS" if row.different else "met" if row.met() else "MISSED"
        print(f"{row.case:<24} {row.beside:<34} {figures} {row.goal() or '-':>8}  {differences.get(row.name(), ''):>10}"
              f"  {word}")
    for pair in wanted:
        if pair not in pairs:
            print(f"{pair.case:<24} {pair.peer:<34} left out: {pair.needs} is not installed")
    for note in notes:
        print(note)
    missed = sum(not row.met() for row in rows)
    if options.record:
        if different := [row.name() for row in rows if row.different]:
            print(f"# not recorded: other numbers in {', '.join(different)}", file=sys.stderr)
        else:
            context = json.loads((folder / "bench.json").read_text())["context"]
            recorded.record(rows, context, threads, goals())
    shutil.rmtree(journal.folder)
    print(f"# verdict: {'all targets met' if missed == 0 else f'{missed} missed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
