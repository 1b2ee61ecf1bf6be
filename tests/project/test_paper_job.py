# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""jobs/paper.sh: the steps of each paper, in their order, and that a stopped paper goes on."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import experiments
import pytest

ROOT = Path(__file__).parents[2]
PAPERS = ["attention_only", "bases", "bases/original", "cross_task_linearity", "cross_task_linearity/original",
          "decoder", "language", "tangent_space", "tangent_space/original", "tangent_space/sizes", "tau_jp",
          "tau_jp/original"]


def paper_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("paper", ROOT / "jobs" / "paper.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["paper"] = module
    spec.loader.exec_module(module)
    return module


paper = paper_module()


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Handlers of this process stay what they were."""
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the job and the papers that the repository ships, and no run."""
    shutil.copytree(ROOT / "jobs" / "papers", tmp_path / "jobs" / "papers")
    for script in ("paper.sh", "paper.py"):
        shutil.copy(ROOT / "jobs" / script, tmp_path / "jobs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(name: str, *options: str, **environment: str) -> list[str]:
    """The steps' commands, in which a run of the program begins with "measure"."""
    return [" ".join(command.words).replace("bash jobs/measure.sh jobs/papers/", "measure ")
            for command in paper.commands(name, list(options), environment)]


def measured(name: str, *options: str, **environment: str) -> list[str]:
    return [line for line in lines(name, *options, **environment) if line.startswith("measure ")]


def finished(run: Path) -> Path:
    (run / "checkpoints").mkdir(parents=True)
    (run / "results.h5").touch()
    return run


def given(run: Path) -> str:
    return f' --set finetune.checkpoints={run}/checkpoints --set finetune.given=["standard", "linear"]'


def test_models_of_a_finished_quickstart_are_taken(tree: Path) -> None:
    begin = "measure bases/bases.toml runs/papers/bases"
    second = "measure bases/second.toml runs/papers/bases_second --set finetune.checkpoints="
    second += f"{tree}/runs/papers/bases/checkpoints/other_start"
    assert measured("bases", "--mixed") == [f"{begin} --mixed", second]
    quickstart = finished(tree / "runs" / "quickstart")
    assert measured("bases", "--mixed") == [f"{begin}{given(quickstart)} --mixed", second]
    assert measured("bases", QUICKSTART="") == [begin, second]
    other = finished(tree / "other")
    assert measured("bases", QUICKSTART="other") == [begin + given(other), second]
    (quickstart / "results.h5").unlink()
    assert measured("bases") == [begin, second]


def test_another_seed_is_that_of_every_run_and_of_the_models_that_are_taken(tree: Path) -> None:
    finished(tree / "runs" / "quickstart")  # of seed 0
    second = "measure bases/second.toml runs/papers/bases_seed2_second"
    second += f" --set run.seed=2 --set finetune.checkpoints={tree}/runs/papers/bases_seed2/checkpoints/other_start"
    first = "measure bases/bases.toml runs/papers/bases_seed2{} --set run.seed=2 --mixed"
    assert measured("bases", "--mixed", SEED="2") == [first.format(""), second]
    quickstart = finished(tree / "runs" / "quickstart_seed2")
    assert measured("bases", "--mixed", SEED="2") == [first.format(given(quickstart)), second]
    assert measured("tau_jp", SEED="0", RUN="mine")[0] == "measure tau_jp/tau_jp.toml mine --set run.seed=0"


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("seed", ["one", "-1", "1.5", "²"])
def test_a_seed_that_is_no_whole_number_is_refused(seed: str) -> None:
    done = subprocess.run(["bash", "jobs/paper.sh", "tau_jp"], env=os.environ | {"SEED": seed}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and "expected a whole number" in done.stderr and done.stderr.count("\n") == 1


def test_findings_are_made_again_with_other_seeds(tmp_path: Path) -> None:
    """Each part of jobs/seeds.sh has every seed, and the means are of the folders that the parts left."""
    python = tmp_path / "venv" / "bin" / "python"
    (tmp_path / "jobs").mkdir()
    python.parent.mkdir(parents=True)
    shutil.copy(ROOT / "jobs" / "seeds.sh", tmp_path / "jobs")
    (tmp_path / "jobs" / "common.sh").write_text('set -euo pipefail\nvenv=venv\nmeasure() { echo "measured $*"; }\n')
    for script in ("paper.sh", "penalty_sweep.sh", "causes.sh"):
        (tmp_path / "jobs" / script).write_text('echo "$0${*:+ $*} SEED=${SEED:-} RUN=${RUN:-}"\n')
    python.write_text('#!/bin/sh\necho "$*"\n')
    python.chmod(0o755)

    def said(**environment: str) -> list[str]:
        command = ["bash", str(tmp_path / "jobs" / "seeds.sh")]
        done = subprocess.run(command, env={"PATH": os.environ["PATH"]} | environment, capture_output=True, text=True,
                              check=False)
        assert done.returncode == (2 if "nothing" in environment.get("ONLY", "") else 0), done.stderr
        return (done.stdout + done.stderr).splitlines()

    every = said()
    for seed in (1, 2):
        assert f"measured experiments/quickstart runs/quickstart_seed{seed} --set run.seed={seed}" in every
        assert f"jobs/paper.sh bases SEED={seed} RUN=" in every
        assert f"jobs/penalty_sweep.sh --set run.seed={seed} SEED= RUN=runs/penalty_sweep_seed{seed}" in every
    means = [line for line in every if line.startswith("-m taugrid_analysis seeds")]
    assert ("-m taugrid_analysis seeds runs/papers/tau_jp_seed1_figure3 runs/papers/tau_jp_seed2_figure3"
            " --table continuation --table pair_addition") in means
    assert not any("_seed0" in line for line in means)
    assert said(SEEDS="3", ONLY="causes") == [f"jobs/causes.sh SEED=3 RUN={tmp_path}/runs/causes_seed3"]
    folders = ("epochs-2", "epochs-10", "replaced", "separate", "steps")
    for seed in (3, 4):
        for name in (*folders, "barrier-0", "start", "other", "figures"):
            (tmp_path / "runs" / f"causes_seed{seed}" / name).mkdir(parents=True)
    every_run = (f"runs/causes_seed{seed}/{name}" for seed in (3, 4) for name in ("barrier-0", *folders))
    assert said(SEEDS="3 4", ONLY="causes")[-1] == f"-m taugrid_analysis causes {' '.join(every_run)}"
    assert said(ONLY="nothing")[-1].startswith("jobs/seeds.sh: ONLY names nothing; expected tau_jp")


def test_causes_pair_models_of_equal_steps_and_no_model_twice(tmp_path: Path) -> None:
    """jobs/causes.sh names every pair: fine-tunings of one order, each as often as causes.toml has it."""
    python = tmp_path / "venv" / "bin" / "python"
    (tmp_path / "jobs").mkdir()
    python.parent.mkdir(parents=True)
    shutil.copy(ROOT / "jobs" / "causes.sh", tmp_path / "jobs")
    (tmp_path / "jobs" / "common.sh").write_text(
        'set -euo pipefail\nvenv=venv\nmeasure() { mkdir -p "$2"; printf "%s\\t" "$@"; echo; }\n')
    python.write_text("#!/bin/sh\necho figure 11: drawn.png\n")
    python.chmod(0o755)
    command = ["bash", str(tmp_path / "jobs" / "causes.sh")]
    done = subprocess.run(command, env={"PATH": os.environ["PATH"], "EPOCHS": "1 10"}, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    calls = {Path(words[1]).name: "\t".join(words) for words in map(str.split, done.stdout.splitlines())
             if words[0].startswith("papers/")}
    pairs = {name: re.findall(r'"([^"+]+)\+([^"+]+)"', line) for name, line in calls.items()}
    shipped = tomllib.loads((ROOT / "jobs/papers/cross_task_linearity/causes.toml").read_text("utf-8"))
    times = shipped["variants"]["seeds"]
    assert shipped["data"]["pairs"] == [f"d1-{k}+d2-{k}" for k in range(1, times + 1)] and not pairs["epochs-10"]
    assert pairs["steps"] == [(f"d1-{k}", f"d2-{k}") for k in range(1, 2 * times + 1)]  # of two numbers of steps
    assert "variants.steps=[12,\t120]" in calls["steps"]
    assert len(pairs["replaced"]) == 9 * times and pairs["replaced"][0] == ("d1-1", "d2-1")
    assert ("d1-start-75-3", "d2-start-75-3") in pairs["replaced"] and ("d1-3", "d2-d1-75-3") in pairs["replaced"]


def test_a_run_goes_on_with_the_models_that_it_began_with(tree: Path) -> None:
    finished(tree / "runs" / "quickstart")
    run = tree / "runs" / "papers" / "bases"
    run.mkdir(parents=True)
    (run / "config.toml").write_text('[finetune]\ncheckpoints = ""\n')
    assert measured("bases")[:1] == ["measure bases/bases.toml runs/papers/bases"]
    (run / "config.toml").write_text('[finetune]\ncheckpoints = "/elsewhere/checkpoints"\n')
    assert measured("bases")[:1] == ["measure bases/bases.toml runs/papers/bases" + given(Path("/elsewhere"))]


@pytest.mark.usefixtures("tree")
def test_language_brings_texts_and_measures_its_controls() -> None:
    steps = lines("language", "--mixed", TAUGRID_VENV="venv")
    assert steps[:3] == ["bash jobs/setup.sh --language", "venv/bin/python jobs/prepare language --out data/language",
                         "measure language/language.toml runs/papers/language --mixed"]
    assert steps[-2:] == ["measure language/words.toml runs/papers/language_words",
                          "venv/bin/python -m taugrid_analysis tables runs/papers/language_words --only pairs"]
    assert lines("bases")[0] == "bash jobs/setup.sh --default-tasks"


def test_models_of_earlier_steps_are_named_by_absolute_paths(tree: Path) -> None:
    """A relative one would count from the experiment file's folder."""
    steps = list(paper.commands("tangent_space", ["--mixed"], {"RUN": "mine"}))
    start, then = (next(step for step in steps if step.words[2].endswith(f"/{name}.toml"))
                   for name in ("convnext_start", "convnext"))
    assert start.words[3:] == ["mine_convnext_start"] and start.environment == {"RANKS": "1"}
    assert then.words[3:] == ["mine_convnext", "--set",
                              f"model.path={tree}/mine_convnext_start/checkpoints/standard/named"]
    assert not then.environment


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_measures_before_it_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert paper.names() == PAPERS
    runs: set[str] = set()
    for command in paper.commands(name, [], {"QUICKSTART": ""}):  # whether one is finished in this clone or not
        words = command.words
        if words[1] == "jobs/measure.sh":
            assert Path(words[2]) in [path.relative_to(ROOT) for path in experiments.SHIPPED]
            for word in words[4:]:
                if "/checkpoints" in word:
                    assert Path(word.split("=", 1)[1].split("/checkpoints")[0]).relative_to(ROOT) in \
                        [Path(run) for run in runs]
            runs.add(words[3])
        elif words[1:3] == ["-m", "taugrid_analysis"]:
            assert words[3] in ("tables", "figures", "report", "causes", "seeds")
            assert {word for word in words[4:] if word.startswith("runs/")} <= runs
        else:
            assert Path(words[1]).exists()
    assert runs


def test_a_step_is_measured_for_each(tree: Path) -> None:
    """A step that measures is taken once for each, and an analysis has a word for each."""
    (tree / "jobs" / "papers" / "odd" / "original").mkdir(parents=True)
    (tree / "jobs" / "papers" / "odd" / "original" / "paper.toml").write_text("""steps = [
  { measure = "{each}.toml", each = ["a", "b"], run = "{run}_{each}", set = ["model.path={run}_start/{each}", "x=1"] },
  { analysis = "causes {run}_{each} {run}_c --format csv", each = ["a", "b"] },
  { figures = "{run}_{each}", each = ["a", "b"] },
]
""")
    steps = lines("odd/original", "--mixed", TAUGRID_VENV="venv")
    run = "runs/papers/odd_original"
    start = f"{tree}/{run}_start"
    assert steps == [f"measure odd/original/a.toml {run}_a --set model.path={start}/a --set x=1 --mixed",
                     f"measure odd/original/b.toml {run}_b --set model.path={start}/b --set x=1",
                     f"venv/bin/python -m taugrid_analysis causes {run}_a {run}_b {run}_c --format csv",
                     f"venv/bin/python -m taugrid_analysis figures {run}_a {run}_b --paper odd"]


def test_steps_that_are_none_are_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "jobs" / "papers" / "odd").mkdir()
    file = tree / "jobs" / "papers" / "odd" / "paper.toml"
    refusals = {'mesure = "x"': "does nothing that", 'analysis = "tables x", ranks = 1': "not take ranks",
                'measure = "x", each = "a"': "not take each", 'measure = "x", each = [1]': "not take each",
                'analysis = "tables x", each = "ab"': "not take each", 'job = "x", each = ["a"]': "not take each"}
    refusals |= {'measure = "{each}.toml", run = "{each}", each = []': "not take each",
                 'measure = "{each}.toml"': "nothing stands for it",
                 'measure = "{each}.toml", each = ["a"]': "in the same folder",
                 'measure = "x", run = "{each}", each = ["a"], models_of = { run = "{each}" }': "in models_of",
                 'analysis = "tables x", each = ["a"]': "no word with {each}",
                 'analysis = "tables {each}"': "nothing stands for it", 'figures = "x", each = ["a"]': "no word with",
                 'figures = "{each}", each = []': "not take each",
                 'figures = "{each}", each = ["a"], paper = "{each}"': "nothing stands for it"}
    for step, problem in refusals.items():
        file.write_text(f"steps = [{{ {step} }}]\n")
        assert paper.main(["odd"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("jobs/paper.sh: jobs/papers/odd/paper.toml: ") and problem in error
        assert error.count("\n") == 1


@pytest.mark.parametrize(("text", "problem"), [
    (b"steps = [", "is no TOML"),
    (b"steps = 3", "has no steps"),
    (b"steps = [3]", "has no steps"),
    (b"sizes = 'x'", "has no steps"),
    (b"steps = '\xff'", "is no TOML"),
    (b"steps = [{ measure = 3 }]", "does nothing that"),
], ids=["cut", "number", "no table", "none", "no text", "no name"])
def test_a_wrong_file_is_refused_in_one_line(tree: Path, capsys: pytest.CaptureFixture[str], text: bytes,
                                             problem: str) -> None:
    (tree / "jobs" / "papers" / "odd").mkdir()
    (tree / "jobs" / "papers" / "odd" / "paper.toml").write_bytes(text)
    assert paper.main(["odd"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("jobs/paper.sh: jobs/papers/odd/paper.toml: ") and problem in error
    assert error.count("\n") == 1


def small_paper(tree: Path, script: str) -> None:
    """A paper of three steps, the middle one of which is this script."""
    folder = tree / "jobs" / "papers" / "small"
    folder.mkdir()
    steps = ['{ job = "say.sh first" }', '{ job = "middle.sh", run = "{run}_middle" }', '{ job = "say.sh last {run}" }']
    (folder / "paper.toml").write_text(f'steps = [\n{", ".join(steps)}\n]\nsizes = """\nSizes.\n"""\n')
    (tree / "jobs" / "say.sh").write_text('echo "$@"\n')
    (tree / "jobs" / "middle.sh").write_text(script)


def job(tree: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(["bash", tree / "jobs" / "paper.sh", *arguments], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=os.environ | {"TAUGRID_VENV": "none"}, cwd="/")


def test_a_paper_that_was_interrupted_goes_on(tree: Path) -> None:
    small_paper(tree, '[ -e "$RUN" ] || { touch "$RUN"; mkdir -p runs; exit 75; }; echo "goes on"\n')
    (tree / "runs" / "papers").mkdir(parents=True)
    first = job(tree, "small")
    out, error = first.communicate()
    assert first.returncode == 75 and out == "first\n" and error.endswith("run the same command again to go on.\n")
    again = job(tree, "small")
    out, error = again.communicate()
    assert again.returncode == 0 and out == "first\ngoes on\nlast runs/papers/small\nSizes.\n"
    assert error.splitlines() == ["jobs/paper.sh: bash jobs/say.sh first", "jobs/paper.sh: bash jobs/middle.sh",
                                  "jobs/paper.sh: bash jobs/say.sh last runs/papers/small"]


def test_what_fails_ends_the_paper_with_its_code(tree: Path) -> None:
    small_paper(tree, "exit 3\n")
    failed = job(tree, "small")
    assert failed.communicate()[0] == "first\n" and failed.returncode == 3
    small = tree / "jobs" / "middle.sh"
    small.write_text("kill -KILL $$\n")
    killed = job(tree, "small")
    out, error = killed.communicate()
    assert out == "first\n" and killed.returncode == 128 + signal.SIGKILL
    assert "ended by signal 9" in error and error.endswith("run the same command again to go on.\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("code", [0, 75, 5])
def test_a_request_to_stop_reaches_the_step_that_runs(tree: Path, number: signal.Signals, code: int) -> None:
    begun = tree / "begun"
    small_paper(tree, f'trap "echo asked; exit {code}" TERM USR1\ntouch {begun}\nwhile :; do sleep 0.05; done\n')
    running = job(tree, "small")
    while not begun.exists():
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(number)
    out, error = running.communicate(timeout=300)
    assert out == "first\nasked\n" and running.returncode == (code or 75)
    assert ("Stopped early" in error) == (code != 5)


def test_a_request_to_stop_reaches_what_a_script_runs(tree: Path) -> None:
    """A bash without a trap would die alone, and the program that it runs would go on."""
    begun, program, inner = tree / "begun", tree / "program.py", tree / "jobs" / "inner.sh"
    program.write_text("import signal, sys, time\n"
                       "signal.signal(signal.SIGTERM, lambda *_: (print('asked', flush=True), sys.exit(75)))\n"
                       f"open('{begun}', 'w').close()\ntime.sleep(600)\n")
    inner.write_text(f'"{sys.executable}" "{program}" || exit\n')
    small_paper(tree, f'set -e\nbash "{inner}"\necho "goes on"\n')
    running = job(tree, "small")
    while not begun.exists():
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    out, error = running.communicate(timeout=300)
    assert out == "first\nasked\n" and running.returncode == 75 and "Stopped early" in error


def test_a_request_to_stop_that_comes_while_a_step_is_started_reaches_it(tree: Path) -> None:
    program = """
import os, signal, subprocess, sys
import paper

class Asked(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        os.kill(os.getpid(), signal.SIGUSR1)

paper.subprocess.Popen = Asked
sys.exit(paper.Runner().run(paper.Command(["sleep", "600"])))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tree / "jobs", timeout=300, check=False)
    assert done.returncode == 128 + signal.SIGUSR1


def test_an_unknown_paper_is_refused_with_the_names(tree: Path) -> None:
    for arguments in ((), ("tau",)):
        refused = job(tree, *arguments)
        out, error = refused.communicate()
        assert refused.returncode == 2 and not out
        assert error == f"jobs/paper.sh: which paper? {', '.join(PAPERS)}\n"


def test_figures_that_need_other_runs_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    figures = paper.Command(["printf", "figure 1: a.png\\nfigure 2: needs x\\n"], leave_out="needs")
    assert paper.Runner().run(figures) == 0
    assert capfd.readouterr().out == "figure 1: a.png\n"


def test_the_quickstart_trains_what_bases_would() -> None:
    bases, quickstart = (experiments.read(experiments.JOBS / f"{name}.toml")
                         for name in ("papers/bases/bases", "experiments/quickstart"))
    for other_models in ("keep", "multitask", "multitask_linear"):  # on the way, and of several tasks together
        del bases["finetune"][other_models]
    assert bases["finetune"] == quickstart["finetune"] and bases["model"] == quickstart["model"]
    assert bases["run"]["seed"] == quickstart["run"]["seed"]
    assert bases["data"]["tasks"] == quickstart["data"]["tasks"]
    assert bases["data"]["folder"] == quickstart["data"]["folder"]


def test_every_common_file_is_extended() -> None:
    assert set(experiments.COMMON) <= {experiments.base_of(path) for path in experiments.SHIPPED}
