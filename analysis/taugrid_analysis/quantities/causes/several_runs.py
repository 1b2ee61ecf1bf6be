# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What makes cross-task linearity (paper 5, section 5): runs that differ in θ0, in steps, and in their tasks.

A θ0 says how long it was pre-trained by its folder's name, which ends with `epochs-N`, or is `epochN`, as
`keep_epochs` names models on the way; a random one has 0. A task `OWN-OTHER-P` is OWN with P percent of its
training pictures replaced by those of OTHER, as `jobs/prepare parts` makes them; where OTHER is `start`, both
tasks of a pair have them. A setting is what pairs of models share that differ by the order of their training
points or by the seed alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.numbers.ratio import Ratio, of_logs
from taugrid_analysis.numbers.sampling import LEVEL
from taugrid_analysis.quantities.smoothness import magnitude
from taugrid_analysis.run import several_seeds
from taugrid_analysis.run.frames.layers import last_layer
from taugrid_analysis.run.opened import Run

REGIME = "standard"
REPLACED = re.compile(r"(?P<own>.+)-(?P<other>start|d\d+)-(?P<percent>\d+)")
SEED_IN_NAME = re.compile(r"_seed\d+")  # of a folder that jobs/paper.sh or jobs/seeds.sh names
QUANTITIES = ("cosine", "baseline", "coefficient", "centred_cosine", "error")
DRAWS, SEED = 2000, 0


def epochs_of(run: Run) -> float:
    """The epochs of θ0's pre-training; NaN where its name does not say."""
    model = run.results.model()
    if model is None:
        return float("nan")
    match = re.search(r"(?:epochs-|^epoch)(\d+)$", model.name)
    return 0.0 if model.init == "random" else float(match[1]) if match else float("nan")


def steps_of(run: Run) -> Floats:
    """The steps of fine-tuning, a number a task; NaN where models were given."""
    variants, training = run.data("variants", REGIME), run.data("training", REGIME)
    if training is not None and variants is not None:
        return np.asarray(variants["steps"].to_numpy(), dtype=float)
    steps = training.sizes["update"] if training is not None else float("nan")
    return np.full(len(run.results.tasks), float(steps))


def replacement(first: str, second: str) -> tuple[str, float]:
    """What replaces how many percent of the pictures of a pair's tasks; "" and 0 for whole ones."""
    matches = [match for match in map(REPLACED.fullmatch, (first, second)) if match]
    if not matches:
        return "", 0.0
    return matches[0]["other"], max(float(match["percent"]) for match in matches)


def linearity(runs: Sequence[Run]) -> pd.DataFrame:
    """One row a run and pair, at α nearest ½, of the last stage that was measured.

    Columns: run (its folder's name without the seed), seed, start (θ0's name), epochs, tasks (of data), pair
    (of models), steps (of both; NaN where they differ), other and replaced, varied (of a run with several
    numbers of steps), alike (of the same data), and QUANTITIES, X, X_lower and X_upper: means and quartiles.
    """
    rows = []
    for run in runs:
        data = run.data("linearity", REGIME)
        if data is None:
            continue
        model, steps = run.results.model(), steps_of(run)
        half = int(np.argmin(np.abs(data["alpha"].to_numpy() - 0.5)))
        stages = np.flatnonzero(data["layer"].to_numpy() < last_layer(data))
        layer = int(stages[-1]) if len(stages) else -1
        for pair, (i, j) in enumerate(run.results.pairs):
            first, second = run.results.sources[i], run.results.sources[j]
            other, percent = replacement(first, second)
            row: dict[str, object] = {
                "run": SEED_IN_NAME.sub("", run.name),
                "seed": " ".join(run.results.seeds()),
                "start": model.name if model is not None else "",
                "epochs": epochs_of(run),
                "tasks": f"{first} + {second}",
                "pair": run.results.pair_name(pair),
                "steps": steps[i] if steps[i] == steps[j] else float("nan"),
                "other": other,
                "replaced": percent,
                "varied": np.unique(steps[np.isfinite(steps)]).size > 1,
                "alike": first == second,
            }
            for name in QUANTITIES:
                mean, _, lower, _, upper = data[name].to_numpy()[pair, layer, half]
                row |= {name: mean, f"{name}_lower": lower, f"{name}_upper": upper}
            rows.append(row)
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Setting:
    """Pairs of models that differ by seed and by the order of their training points alone."""

    run: str
    epochs: float
    tasks: str
    steps: float
    other: str
    replaced: float
    varied: bool
    pairs: pd.DataFrame  # the rows of `linearity`

    @property
    def seeds(self) -> list[str]:
        return list(dict.fromkeys(self.pairs["seed"]))

    @property
    def of_pairs(self) -> bool:
        """Whether its pairs are samples: of one seed, and no model is in two of them."""
        models = [name for pair in self.pairs["pair"] for name in pair.split(" + ")]
        return len(self.seeds) == 1 and len(models) == len(set(models))

    def samples(self, quantity: str) -> Floats:
        """A number a seed, the mean over its pairs; of one seed a number a pair, where these are samples."""
        if self.of_pairs:
            return np.asarray(self.pairs[quantity], dtype=float)
        return np.asarray(self.pairs.groupby("seed", sort=False)[quantity].mean(), dtype=float)

    def mean(self, quantity: str) -> float:
        """With the standard error over its samples, where there are several."""
        samples = self.samples(quantity)
        if len(samples) < 2:
            return float(samples.mean())
        return Measured(float(samples.mean()), float(samples.std(ddof=1) / np.sqrt(len(samples))))


SETTING = ("run", "epochs", "tasks", "steps", "other", "replaced", "varied")


def settings(runs: Sequence[Run]) -> list[Setting]:
    """In the order of the runs, without pairs of one task, which are the barrier's.

    Raises InputError where runs of one name have the same seed, or differ by more than that.
    """
    frame = linearity(runs)
    if frame.empty:
        return []
    named: dict[str, list[Run]] = {}
    for run in runs:
        named.setdefault(SEED_IN_NAME.sub("", run.name), []).append(run)
    for name in dict.fromkeys(frame["run"]):
        if len(named[name]) > 1:
            several_seeds.seeds(named[name])
    grouped = frame[~frame["alike"]].groupby(list(SETTING), sort=False, dropna=False)
    return [Setting(pairs=pairs, **dict(zip(SETTING, key, strict=True))) for key, pairs in grouped]


@dataclass(frozen=True)
class Compared:
    """1 − cosine of a setting over that of another, sample by sample: of a seed, or of an order of points."""

    setting: Setting
    against: Setting
    cause: str  # what the two differ in
    ratio: Ratio | None  # None where either has a sample without a distance
    less: int  # in how many samples it is less
    samples: int

    @property
    def p(self) -> float | None:
        """p of a ratio of 1; None where one sample is all there is."""
        return self.ratio.p if self.ratio is not None and self.samples > 1 else None


def comparisons(known: Sequence[Setting]) -> list[Compared]:
    """Each setting against the one without its cause, where that was measured."""
    compared = []
    for setting in known:
        cause, against = _without(setting, known)
        if against is None or against.seeds != setting.seeds or against.of_pairs != setting.of_pairs:
            continue
        mine, theirs = (1 - side.samples("cosine") for side in (setting, against))
        if len(mine) != len(theirs):
            continue
        positive = bool((mine > 0).all() and (theirs > 0).all())
        ratio = of_logs(np.log(mine) - np.log(theirs)) if positive else None
        compared.append(Compared(setting, against, cause, ratio, int((mine < theirs).sum()), len(mine)))
    return compared


def _without(setting: Setting, known: Sequence[Setting]) -> tuple[str, Setting | None]:
    """What may cause the setting's linearity, and the setting that differs from it in that alone."""
    same = [entry for entry in known if entry.run == setting.run and entry.epochs == setting.epochs]
    plain = [entry for entry in known if not entry.varied and not _replaces(entry, known)]
    alone = [entry for entry in plain if entry.tasks == setting.tasks]
    if setting.other:
        whole = [entry for entry in same if not entry.other and entry.steps == setting.steps]
        return "data", next(iter(whole), None)
    if setting.varied:
        counted = [entry for entry in same if entry.steps == entry.steps]  # NaN: of pairs of unequal steps
        longest = max(counted, key=lambda entry: entry.steps, default=setting)
        return "steps", longest if longest is not setting else None
    if setting not in alone:
        return "", None  # what others of its run are compared with
    if np.isnan(setting.steps):
        trained = [entry for entry in alone if entry.epochs == setting.epochs and entry.steps == entry.steps]
        return "start", next(iter(trained), None)
    random = [entry for entry in alone if entry.epochs == 0 < setting.epochs and entry.steps == setting.steps]
    return "pre-training", next(iter(random), None)


def _replaces(setting: Setting, known: Sequence[Setting]) -> bool:
    return any(entry.other for entry in known if entry.run == setting.run)


@dataclass(frozen=True)
class Cloud:
    """One θ0's pairs of models: δ, signed, and what may cause it."""

    run: str
    delta: Floats  # [P]
    causes: dict[str, Floats]
    pairs: Array  # [P,2]


@dataclass(frozen=True)
class Explained:
    """R² of a regression with intercept, its 95 % interval, and the slope."""

    value: float
    low: float
    high: float
    slope: float


SIGNED = ("½α(1−α) vᵀHv, H at θ0", "½α(1−α) vᵀHv, H in the middle")


def clouds(runs: Sequence[Run]) -> list[Cloud]:
    """The clouds of runs that have /barrier; λ_max is θ0's where /smoothness has it, else there is none."""
    starts = []
    for run in runs:
        data = run.data("barrier", REGIME)
        if data is not None:
            starts.append(_cloud(run, data))
    return starts


def _cloud(run: Run, data: xr.Dataset) -> Cloud:
    half = int(np.argmin(np.abs(data["alpha"].to_numpy() - 0.5)))
    alpha, square = float(data["alpha"][half]), data["distance"].to_numpy() ** 2
    factor = alpha * (1 - alpha) / 2
    curved = (data["curvature"].to_numpy(), data["middle_curvature"].to_numpy())
    causes = {name: factor * values for name, values in zip(SIGNED, curved, strict=True)}
    top = run.data("smoothness", run.results.start)
    if top is not None:
        largest = magnitude(top)[run.results.pairs].mean(axis=1)
        causes |= {"½α(1−α) λ_max ‖v‖²": factor * largest * square, "λ_max": largest}
    causes["‖v‖²"] = square
    return Cloud(run.name, data["delta"].to_numpy()[:, half].astype(float), causes, run.results.pairs)


def explained(starts: Sequence[Cloud], cause: str, signed: bool) -> Explained:
    """Over all pairs of all θ0. The interval: a bootstrap over θ0s, and within each over its models.

    Pairs share models, and all pairs of a run share θ0, so pairs are not drawn themselves: a pair weighs as
    often as both its models were drawn together.
    """
    x = np.concatenate([cloud.causes[cause] for cloud in starts])
    y = np.concatenate([cloud.delta if signed else np.abs(cloud.delta) for cloud in starts])
    value, slope = _fit(x, y, np.ones((1, len(x))))
    draw = np.random.default_rng(SEED)
    chosen = draw.integers(0, len(starts), (DRAWS, len(starts)))
    weights = []
    for place, cloud in enumerate(starts):
        weight = np.zeros((DRAWS, len(cloud.delta)))
        models, sides = np.unique(cloud.pairs, return_inverse=True)
        for again in range(len(starts)):  # each time that this θ0 was drawn it has other models
            counts = draw.multinomial(len(models), np.full(len(models), 1 / len(models)), DRAWS)
            together = counts[:, sides.reshape(-1, 2)].prod(axis=2)
            weight += (chosen[:, again] == place)[:, None] * together
        weights.append(weight)
    drawn = _fit(x, y, np.concatenate(weights, axis=1))[0]
    kept = drawn[np.isfinite(drawn)]
    low, high = np.quantile(kept, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if len(kept) else (float("nan"),) * 2
    return Explained(float(value[0]), float(low), float(high), float(slope[0]))


def _fit(x: Floats, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """R² [D] and slope [D] of regressions with intercept, weights [D,N]; NaN where x or y does not vary."""
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
    a, b = (v - (weight * v).sum(axis=1, keepdims=True) / total for v in (x, y))
    xx, xy, yy = ((weight * product).sum(axis=1) for product in (a * a, a * b, b * b))
    tiny = 1e-24 * total[:, 0]
    varies = (xx > tiny * np.abs(x).max() ** 2) & (yy > tiny * np.abs(y).max() ** 2)
    varies &= np.count_nonzero(weight, axis=1) > 2
    with np.errstate(divide="ignore", invalid="ignore"):
        square, slope = xy**2 / (xx * yy), xy / xx
    return np.where(varies, square, np.nan), np.where(varies, slope, np.nan)
