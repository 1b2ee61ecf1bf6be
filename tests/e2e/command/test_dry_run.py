# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A dry run says what a run needs and how much work it is, and computes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import experiments
import pytest
from launch import run
from world import TASKS, World

# Largest test splits: qqp's, imdb's, CIFAR-10's, a split of CIFAR-100's, MNIST's, a half of CIFAR-10's, ten classes of
# ImageNet's; of the eight sets of pictures svhn's. What decoders are asked lies far below 30,000 a domain.
LARGEST = {"glue": 40430, "t5": 25000, "cifar": 10000, "split": 500, "rotated": 10000, "halves": 5000,
           "imagenet_parts": 500, "llama2": 30000, "mergebench": 30000}


def folder_of(experiment: Path) -> str:
    """Returns the name of the folder that its tasks lie in."""
    return Path(experiments.read(experiment)["data"]["folder"]).name


def on_crops(experiment: Path) -> bool:
    """Pictures, but for networks that are trained from scratch; no texts, and no models of others."""
    return folder_of(experiment) not in (*LARGEST, "prompts")


def dry_run(experiment: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(1, "run", experiment, "--dry-run", *arguments)


def test_inputs_and_work(world: World, tmp_path: Path) -> None:
    done = dry_run(world.papers, "--run-dir", str(tmp_path / "run"))
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert not (tmp_path / "run").exists()
    for name in ("model", *TASKS, "plaids"):
        assert f"\n  {name} " in done.stdout
    assert "found: 4 classes, 60 + 20 + 30 images" in done.stdout
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if "/" in line and line.startswith("  ")}
    assert rows["finetune/standard"][1] == "3" and rows["disentanglement/linear"][1] == "3"
    total = int(done.stdout.split("work: ")[1].split()[0])
    assert total == sum(int(row[1]) for name, row in rows.items() if row[1].isdigit() and not name.startswith(os.sep))


def test_missing_inputs_are_all_listed(world: World) -> None:
    done = dry_run(world.papers, "--set", 'data.tasks=["stripes", "dots", "rings"]')
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "2 of 5 inputs are missing" in done.stderr
    for name in ("dots", "rings"):
        assert f"{world.folder / 'data' / name}.h5: no such file" in done.stdout
    assert "finetune/standard" in done.stdout


def test_a_missing_model_makes_no_data_wrong(world: World) -> None:
    done = dry_run(world.papers, "--set", "model.path=/nowhere", "--set", "finetune.checkpoints=/elsewhere",
                   "--set", 'finetune.given=["standard"]')
    assert done.returncode == 2 and "2 of 6 inputs are missing" in done.stderr, done.stdout
    assert "work is counted as for CLIP ViT-B/32" in done.stdout
    assert "/elsewhere/standard/stripes/model.safetensors is not there" in done.stdout


def test_a_wrong_key_is_found_without_the_inputs(world: World) -> None:
    done = dry_run(world.papers, "--set", 'data.tasks=["dots"]', "--set", "smoothness.toleranse=1")
    assert done.returncode == 2 and "smoothness.toleranse; did you mean smoothness.tolerance?" in done.stderr


def test_an_experiment_that_extends_another(world: World, tmp_path: Path) -> None:
    whole = dry_run(world.papers)
    derived = tmp_path / "derived.toml"
    derived.write_text(f'extends = "{world.papers}"\n')
    assert dry_run(derived).stdout == whole.stdout
    derived.write_text(f'extends = "{world.papers}"\n[disentanglement]\nalpha = [0.0, 1.0]\n')
    smaller = dry_run(derived)
    assert smaller.stdout == dry_run(world.papers, "--set", "disentanglement.alpha=[0.0, 1.0]").stdout != whole.stdout
    last = tmp_path / "last.toml"
    last.write_text('extends = "derived.toml"\n[disentanglement]\npoint = 3\n')
    derived.write_text(f'extends = "{world.papers}"\n[similarity]\nodd = 1\n')
    refusals = {f"{last}:3: unknown key disentanglement.point; did you mean disentanglement.points? (and 1 more)":
                last.read_text(), f"{derived}:3: unknown key similarity.odd": 'extends = "derived.toml"\n',
                f"{last}:1: extends: {tmp_path}/gone.toml: cannot be read: No such file": 'extends = "gone.toml"',
                f"{last}:1: extends: {last} leads back": 'extends = "last.toml"'}
    for problem, text in refusals.items():
        last.write_text(text)
        done = dry_run(last)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and problem in done.stderr, done.stderr


@pytest.mark.parametrize("experiment", experiments.SHIPPED, ids=experiments.name)
def test_the_experiments_we_ship_are_valid(experiment: Path) -> None:
    """Whether or not their inputs are on this machine, and without any."""
    for done in (dry_run(experiment), dry_run(experiment, "--set", "model.path=/nowhere")):
        assert "nothing is computed" in done.stdout and "work: " in done.stdout, done.stderr
        assert done.returncode in (0, 2) and ("inputs are missing" in done.stderr) == (done.returncode == 2)


def settings_of(name: str) -> dict[tuple[str, ...], None]:
    """Each experiment file of a paper's steps with the --set options that the step gives it."""
    output = subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, 'jobs'); import paper\n"
                             f"for one in paper.commands({name!r}, [], {{}}): print(*one.words, sep='\\t')"],
                            cwd=experiments.JOBS.parent, capture_output=True, text=True, check=True).stdout
    steps = [line.split("\t") for line in output.splitlines()]
    return dict.fromkeys((step[2], *step[4:]) for step in steps if step[1] == "jobs/measure.sh")


@pytest.mark.parametrize("name", sorted({path.parent.relative_to(experiments.JOBS / "papers").as_posix()
                                         for path in (experiments.JOBS / "papers").rglob("paper.toml")}))
def test_the_steps_of_a_paper_set_what_their_files_know(name: str) -> None:
    for experiment, *options in settings_of(name):
        done = dry_run(experiments.JOBS.parent / experiment, *options)
        assert "nothing is computed" in done.stdout and "work: " in done.stdout, (experiment, done.stderr)


@pytest.mark.parametrize("experiment", experiments.SHIPPED, ids=experiments.name)
def test_the_papers_settings_alone_train_on_random_crops(experiment: Path) -> None:
    """Crops have at least 0.9 of the area, as open_clip's, or 0.08, as torchvision's. Default tasks, texts and CIFAR
    are taken as they are."""
    finetune = experiments.read(experiment).get("finetune", {})
    expected = 0.9 if experiment in experiments.ORIGINAL and on_crops(experiment) else None
    if experiment in experiments.ORIGINAL and folder_of(experiment) == "imagenet_parts":
        expected = 0.08
    assert finetune.get("random_crop") == expected


@pytest.mark.parametrize("experiment", [path for path in experiments.ORIGINAL if path.stem != "language_70"],
                         ids=experiments.name)
def test_the_papers_settings_take_whole_test_splits(experiment: Path) -> None:
    """Verdicts are of 0.1 points: 5,000 points have a standard error of 0.7. Of 70 tasks only means are published."""
    largest = LARGEST.get(folder_of(experiment), 26032)
    data = experiments.read(experiment)["data"]
    assert data["evaluation_points"] >= largest
    assert "control" not in data or data["control_points"] >= 50000  # ImageNet's


@pytest.mark.parametrize("experiment", experiments.ORIGINAL, ids=experiments.name)
def test_the_papers_settings_take_all_logits_or_say_why_not(experiment: Path) -> None:
    lines = experiment.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.startswith("logits ="):
            assert "All 758" in " ".join(lines[number - 2:number]), "a reason stands above it"
