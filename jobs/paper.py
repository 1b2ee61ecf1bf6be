# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Goes through one paper's steps, which jobs/papers/NAME/paper.toml lists: what jobs/paper.sh starts.

NAME may have a further folder: NAME/original has what takes several runs in the paper's own setting. A step is a table
with one of these keys; {run} stands for the run folder:
    measure   runs an experiment file, named from the paper's folder. `run` names the run folder where that is not
              {run}; `set` lists values for --set, in which {run} is absolute; `ranks` is their number in place of
              RANKS; `models_of` takes the models of another run where that is finished. Options of the command line
              go to the first one.
    analysis  is a command line of taugrid_analysis.
    figures   draws the figures that the named run alone can give, of this paper or of `paper`.
    prepare   is a command line of jobs/prepare.
    job       is a script of jobs/ with its arguments, which has RUN, the absolute path of {run} or of `run`.
SEED=N in the environment is the seed of every run: {run} ends with _seedN then, as does the run that models are taken
of. `each` is a list of texts: a step that measures is taken once for every one of them, which {each} stands for, and
a word of an analysis or of figures that has {each} is given once for each. `sizes` is printed at the end. Every step
goes on where it was interrupted, so the whole does too.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

PAPERS = Path("jobs/papers")
EACH = "{each}"
STOPPED = 75  # the exit code of taugrid where it stopped at a safe point


@dataclass(frozen=True)
class Command:
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    leave_out: str = ""  # lines of the output that contain it are not printed


class PaperError(ValueError):
    """What is wrong with a TOML file, in one line."""


def names() -> list[str]:
    return sorted(str(path.parent.relative_to(PAPERS)) for path in PAPERS.rglob("paper.toml"))


def table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except ValueError as error:  # of TOML and of UTF-8
        raise PaperError(f"{path}: is no TOML: {error}") from None
    except OSError as error:
        raise PaperError(f"{path}: {error.strerror}; expected a TOML file") from None


def read(name: str) -> dict[str, Any]:
    path = PAPERS / name / "paper.toml"
    paper = table(path)
    steps = paper.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise PaperError(f"{path}: has no steps; expected a list of tables")
    return paper


def options_for_models(source: Mapping[str, Any], run: str, environment: Mapping[str, str]) -> list[str]:
    """The --set options by which a run takes the regimes' models of another run; none where that is not finished.

    `source` has the other run's folder, the variable that names another folder (or, empty, none), and the regimes. A
    run that has begun goes on with the models that it began with.
    """
    other = environment.get(source["variable"], source["run"])
    configuration = Path(run, "config.toml")
    checkpoints = ""
    if configuration.exists():
        checkpoints = table(configuration).get("finetune", {}).get("checkpoints", "")
    elif other and Path(other, "results.h5").exists():
        checkpoints = os.path.realpath(Path(other, "checkpoints"))
    if not checkpoints:
        return []
    regimes = ", ".join(f'"{regime}"' for regime in source["regimes"])
    return ["--set", f"finetune.checkpoints={checkpoints}", "--set", f"finetune.given=[{regimes}]"]


def refused(name: str, step: Any, why: str) -> PaperError:
    return PaperError(f"{PAPERS / name}/paper.toml: the step {step} {why}")


def taken_from(how: dict[str, Any]) -> list[str]:
    """The step's `each`, which it has no more; [] where it has none, or keeps one that is no list of texts."""
    each = how.get("each")
    if not isinstance(each, list) or not all(isinstance(entry, str) for entry in each):
        return []
    return list(how.pop("each"))


def measured_for_each(name: str, written: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps that a step with `measure` and `each` stands for; any other step is one."""
    step = dict(written)
    if step.get("each") == []:
        raise refused(name, written, "does not take each without a text")
    if "measure" not in step or not (each := taken_from(step)):
        return [step]
    if EACH not in str(step.get("run", "")):
        raise refused(name, written, f"would measure each in the same folder; expected {EACH} in its run")
    if EACH in str(step.get("models_of", "")):
        raise refused(name, written, f"does not take {EACH} in models_of")

    def filled(value: Any, entry: str) -> Any:
        if isinstance(value, list):
            return [filled(part, entry) for part in value]
        return value.replace(EACH, entry) if isinstance(value, str) else value

    return [{key: filled(value, entry) for key, value in step.items()} for entry in each]


def seed_of(environment: Mapping[str, str]) -> str:
    seed = environment.get("SEED", "")
    if seed and not (seed.isascii() and seed.isdecimal()):
        raise PaperError(f"SEED is {seed!r}; expected a whole number from 0 on")
    return seed


def commands(name: str, options: list[str], environment: Mapping[str, str]) -> Iterator[Command]:
    """The commands of a paper's steps, each made when its turn comes. Throws PaperError on a step that is none."""
    python = str(Path(environment.get("TAUGRID_VENV", ".venv"), "bin", "python"))
    analysis = [python, "-m", "taugrid_analysis"]
    seed = seed_of(environment)
    behind = f"_seed{seed}" if seed else ""  # the names of runs
    main_run = environment.get("RUN") or f"runs/papers/{name.replace('/', '_')}{behind}"

    def words(text: str, each: list[str] | None = None) -> list[str]:
        parts = [word.replace("{run}", main_run) for word in shlex.split(text)]
        if each and not any(EACH in word for word in parts):
            raise refused(name, repr(text), f"has each, and no word with {EACH}")
        return [word.replace(EACH, entry) for word in parts for entry in (each if each and EACH in word else [EACH])]

    def folder(how: dict[str, Any]) -> str:
        return how.pop("run", "{run}").replace("{run}", main_run)

    for step in [step for written in read(name)["steps"] for step in measured_for_each(name, written)]:
        match step:
            case {"measure": str(experiment), **how}:
                run = folder(how)
                line = ["bash", "jobs/measure.sh", os.path.normpath(PAPERS / name / experiment), run]
                if source := how.pop("models_of", None):
                    line += options_for_models(source | {"run": source["run"] + behind}, run, environment)
                if seed:
                    line += ["--set", f"run.seed={seed}"]
                for value in how.pop("set", []):
                    line += ["--set", value.replace("{run}", os.path.realpath(main_run))]
                ranks = {"RANKS": str(how.pop("ranks"))} if "ranks" in how else {}
                command = Command(line + options, ranks)
                options = []
            case {"figures": str(run), **how}:
                paper, runs = how.pop("paper", name.split("/")[0]), words(run, taken_from(how))
                command = Command([*analysis, "figures", *runs, "--paper", paper], leave_out="needs")
            case {"analysis": str(text), **how}:
                command = Command(analysis + words(text, taken_from(how)))
            case {"prepare": str(text), **how}:
                command = Command([python, "jobs/prepare", *words(text)])
            case {"job": str(text), **how}:
                script, *arguments = words(text)
                command = Command(["bash", f"jobs/{script}", *arguments], {"RUN": os.path.realpath(folder(how))})
            case _:
                raise refused(name, step, "does nothing that jobs/paper.py knows")
        if how:
            raise refused(name, step, f"does not take {', '.join(how)}")
        if any(EACH in word for word in (*command.words, *command.environment.values())):
            raise refused(name, step, f"has {EACH} where nothing stands for it")
        yield command


def catches(process: int, number: int) -> bool:
    """Whether a process has a handler for a signal; false where it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def children(process: int) -> list[int]:
    """The processes that it started and that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # ended meanwhile
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == process and state != "Z":
                found.append(int(path.parent.name))
    return found


def who_heeds(process: int, number: int) -> int:
    """The process that a request to stop is for: of a script of bash that has no trap for the signal what it runs now.

    Bash alone would end, and what it runs would go on; the script is told by the code with which that ends.
    """
    while not catches(process, number):
        running = children(process)
        try:
            is_script = Path(f"/proc/{process}/comm").read_text() == "bash\n"
        except OSError:
            break
        if not is_script or len(running) != 1:
            break
        process = running[0]
    return process


class Runner:
    """Runs commands. A request to stop goes on to the command that runs, and none begins after it."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[str] | None = None
        self.asked: int | None = None  # the signal that asked for a stop
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            signal.signal(number, self.stop)

    def stop(self, number: int, _: FrameType | None) -> None:
        self.asked = number
        if self.child is not None:
            self.pass_on(self.child)

    def pass_on(self, child: subprocess.Popen[str]) -> None:
        if self.asked is None or self.asked == signal.SIGINT:  # a terminal sends that to all of its processes
            return
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # ended meanwhile
                os.kill(who_heeds(child.pid, self.asked), self.asked)

    def run(self, command: Command) -> int:
        """The exit code: the command's own, 128 and the signal's number, or STOPPED."""
        if self.asked is not None:
            return STOPPED
        print(f"jobs/paper.sh: {shlex.join(command.words)}", file=sys.stderr, flush=True)
        output = subprocess.PIPE if command.leave_out else None
        with subprocess.Popen(command.words, env=os.environ | command.environment, stdout=output, text=True) as child:
            self.child = child
            self.pass_on(child)  # what came while the command was started
            for line in child.stdout or ():
                if command.leave_out not in line:
                    print(line, end="", flush=True)
            code = child.wait()
        self.child = None
        if code == 0 and self.asked is not None:
            return STOPPED
        return code if code >= 0 else 128 - code


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in names():
        print(f"jobs/paper.sh: which paper? {', '.join(names())}", file=sys.stderr)
        return 2
    name, *options = arguments
    runner = Runner()
    try:
        for command in commands(name, options, os.environ):
            code = runner.run(command)
            if code == STOPPED:
                print("Stopped early; run the same command again to go on.", file=sys.stderr)
            if code > 128:  # as jobs/common.sh says it
                print(
                    f"A rank was ended by signal {code - 128} (9: killed, by hand or for memory); run the same command "
                    "again to go on.",
                    file=sys.stderr,
                )
            if code != 0:
                return code
        print(read(name).get("sizes", ""), end="")
    except PaperError as error:
        print(f"jobs/paper.sh: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
