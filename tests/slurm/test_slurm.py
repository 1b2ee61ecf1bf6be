# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The batch scripts, submitted: signals, requeueing, chains and arrays end in the numbers of an undisturbed run."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import h5py
import pytest
import shared
from cluster import Cluster
from compare import differing, numbers
from launch import measure, units
from world import EXPERIMENT, World

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "jobs" / "slurm"
# Long enough to be interrupted.
LONG = ("--set", "finetune.steps=150", "--set", "finetune.linear.steps=150", "--set", "finetune.checkpoint_seconds=0.1")


@pytest.fixture(scope="module")
def reference(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measure(world.experiment, tmp_path_factory.mktemp("reference") / "run", *LONG)


SITE = {"PROGRAM": os.environ["TAUGRID"], "BIND": "", "VENV": str(Path(os.environ["TAUGRID_PYTHON"]).parents[1])}
# A Python for jobs whose report nobody looks at, which takes longer to draw than they to run.
WITHOUT_REPORT = '#!/bin/sh\n[ "$3" != report ] || exit 0\nexec "{python}" "$@"\n'
SMALL = ("--ntasks=2", "--cpus-per-task=1", "--time=10", f"--chdir={ROOT}")


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """VENV without reports."""
    python = tmp_path_factory.mktemp("venv") / "bin" / "python"
    python.parent.mkdir()
    python.write_text(WITHOUT_REPORT.format(python=os.environ["TAUGRID_PYTHON"]))
    python.chmod(0o755)
    return str(python.parents[1])


def submit(cluster: Cluster, output: Path, *arguments: str | Path, options: tuple[str, ...] = (),
           **variables: str) -> str:
    done = cluster.run("sbatch", "--parsable", f"--output={output}", *SMALL, *options, *arguments, **SITE | variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def first_unit(cluster: Cluster, job: str, run: Path) -> None:
    """Waits until the job has committed something."""
    end = time.monotonic() + 120
    while units(run) == 0:
        assert time.monotonic() < end and cluster.job(job).get("JobState") in ("PENDING", "RUNNING"), cluster.job(job)
        time.sleep(0.02)


def test_a_signal_before_the_limit_requeues_and_loses_nothing(cluster: Cluster, world: World, reference: Path,
                                                              tmp_path: Path) -> None:
    run, output = tmp_path / "run", tmp_path / "out"
    job = submit(cluster, output, SCRIPTS / "finetune-and-measure.sbatch", world.experiment, run, *LONG)
    first_unit(cluster, job, run)
    assert cluster.run("scancel", "--signal=USR1", job).returncode == 0  # as --signal=USR1@300 does
    ended = cluster.wait(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
    text = output.read_text()
    assert ended["JobState"] == "COMPLETED" and ended["Restarts"] == "1", text
    assert "taugrid: stopped:" in text and "SIGUSR1" in text and "back into the queue" in text
    assert "0 found finished" not in text.split("back into the queue")[1]
    assert differing(numbers(reference), numbers(run / "results.h5")) == []
    assert (run / "report.html").exists()


def test_a_chain_goes_on_where_requeueing_is_forbidden(cluster: Cluster, world: World, reference: Path, hasty: str,
                                                       tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = cluster.run("bash", SCRIPTS / "chain.sh", "4", f"--output={tmp_path}/out-%j", *SMALL,
                       SCRIPTS / "finetune-and-measure.sbatch", world.experiment, run, *LONG,
                       **SITE | {"VENV": hasty})
    assert done.returncode == 0, done.stderr
    first, second, *others = done.stdout.split()
    first_unit(cluster, first, run)
    cluster.run("scancel", "--signal=USR1", first)
    assert cluster.wait(first, "FAILED", "COMPLETED")["ExitCode"] == "75:0"
    assert cluster.wait(second, "COMPLETED", "FAILED")["JobState"] == "COMPLETED"
    assert len(others) == 2
    for other in others:
        assert cluster.wait(other, "CANCELLED", "COMPLETED", "FAILED")["JobState"] == "CANCELLED"
    assert differing(numbers(reference), numbers(run / "results.h5")) == []


def test_an_array_is_a_run_a_seed(cluster: Cluster, world: World, hasty: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    job = submit(cluster, tmp_path / "out-%a", SCRIPTS / "finetune-and-measure.sbatch", world.experiment, run,
                 options=("--array=5,6",), VENV=hasty)
    for seed in ("5", "6"):
        assert cluster.wait(f"{job}_{seed}", "COMPLETED", "FAILED")["JobState"] == "COMPLETED", \
            (tmp_path / f"out-{seed}").read_text()
    assert differing(numbers(run / "seed5" / "results.h5"), numbers(run / "seed6" / "results.h5"))
    alone = measure(world.experiment, tmp_path / "own", "--set", "run.seed=5")
    assert differing(numbers(alone), numbers(run / "seed5" / "results.h5")) == []


def test_an_array_is_a_run_a_value(cluster: Cluster, world: World, hasty: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    job = submit(cluster, tmp_path / "out-%a", SCRIPTS / "finetune-and-measure.sbatch", world.experiment, run,
                 options=("--array=1,2",), VENV=hasty, SWEEP="finetune.weight_decay 0.1 0.3")
    assert cluster.wait(f"{job}_1", "COMPLETED", "FAILED")["JobState"] == "COMPLETED", (tmp_path / "out-1").read_text()
    alone = measure(world.experiment, tmp_path / "own", "--set", "finetune.weight_decay=0.3")
    assert differing(numbers(alone), numbers(run / "finetune.weight_decay=0.3" / "results.h5")) == []
    assert cluster.wait(f"{job}_2", "COMPLETED", "FAILED")["ExitCode"] == "2:0"
    assert "has no value 2: --array=0-1" in (tmp_path / "out-2").read_text()


def test_a_campaign_ends_in_one_report(cluster: Cluster, world: World, tmp_path: Path) -> None:
    """Every combination is a run; the report waits for all of them, and names those that failed."""
    runs = tmp_path / "runs"
    done = cluster.run("env", "-C", ROOT, "bash", SCRIPTS / "campaign.sh", world.experiment, runs, "run.seed 5 6",
                       "finetune.weight_decay 0.3 -1", "--", *SMALL, **SITE)
    assert done.returncode == 0, done.stderr
    report = done.stdout.split()[1]
    assert cluster.wait(report, "COMPLETED", "FAILED")["ExitCode"] == "1:0", (runs / "report.out").read_text()
    assert "2 of 4 runs have no results" in (runs / "report.out").read_text()
    lines = (runs / "report.txt").read_text().splitlines()
    assert [line.split("\t") for line in lines[:4]] == [
        [str(i), state, f"run.seed={seed}", f"finetune.weight_decay={decay}"]
        for i, (seed, decay, state) in enumerate([(5, 0.3, "finished"), (5, -1, "MISSING"), (6, 0.3, "finished"),
                                                  (6, -1, "MISSING")])]
    assert len(lines) > 10  # the finished ones side by side
    assert "finetune.weight_decay" in (runs / "run-1.out").read_text()
    alone = measure(world.experiment, tmp_path / "own", "--set", "run.seed=6", "--set", "finetune.weight_decay=0.3")
    assert differing(numbers(alone), numbers(runs / "2" / "results.h5")) == []


@pytest.mark.parametrize(("words", "problem"), [
    (("run.seed",), "'run.seed': expected a key and its values"),
    (("seed 1 2",), "'seed 1 2': expected a key and its values"),
    (("run.seed 1", "$(touch x) 1"), "expected a key and its values"),
])
def test_what_no_campaign_is(world: World, tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
    for experiment, expected in ((world.experiment, problem), (tmp_path / "none.toml", "there is no experiment")):
        done = subprocess.run(["bash", SCRIPTS / "campaign.sh", experiment, tmp_path / "runs", *words], cwd=ROOT,
                              text=True, capture_output=True, check=False)
        assert done.returncode == 2 and expected in done.stderr and len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "runs").exists()


def two_steps(world: World, folder: Path) -> tuple[Path, Path]:
    """An experiment that trains, and one of its models that measures."""
    training, measuring = EXPERIMENT.split("[similarity]")
    first = world.elsewhere(folder / "finetune.toml", training)
    second = folder / "measure.toml"
    second.write_text(f'extends = "finetune.toml"\n[similarity]{measuring}')
    return first, second


def test_a_pipeline_trains_measures_and_makes_tables(cluster: Cluster, world: World, hasty: str,
                                                     tmp_path: Path) -> None:
    """The numbers are those of one job that does all of it, whatever ranks either step has."""
    runs = tmp_path / "runs"
    done = cluster.run("env", "-C", ROOT, "bash", SCRIPTS / "pipeline.sh", *two_steps(world, tmp_path), runs,
                       "standard linear", "--", *SMALL, **SITE | {"VENV": hasty}, FINETUNE_WITH="--ntasks=1")
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.split()
    assert cluster.job(second)["Dependency"].startswith(f"afterok:{first}")
    ended = cluster.wait(third, "COMPLETED", "FAILED", "CANCELLED")
    said = "".join(path.read_text() for path in sorted(runs.glob("*.out")))
    assert ended["JobState"] == "COMPLETED", said
    assert cluster.job(first)["NumTasks"] == "1" and cluster.job(second)["NumTasks"] == "2"
    assert "Task addition: " in (runs / "tables.txt").read_text()
    piped = numbers(runs / "measure" / "results.h5")
    whole = numbers(shared.run(tmp_path, "run", world.experiment) / "results.h5")
    assert "training/standard/loss" in whole.keys() - piped.keys()  # given, not trained: it is the first run's
    apart = ("training/", "dimensions/")  # numbers of units and of steps, which the second step has not
    measured, again = ({name: values for name, values in each.items() if not name.startswith(apart)}
                       for each in (whole, piped))
    assert len(measured) > 50 and differing(measured, again) == []


# A Slurm that notes what it is asked, and refuses the job whose number is in the file beside it.
STUBS = {
    "sbatch": """#!/bin/sh
echo "REPORT=${REPORT:-} $*" >>"$STUBS/asked"
number=$(wc -l <"$STUBS/asked")
[ "$number" != "$(cat "$STUBS/refused")" ] || { echo "sbatch: error: Invalid account" >&2; exit 1; }
echo "10$number;cluster"
""",
    "scancel": """#!/bin/sh
echo "$*" >>"$STUBS/cancelled"
exit "${SCANCEL_CODE:-0}"
""",
}


def stubbed(folder: Path, refused: int, script: str, *arguments: str | Path,
            **variables: str) -> subprocess.CompletedProcess[str]:
    """Starts a script among stand-ins for Slurm's commands, of which FOLDER/asked says what they were asked."""
    for name, text in STUBS.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "refused").write_text(str(refused))
    for name in ("asked", "cancelled"):
        (folder / name).write_text("")
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "STUBS": str(folder)} | variables
    return subprocess.run(["bash", SCRIPTS / script, *arguments], cwd=ROOT, env=environment, text=True,
                          capture_output=True, check=False)


def test_a_pipeline_that_is_refused_leaves_no_job(world: World, tmp_path: Path) -> None:
    pipeline = ("pipeline.sh", *two_steps(world, tmp_path), tmp_path / "runs", "standard attention+mlp")
    for refused, cancelled in ((1, ""), (2, "101"), (3, "101 102")):
        done = stubbed(tmp_path, refused, *pipeline)
        assert done.returncode == 1 and done.stdout == "" and "sbatch: error: Invalid account" in done.stderr
        assert (tmp_path / "cancelled").read_text().strip() == cancelled
        assert ("cancelled: " + cancelled in done.stderr) == (refused > 1)
    done = stubbed(tmp_path, 3, *pipeline, SCANCEL_CODE="1")
    assert done.returncode == 1 and "these stay in the queue: 101 102" in done.stderr


def test_each_job_of_a_pipeline_has_its_options(world: World, tmp_path: Path) -> None:
    done = stubbed(tmp_path, 0, "pipeline.sh", *two_steps(world, tmp_path), tmp_path / "runs",
                   "standard attention+mlp", "--", "--account=physics", "-p", "gpu", "-qlong", "--ntasks=4",
                   TABLES_WITH="--mem=8G")
    assert (done.returncode, done.stdout) == (0, "101 102 103\n"), done.stderr
    first, second, third = (tmp_path / "asked").read_text().splitlines()
    for line in (first, second):
        assert " --account=physics -p gpu -qlong --ntasks=4 " in line
    assert " --account=physics -p gpu -qlong --mem=8G --dependency=afterok:102 " in third and "--ntasks" not in third
    assert 'finetune.given=["standard", "attention+mlp"]' in second
    # A report that fails must not keep the models from being measured, nor the tables from being made.
    assert [line.split()[0] for line in (first, second)] == ["REPORT=0", "REPORT=0"]
    assert not (tmp_path / "cancelled").read_text()


def test_a_campaigns_report_goes_where_its_runs_go(world: World, tmp_path: Path) -> None:
    """And where the report is refused, as at sites that ask for an account, no array runs for nothing."""
    campaign = ("campaign.sh", world.experiment, tmp_path / "runs", "run.seed 5 6", "--", "--account=physics", "-p",
                "gpu", "--ntasks=4")
    done = stubbed(tmp_path, 0, *campaign)
    assert (done.returncode, done.stdout) == (0, "101 102\n"), done.stderr
    runs, report = (tmp_path / "asked").read_text().splitlines()
    assert " --array=0-1 " in runs and " --account=physics -p gpu --ntasks=4 " in runs
    assert " --dependency=afterany:101 " in report and " --account=physics -p gpu " in report
    assert "--ntasks" not in report
    done = stubbed(tmp_path, 2, *campaign)
    assert done.returncode == 1 and done.stdout == "" and "campaign: a job was refused; cancelled: 101" in done.stderr
    assert (tmp_path / "cancelled").read_text().strip() == "101"


def test_a_pipeline_ends_where_a_step_fails(cluster: Cluster, world: World, hasty: str, tmp_path: Path) -> None:
    first, second = two_steps(world, tmp_path)
    first.write_text(first.read_text().replace("steps = 25", "steps = -1"))
    done = cluster.run("env", "-C", ROOT, "bash", SCRIPTS / "pipeline.sh", first, second, tmp_path / "runs",
                       "standard linear", "--", *SMALL, **SITE | {"VENV": hasty})
    jobs = done.stdout.split()
    assert cluster.wait(jobs[0], "FAILED", "COMPLETED")["ExitCode"] == "2:0"
    for job in jobs[1:]:
        assert cluster.wait(job, "CANCELLED", "COMPLETED", "FAILED")["JobState"] == "CANCELLED"
    assert "steps" in (tmp_path / "runs" / "finetune.out").read_text()


@pytest.mark.parametrize(("words", "problem"), [
    (("runs",), "usage: "), (("runs", "standard", "linear"), "usage: "),
    (("runs", "standard Linear"), "'standard Linear': expected names of regimes"), (("runs", " "), "no regimes"),
])
def test_what_no_pipeline_is(world: World, tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
    first, second = two_steps(world, tmp_path)
    absent = "usage: " if problem == "usage: " else "there is no experiment"
    for experiment, expected in ((second, problem), (tmp_path / "none.toml", absent)):
        done = subprocess.run(["bash", SCRIPTS / "pipeline.sh", first, experiment, tmp_path / words[0], *words[1:]],
                              cwd=ROOT, text=True, capture_output=True, check=False)
        assert done.returncode == 2 and expected in done.stderr and len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "runs").exists()


def test_reframe_submits_the_bench(cluster: Cluster, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    settings = {"program": SITE["PROGRAM"], "cases": "^forward$", "repetitions": "1", "device": "cpu"}
    done = cluster.run(
        Path(SITE["VENV"]) / "bin/reframe", "-C", ROOT / "jobs/reframe/settings.py", "-c",
        ROOT / "jobs/reframe/taugrid_checks.py", "-n", "TaugridBench", "--system", "squeue", "-r", "--prefix",
        tmp_path / "prefix", "--report-file", report,
        *(word for name, value in settings.items() for word in ("-S", f"TaugridBench.{name}={value}")),
        HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (case,) = json.loads(report.read_text())["runs"][0]["testcases"]
    assert case["scheduler"] == "squeue" and case["result"] == "pass"
    assert "forward/rate" in {name.split(":")[-1] for name in case["perfvalues"]}


@pytest.mark.skipif(shutil.which("jube") is None, reason="JUBE is not installed")
def test_jube_submits_the_bench(cluster: Cluster, tmp_path: Path) -> None:
    done = cluster.run("env", "-C", tmp_path, "jube", "run", ROOT / "jobs/jube/taugrid.yaml", "--tag", "slurm",
                       "--outpath", tmp_path / "out", PROGRAM=SITE["PROGRAM"])
    assert done.returncode == 0, done.stdout + done.stderr
    printed = cluster.run("jube", "result", "--analyse", tmp_path / "out").stdout
    assert ",VALID," in printed, printed
    (output,) = (tmp_path / "out").rglob("bench.txt")
    assert "FOM step/standard/rate = " in output.read_text()


def test_paper_tables(cluster: Cluster, world: World, tmp_path: Path) -> None:
    """The run is finished: what is computed is seen above."""
    output, run = tmp_path / "out", shared.run(tmp_path, "papers", world.papers)
    job = submit(cluster, output, SCRIPTS / "paper-tables.sbatch", "tau_jp", run, SETTING=str(world.papers))
    assert cluster.wait(job, "COMPLETED", "FAILED")["JobState"] == "COMPLETED", output.read_text()
    assert "Table 1" in output.read_text() and "figure 2: " in output.read_text()


def test_bench(cluster: Cluster, tmp_path: Path) -> None:
    output = tmp_path / "out"
    job = submit(cluster, output, SCRIPTS / "bench.sbatch", tmp_path / "bench", "--filter", "^forward$",
                 options=("--ntasks=1",))
    assert cluster.wait(job, "COMPLETED", "FAILED")["JobState"] == "COMPLETED", output.read_text()
    (record,) = (tmp_path / "bench").glob("*.json")
    assert json.loads(record.read_text())["benchmarks"]


def test_scaling(cluster: Cluster, world: World, tmp_path: Path) -> None:
    output, experiment = tmp_path / "out", tmp_path / "small.toml"
    experiment.write_text(f"extends = {json.dumps(str(world.experiment))}\n")  # its sections are the other file's
    job = submit(cluster, output, SCRIPTS / "scaling.sbatch", experiment, tmp_path / "scaling", "8", "24",
                 "--set", "finetune.warmup_steps=25",  # more than the smaller run's steps
                 "--set", "ntk.null_draws=0")  # its points do not grow with the ranks
    assert cluster.wait(job, "COMPLETED", "FAILED")["JobState"] == "COMPLETED", output.read_text()
    assert sorted(p.parent.name + "/" + p.name for p in (tmp_path / "scaling").glob("*/*")) == [
        "strong/1", "strong/2", "weak/1", "weak/2"]
    said = output.read_text()
    assert "Strong scaling" in said and "Weak scaling" in said
    flops = []
    for ranks in (1, 2):
        with h5py.File(tmp_path / "scaling" / "weak" / str(ranks) / "results.h5") as file:
            flops.append(file["provenance"].attrs["model_flops"])
    assert 1.5 < flops[1] / flops[0] < 2.5  # smoothness and NTK stay as they are, grids grow faster


def test_ranks_that_do_not_find_each_other_are_refused(cluster: Cluster, world: World, tmp_path: Path) -> None:
    done = cluster.run("srun", "--ntasks=2", "--mpi=none", os.environ["TAUGRID"], "run", world.experiment, "--run-dir",
                       tmp_path / "run")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("taugrid: error:")]
    assert "2" in line and "--mpi" in line


def test_a_rank_that_dies_alone_on_its_host_ends_the_step(cluster: Cluster) -> None:
    """Nobody of taugrid's sees it there: srun does, as the scripts start it."""
    began = time.monotonic()
    done = cluster.run("srun", "--mpi=pmix", "--ntasks=2", "--kill-on-bad-exit=0", os.environ["TAUGRID_FAILING"],
                       "dies all-reduce", "1")
    assert done.returncode == 137 and "task 1: Killed" in done.stderr
    assert time.monotonic() - began < 30  # srun's own start among them, on a busy machine


@pytest.mark.parametrize(("variables", "expected"), [({"PROGRAM": "nowhere"}, "no program nowhere"),
                                                     ({"VENV": "nowhere"}, "no taugrid_analysis in nowhere"),
                                                     ({"MPI": "telepathy"}, "no --mpi=telepathy")])
def test_the_preflight_says_what_is_missing(cluster: Cluster, world: World, tmp_path: Path, variables: dict[str, str],
                                            expected: str) -> None:
    output = tmp_path / "out"
    job = submit(cluster, output, SCRIPTS / "finetune-and-measure.sbatch", world.experiment, tmp_path / "run",
                 **variables)
    ended = cluster.wait(job, "FAILED", "COMPLETED")
    assert ended["ExitCode"] == "2:0" and expected in output.read_text()


def test_an_experiment_that_lacks_its_data_ends_before_the_hours_are_spent(cluster: Cluster, world: World,
                                                                           tmp_path: Path) -> None:
    output = tmp_path / "out"
    job = submit(cluster, output, SCRIPTS / "finetune-and-measure.sbatch", world.experiment, tmp_path / "run",
                 "--set", "data.folder=/nowhere")
    assert cluster.wait(job, "FAILED", "COMPLETED")["ExitCode"] == "2:0"
    assert "inputs are missing" in output.read_text() and not (tmp_path / "run").exists()
