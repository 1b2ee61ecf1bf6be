# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Models that are held a stage at a time: every number is bitwise the one of models in memory, whatever the family, the
type of the files, the bound of memory and the number of ranks; and what takes whole models is refused."""

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rehearsal
import torch
from compare import assert_close, differing, numbers
from decoder_worlds import GEMMA, LONGEST, PLAIN, PROMPTS, SMALL, VOCABULARY
from launch import PROGRAM, complaint, environment, kill_all, measure, run, start, wait_until
from safetensors.torch import load_file, save_file
from text_worlds import PromptWorld, pack_prompts, word_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

TASKS = ("moods", "topics", "pairs")
EXPERIMENT = """\
[run]
seed = 5

[model]
path = "model"

[data]
folder = "data"
tasks = ["moods", "topics", "pairs"]
evaluation_points = 24
evaluation_batch = 7

[finetune]
given = ["standard"]
regimes = ["standard", "posthoc"]
checkpoints = "tuned"

[similarity]
sum_alpha = [0.5]

[disentanglement]
alpha = [0.0, 0.5, 1.0]
points = 11

[linearity]
regimes = ["standard"]
alpha = [0.25, 0.5]
lambda = [0.4, 1.0]
points = 13
batch = 5

[addition]
alpha = [0.0, 0.3, 1.0]

[pair_addition]
alpha = [0.5, 1.0]
"""
STAGES = ("--set", 'model.in_memory="stages"')
H100 = Path(__file__).parents[3] / "jobs" / "papers" / "cross_task_linearity" / "original" / "llama_on_h100.json"
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": False},  # files of bfloat16, in parts
    "gemma2": GEMMA,  # tied, capped; float32
    "gpt2": {},  # matrices that lie transposed
}


def linearity_alone(sizes: str) -> str:
    """The experiment with this section behind the given models."""
    return EXPERIMENT.split("[similarity]")[0].replace(', "posthoc"', "") + "[linearity]\n" + sizes


def stretches(ranks: int) -> tuple[str, ...]:
    """Arguments of a run whose ranks stand in lines of so many, each with a stretch of stages."""
    return ("--set", 'model.in_memory="stretches"', "--set", f"run.ranks_per_unit={ranks}")


def world_of(folder: Path, family: str, **more: Any) -> PromptWorld:
    """A model at random and one a task that differs from it everywhere: nothing is trained."""
    torch.manual_seed(3)
    kind = torch.bfloat16 if family == "llama" else torch.float32
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **SMALL | more)).to(kind)
    size = "6KB" if family == "llama" else "5GB"
    model.save_pretrained(folder / "model", max_shard_size=size)
    word_tokenizer(VOCABULARY).save(str(folder / "model" / "tokenizer.json"))
    for task in TASKS:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        model.save_pretrained(folder / "tuned" / "standard" / task, max_shard_size=size)
    pack_prompts(folder, PROMPTS, PLAIN, LONGEST)
    world = PromptWorld(folder)
    world.experiment.write_text(EXPERIMENT)
    return world


@pytest.fixture(scope="session", params=list(FAMILIES))
def tuned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PromptWorld:
    return world_of(tmp_path_factory.mktemp(request.param), request.param, **FAMILIES[request.param])


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> PromptWorld:
    return world_of(tmp_path_factory.mktemp("of_llama"), "llama", **FAMILIES["llama"])


@pytest.mark.parametrize("words", ["trained", "frozen"])
def test_all_numbers_are_those_of_whole_models(tuned: PromptWorld, tmp_path: Path, words: str) -> None:
    """With a bound that holds all models of a part, and with one that holds a model and an input."""
    as_read = ("--set", f'model.label_words="{words}"')
    whole = numbers(measure(tuned.experiment, tmp_path / "whole", *as_read, ranks=1))
    assert any(name.startswith("linearity/standard") for name in whole) and "similarity/standard/norm_ratio" in whole
    assert (whole["tau_jp/posthoc/value"] > 0).all() and "addition/posthoc/absolute" in whole
    for folder, memory in (("stages", 0), ("tight", 1e-6)):
        ours = measure(tuned.experiment, tmp_path / folder, *as_read, *STAGES, "--set", f"run.memory={memory}", ranks=1)
        assert differing(whole, numbers(ours)) == [], folder


def test_ranks_that_share_a_unit_give_the_same(llama: PromptWorld, tmp_path: Path) -> None:
    of_two = ("--set", "run.ranks_per_unit=2")
    whole = numbers(measure(llama.experiment, tmp_path / "whole", *of_two))
    assert differing(whole, numbers(measure(llama.experiment, tmp_path / "stages", *of_two, *STAGES))) == []


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_ranks_that_share_out_the_stages_give_the_numbers_of_one(
        tuned: PromptWorld, tmp_path: Path, precision: str) -> None:
    """There are five parts, so that four ranks have one or two each."""
    how = ("--set", f'run.precision="{precision}"')
    whole = numbers(measure(tuned.experiment, tmp_path / "whole", *how, ranks=1))
    assert differing(whole, numbers(measure(tuned.experiment, tmp_path / "shared", *how, *stretches(4), ranks=4))) == []


def test_a_control_and_given_linear_models(llama: PromptWorld, tmp_path: Path) -> None:
    """The linear models are the standard ones, whose post-hoc linearisation is then the same."""
    for regime in ("standard", "linear"):
        shutil.copytree(llama.folder / "tuned" / "standard", tmp_path / "tuned" / regime)
    settings = ('data.tasks=["moods", "topics"]', 'data.control="pairs"', f'finetune.checkpoints="{tmp_path}/tuned"',
                'finetune.given=["standard", "linear"]', 'finetune.regimes=["standard", "linear", "posthoc"]')
    how = [word for setting in settings for word in ("--set", setting)]
    whole = numbers(measure(llama.experiment, tmp_path / "whole", *how, ranks=1))
    assert (whole["tau_jp/posthoc/control"] > 0).all()
    assert np.array_equal(whole["tau_jp/posthoc/value"], whole["tau_jp/linear/value"])
    ours = measure(llama.experiment, tmp_path / "stages", *how, *STAGES, "--set", "run.memory=1e-6", ranks=1)
    assert differing(whole, numbers(ours)) == []


@pytest.mark.parametrize(("ranks", "memory"), [(2, 1e-6), (2, 1.1e-4), (6, 0)])
def test_lines_with_little_memory_and_with_ranks_that_have_no_stage(
        llama: PromptWorld, tmp_path: Path, ranks: int, memory: float) -> None:
    """With 118 kB one rank keeps its stages of two models that go together, the other makes them again."""
    by_two = ("--set", "data.evaluation_batch=2", "--set", "disentanglement.points=5")
    whole = numbers(measure(llama.experiment, tmp_path / "whole", *by_two, ranks=1))
    shared = measure(llama.experiment, tmp_path / "shared", *by_two, *stretches(ranks), "--set",
                     f"run.memory={memory}", ranks=ranks)
    assert differing(whole, numbers(shared)) == []


def test_a_line_of_devices_gives_the_hosts_numbers(llama: PromptWorld, tmp_path: Path) -> None:
    whole = numbers(measure(llama.experiment, tmp_path / "whole", ranks=1))
    shared = rehearsal.run(llama.experiment, tmp_path / "shared", *stretches(2), ranks=2)
    assert_close(whole, numbers(shared))


@pytest.fixture(scope="session")
def slow_line(tmp_path_factory: pytest.TempPathFactory) -> tuple[PromptWorld, dict[str, Any]]:
    """A world whose units take a while, and the numbers of a run of two ranks in a line."""
    folder = tmp_path_factory.mktemp("slow_line")
    world = world_of(folder / "world", "llama", hidden_size=192, intermediate_size=768, num_hidden_layers=6)
    world.experiment.write_text(linearity_alone("points = 24\nbatch = 1\n"))
    return world, numbers(measure(world.experiment, folder / "unbroken", *stretches(2)))


def test_larger_products_are_those_of_whole_models(
        slow_line: tuple[PromptWorld, dict[str, Any]], tmp_path: Path) -> None:
    """Its matrices are large enough for oneDNN, where the processor takes that."""
    world, unbroken = slow_line
    assert differing(unbroken, numbers(measure(world.experiment, tmp_path / "whole", ranks=1))) == []


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_line_of_ranks_goes_on_where_it_ended(
        slow_line: tuple[PromptWorld, dict[str, Any]], tmp_path: Path, end: str) -> None:
    """A stop comes between two batches of a unit, which all ranks leave, though none waits for those behind it."""
    world, unbroken = slow_line
    folder = tmp_path / "run"
    job = start(2, "run", world.experiment, "--run-dir", folder, *stretches(2))
    assert wait_until(lambda: (folder / "scratch").exists() and any((folder / "scratch").iterdir()), job)
    if end == "killed":
        kill_all(job)
    else:
        job.send_signal(signal.SIGUSR1)
        errors = job.communicate()[1]
        assert job.returncode == 75 and "taugrid: stopped: 0 of 15 units done when SIGUSR1 came" in errors, errors
        assert len(list(folder.glob("scratch/**/points-*.safetensors"))) == 2  # what each rank has of a unit
    assert not (folder / "results.h5").exists()
    assert differing(unbroken, numbers(measure(world.experiment, folder, *stretches(2)))) == []


def test_pictures(world: Any, run_folder: Path, tmp_path: Path) -> None:
    experiment = tmp_path / "pictures.toml"
    text = EXPERIMENT.replace('"tuned"', f'"{run_folder}/checkpoints"').replace(
        '["moods", "topics", "pairs"]', '["stripes", "blobs", "corners"]')
    for name in ("model", "data"):
        text = text.replace(f'= "{name}"', f'= "{world.experiment.parent / name}"')
    experiment.write_text(text)
    whole = numbers(measure(experiment, tmp_path / "whole"))
    assert differing(whole, numbers(measure(experiment, tmp_path / "stages", *STAGES))) == []


@pytest.mark.parametrize(("change", "expected"), [
    ('finetune.regimes=["standard","attention"]', "finetune.regimes trains attention"),
    ('linearity.regimes=["posthoc"]', "linearity.regimes: has posthoc, which is linear in its weights"),
    ("finetune.first_stage=1", "finetune.first_stage is 1; expected 0"),
    ('model.init="random"', 'model.init is "random"'),
    ("ntk.points=2", "[ntk] takes whole models"),
    ("barrier.points=2", "[barrier] takes whole models"),
    ('merging.methods=["ties"]', "[merging] takes whole models"),
    ('model.in_memory="stretches"', "run.ranks_per_unit is 1; expected ranks that share out the stages"),
    ('model.in_memory="some"', "expected one of whole, stages, stretches"),
])
def test_what_takes_whole_models_is_refused(llama: PromptWorld, tmp_path: Path, change: str, expected: str) -> None:
    done = run(1, "run", llama.experiment, "--run-dir", tmp_path / "run", *STAGES, "--set", change)
    complaint(done, expected)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("spoilt", "ranks"), [("model", 1), ("tuned/standard/topics", 1),
                                               ("tuned/standard/topics", 4)])
def test_a_number_that_is_not_finite_is_refused_by_its_file(tmp_path: Path, spoilt: str, ranks: int) -> None:
    """In a line the rank that has the stage sees it, and ends all."""
    world = world_of(tmp_path / "world", "gemma2", **GEMMA)
    path = world.folder / spoilt / "model.safetensors"
    tensors = load_file(path)
    tensors["model.layers.1.mlp.up_proj.weight"][3, 2] = float("nan")
    save_file(tensors, path, {"format": "pt"})
    how = STAGES if ranks == 1 else stretches(ranks)
    done = run(ranks, "run", world.experiment, "--run-dir", tmp_path / "run", *how)
    complaint(done, path, "model.layers.1.mlp.up_proj.weight holds NaN or infinity")


def peak(experiment: Path, folder: Path, *more: str) -> float:
    """MiB of its own that a run's process has had at most, mapped files left out."""
    words = [PROGRAM, "run", str(experiment), "--run-dir", str(folder), *more]
    process = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        held = re.search(r"RssAnon:\s+(\d+) kB", status)
        most = max(most, int(held[1]) if held else 0)
        time.sleep(0.01)
    assert process.returncode == 0
    return most / 1024


def test_memory_holds_a_stage(tmp_path: Path) -> None:
    """Models of 20 million numbers, 80 MB each in float32, of which whole ones take five and more."""
    world = world_of(tmp_path / "world", "llama", hidden_size=256, intermediate_size=1024, num_hidden_layers=24)
    linearity = linearity_alone("points = 4\nbatch = 4\n")
    linear = EXPERIMENT.split("[similarity]")[0].replace("evaluation_points = 24", "evaluation_points = 4")
    bound = ("--set", "run.memory=0.02")
    for name, text, less in (("linearity", linearity, 250), ("linear", linear + "[addition]\nalpha = [1.0]\n", 120)):
        world.experiment.write_text(text)
        stages, whole = (peak(world.experiment, tmp_path / f"{name}_{where}", *how, *bound)
                         for where, how in (("stages", STAGES), ("whole", ())))
        assert stages + less < whole, (name, stages, whole)


def test_a_plan_needs_the_configuration_alone(tmp_path: Path) -> None:
    """A model of 0.3 billion parameters that is not there: a rank holds less than one of it in float32."""
    shape = SMALL | {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 24, "head_dim": 64,
                     "num_attention_heads": 16, "num_key_value_heads": 16}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"model_type": "llama", **shape}))
    experiment, plan_file = tmp_path / "papers.toml", tmp_path / "plan.json"
    experiment.write_text(EXPERIMENT.replace("[run]", "[run]\nmemory = 0.4"))
    done = run(1, "plan", experiment, "--ranks", "1,4", "--json", plan_file, *STAGES)
    assert done.returncode == 2 and "work is counted by its config.json" in done.stdout, done.stderr
    parameters = 24 * (4 * 1024**2 + 3 * 1024 * 2816)
    plan = json.loads(plan_file.read_text())
    assert plan["plan"][0]["memory_bytes"] < 4 * parameters
    passes = sum(unit["flops"] for unit in plan["units"]) / (2 * parameters * SMALL["max_position_embeddings"])
    assert passes > 3 * (24 * 2)  # of each task's points through θ0 and its own model, at least
    run(1, "plan", experiment, "--ranks", "4", "--json", plan_file, *stretches(4))
    shared = json.loads(plan_file.read_text())
    assert sum(unit["flops"] for unit in shared["units"]) == pytest.approx(sum(unit["flops"] for unit in plan["units"]))
    assert shared["plan"][0]["memory_bytes"] < 4 * parameters


def test_a_profile_of_gpus_plans_without_one(tmp_path: Path) -> None:
    """Llama-2-13B's products take their time at the profile's rate, on one GPU and on four that share out a unit."""
    (tmp_path / "model").mkdir()
    shape = {"hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40,
             "num_key_value_heads": 40, "vocab_size": 32000, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
    (tmp_path / "model" / "config.json").write_text(json.dumps({"model_type": "llama", **shape}))
    experiment, plan_file = tmp_path / "papers.toml", tmp_path / "plan.json"
    experiment.write_text(linearity_alone("points = 13\nbatch = 5\n"))
    profile, of_gpus = json.loads(H100.read_text()), ("--ranks-per-host", "8", "--profile", H100, "--set",
                                                      "run.threads_per_rank=16")
    for ranks, how in ((1, STAGES), (4, stretches(4))):
        done = run(1, "plan", experiment, "--ranks", str(ranks), *of_gpus, "--json", plan_file, *how)
        assert done.returncode == 2 and "work is counted by its config.json" in done.stdout, done.stderr
        plan = json.loads(plan_file.read_text())
        least = sum(unit["flops"] for unit in plan["units"]) / profile["rates"]["forward"]["flops_per_second"] / ranks
        assert 0 < least < plan["plan"][0]["units_seconds"]
        assert plan["plan"][0]["seconds"] > profile["start_seconds"]
