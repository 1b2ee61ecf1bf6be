# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' printed numbers beside the run's, or on their own where the run measured another model."""

from __future__ import annotations

import math
from importlib import import_module

import numpy as np

from taugrid_analysis.numbers import sampling
from taugrid_analysis.numbers.means import place_of
from taugrid_analysis.numbers.measured import Measured, measured_mean, percent
from taugrid_analysis.page.cells import cell
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.papers import published
from taugrid_analysis.quantities.addition import sums as addition_sums
from taugrid_analysis.quantities.heads import drawn
from taugrid_analysis.quantities.negation import forgetting
from taugrid_analysis.quantities.negation.columns import part_of_tasks
from taugrid_analysis.quantities.training import crops
from taugrid_analysis.run.model import Model
from taugrid_analysis.run.opened import Run

JUDGED = (
    "Verdict: ours is rounded as printed and held against the range of the papers that print the cell;"
    f" {100 * sampling.LEVEL:.0f} % of what the numbers of test points explain, ours and theirs, counts as"
    " agreement. Seeds and training are not in it, and where both have the same test points it is wider than"
    " need be."
)


def add_published(table: Table, run: Run, identity: published.Identity) -> None:
    """A column of printed numbers and a verdict beside each measured one."""
    if published.setting_of(run.results):  # the papers' zero-shot heads read none of it
        return
    model = run.results.model()
    assert model is not None and identity.key is not None
    measured = [
        ("absolute", "addition", 2),
        ("normalized", "addition", 3),
        ("one_shot_absolute", "one_shot", 4),
        ("one_shot_normalized", "one_shot", 5),
    ]
    sources: set[str] = set()
    for column, measure, index in measured:
        added: list[tuple[str | None, str | None]] = []
        for row in table.rows:
            value, regime = row[index], str(row[0])
            printed = published.cells(measure, model.init, column, regime, identity.key)
            if not printed or not isinstance(value, Measured) or not math.isfinite(value):
                added.append((None, None))
                continue
            sources |= {entry.source for entry in printed}
            ends = [
                min(printed, key=lambda entry: entry.number),
                max(printed, key=lambda entry: entry.number),
            ]
            shown = list(dict.fromkeys(f"{entry.number:.{entry.decimals}f}" for entry in ends))
            judged = None if _of_another_start(model) else published.verdict(percent(value), printed)
            added.append(("…".join(shown), str(judged) if judged is not None else None))
        if any(shown is not None for shown, _ in added):
            table.columns += [Column(f"{column} published"), Column(f"{column} verdict")]
            for row, cells in zip(table.rows, added, strict=True):
                row += cells
    known = ", ".join(sorted(sources)) or "no such cell"
    table.notes += [f"Published for {identity.title}: {known}.", *_judged(run)]


def _of_another_start(model: Model | None) -> bool:
    """Whether the model starts at random, and not where the paper of such starts does."""
    return model is not None and model.init == "random" and model.drawn_as != OPEN_CLIP


def _judged(run: Run) -> list[str]:
    """What a verdict says, and what was trained otherwise than in the papers' code."""
    plain = crops.without_crops(run)
    notes = [f"Trained without the random crops of the papers' code: {', '.join(plain)}."] if plain else []
    return [JUDGED, *notes]


def orientation(run: Run, identity: published.Identity) -> list[Table]:
    """The papers' own tables, when this run cannot be judged by them."""
    if not run.results.names("addition"):
        return []
    model = run.results.model()
    init = model.init if model is not None else "pretrained"
    keys = published.models()
    tables = []
    for source in published.tables():
        if source.measure != "addition" or source.init != init or source.paper != "Tangent" or source.setting:
            continue
        columns = [Column("regime"), Column("method in the paper")]
        for title in keys.values():
            columns += [Column(f"{title.removeprefix('CLIP ')} {name[:4]}", 1) for name in source.columns]
        rows: list[list[Value]] = []
        for row in source.rows:
            numbers: list[Value] = []
            for key in keys:
                printed = row.values[key]
                numbers += [*printed, *[None] * (len(source.columns) - len(printed))]
            rows.append([row.regime, row.label, *numbers])
        table = Table(
            "published", f"{source.paper} paper, Table {source.number}. {source.caption}, %", columns, rows
        )
        table.notes.append(
            f"For orientation only, without verdict: {identity.reason}, so its accuracies need not agree."
        )
        tables.append(table)
    return tables


NOT_MEASURED = "not measured by this run"
OTHER_MACHINE = "other machine"
OTHER_START = "other initialisation"
OPEN_CLIP = "open_clip"  # whose start the paper's models at random have
OTHER_SETTINGS = "settings of ours"
T5 = "T5ForConditionalGeneration"


def paper_tables(run: Run, paper: str) -> list[Table]:
    """Every table of one paper beside this run's numbers: what papers/NAME/tables.py makes."""
    tables: list[Table] = import_module(f"taugrid_analysis.papers.{paper}.tables").tables(run)
    return tables


def of_regimes(run: Run, paper: str) -> list[Table]:
    """The tables of a paper of regimes: a line a printed number, this run's beside it."""
    identity = published.identify(run.results)
    return [_paper_table(run, source, identity) for source in published.tables((paper,))]


def _paper_table(run: Run, source: published.PublishedTable, identity: published.Identity) -> Table:
    table = Table(
        f"table{source.number}",
        f"{source.paper} paper, Table {source.number}. {source.caption}",
        [
            Column("method"),
            Column("regime"),
            Column("model"),
            Column("quantity"),
            Column("published"),
            Column("its error", 1, significant=True),
            Column("ours", 4, significant=True),
            Column("difference", 2),
            Column("verdict"),
            Column("remark"),
        ],
    )
    for row in source.rows:
        for key in list(row.values) or [""]:
            printed = row.values.get(key, [None] * len(source.columns))
            named = [row.label, row.regime, published.title(key) if key else ""]
            for position, number in enumerate(printed):
                column = source.columns[position]
                shown = None if number is None else source.as_printed(position, number)
                error = source.error(row, key, position)
                cells = _cells(run, source, identity, row.regime, key, column, number)
                table.rows.append([*named, column, shown, error, *cells])
            if source.measure == "cost":  # what table 4 calls cost is no peak
                peak = _cells(run, source, identity, row.regime, key, "peak_megabytes", None)
                table.rows.append([*named, "peak_megabytes", None, None, *peak])
    table.notes += _notes(run, source, identity)
    return table


def _notes(run: Run, source: published.PublishedTable, identity: published.Identity) -> list[str]:
    if source.measure == "cost":
        return [
            "megabytes: four bytes a parameter, θ0 beside θ where the model is linearised; peak_megabytes:"
            " the most bytes of tensors alive at once during a training step, which the paper does not"
            " print. time: of the whole training, the seconds of all tasks added up, on"
            f" {_devices(run)}; how many tasks the paper's is of, it does not say.",
            *_of_last_starts(run, source),
            f"Published for {source.setting}: ours are of another model, without difference.",
        ]
    notes = ["Accuracies in percent, errors and differences in points."]
    if source.picture and not any(row.values for row in source.rows):
        notes.append("The paper's text holds this table as a picture: no printed numbers here.")
    elif source.picture:
        notes.append("The paper's text holds this table as a picture: numbers from the authors' repository.")
    if source.setting and _of_language(run, source):
        mean = (
            "the tasks that both have"
            if _of_both(run, source)
            else f"the {len(run.results.tasks)} tasks of this run, none of which is the paper's"
        )
        notes.append(
            f"Published for {source.setting}, settings unsaid. Ours: α chosen on validation, one for all"
            f" tasks; the average is over {mean}. No difference, no verdict."
        )
        notes.append(_scored(run, source))
    elif source.setting and source.setting == published.setting_of(run.results):
        notes.append(f"Published for {source.setting}, and ours is one, but not the paper's: no verdict.")
    elif source.setting:
        notes.append(f"Published for {source.setting}: this run has none.")
    elif identity.key is None:
        notes.append(f"No difference and no verdict: {identity.reason}, so the numbers need not agree.")
    else:
        notes += _judged(run)
    model = run.results.model()
    if source.init == "random" and (model is None or model.drawn_as != OPEN_CLIP):
        notes.append(
            f"{OTHER_START}: ours is drawn as Hugging Face draws CLIP: normal, biases 0, patches and"
            " positions with deviation 0.02, the MLP's first layer 1/√(2 width), attention's output 1/√width;"
            " queries, keys, values and the MLP's second layer narrow with the number of layers,"
            " 1/√(2 width · layers). The paper's is open_clip's: positions normal with deviation 1/√width;"
            " patches, attention and MLP as PyTorch draws them, whatever the number of layers: queries, keys"
            " and values Xavier uniform, the others Kaiming uniform, biases 0 in attention and uniform in the"
            " MLP. Class token and projection are alike, normal with deviation 1/√width. So there is no"
            " verdict."
        )
    return notes


def _cells(
    run: Run,
    source: published.PublishedTable,
    identity: published.Identity,
    regime: str,
    key: str,
    column: str,
    printed: published.Number | None,
) -> list[Value]:
    """ours, difference, verdict, remark"""
    model = run.results.model()
    other_start = model is not None and model.init != source.init
    other_model = bool(key) and bool(identity.title) and published.title(key) != identity.title
    costs = source.measure == "cost"
    if _of_language(run, source):
        summed = _language(run, source, regime, column)
        return [summed, None, None, NOT_MEASURED if summed is None else OTHER_SETTINGS]
    other_setting = bool(source.setting) and source.setting != published.setting_of(run.results)
    # A published CLIP with classifiers of its own is none of those that are read by zero-shot heads.
    other_setting |= (
        not source.setting and identity.key is not None and bool(published.setting_of(run.results))
    )
    if other_start or ((other_setting or other_model) and not costs):
        return [None, None, None, NOT_MEASURED]
    value = measured(run, column, regime)
    if source.setting == published.CLOSED and regime == "pretrained" and column == "absolute":
        value = drawn.accuracy(run.results) or value
    if value is None or not math.isfinite(value):
        return [None, None, None, NOT_MEASURED]
    if column == "time":
        return [_minutes(value), None, None, identity.differs or OTHER_MACHINE]
    accuracy = column not in COSTS
    ours = percent(value) if isinstance(value, Measured) else float(value)
    remark = identity.differs or ("" if accuracy else OTHER_MACHINE)
    if source.init == "random" and _of_another_start(model):
        remark = remark or OTHER_START
    if COLUMNS.get(column, "").endswith(("negated", "negated_control")) and regime in run.summary.index:
        prefix = COLUMNS[column].partition("negated")[0]
        part = part_of_tasks(run.summary.loc[regime][f"{prefix}kept"], len(run.results.tasks))
        remark = remark or (f"mean of {part}" if part and prefix != "one_shot_" else "")
    if remark or not isinstance(printed, float):
        return [ours, None, None, remark]
    same = published.cells(source.measure, source.init, column, regime, key)
    assert isinstance(ours, Measured)
    judged = published.verdict(ours, same)
    if judged is None:
        return [ours, None, None, "our test points are not known"]
    return [ours, judged.difference, str(judged), remark]


def _of_language(run: Run, source: published.PublishedTable) -> bool:
    """Whether the table is of language and the run of a T5."""
    model = run.results.model()
    return source.measure == "language" and model is not None and model.architecture == T5


def _of_both(run: Run, source: published.PublishedTable) -> list[int]:
    """The places of the table's tasks that the run has."""
    return [t for t, task in enumerate(run.results.tasks) if task.lower() in source.columns]


def _language(run: Run, source: published.PublishedTable, regime: str, column: str) -> Measured | None:
    """The sum's score on the task of this column, in percent.

    The average is over the table's tasks, or over all of the run's where it has none of them.
    """
    tasks = [task.lower() for task in run.results.tasks]
    wanted = [t for t in range(len(tasks)) if tasks[t] == column]
    if column == "average":
        wanted = _of_both(run, source) or list(range(len(tasks)))
    scores = [_score(run, source, regime, t) for t in wanted]
    held = [score for score in scores if score is not None]
    if not held or len(held) < len(scores):
        return None
    return percent(measured_mean(np.array(held), np.array([score.error for score in held])))


def _score(run: Run, source: published.PublishedTable, regime: str, t: int) -> Measured | None:
    """The score of the sum at the α that validation chose: accuracy, or Spearman's correlation.

    The table says which. The correlation's error is not known; None where answers were not decoded at that α.
    """
    sums = addition_sums.added(run.results, regime)
    if sums is None:
        return None
    if run.results.tasks[t].lower() not in source.correlated:
        return Measured(sums.accuracy[t], sums.accuracy_error[t])
    data = run.data("generation_sum", regime)
    place = None if data is None else place_of(data["alpha"].to_numpy(), sums.alpha)
    if data is None or place is None or not np.isfinite(data["spearman"].to_numpy()[place, t]):
        return None
    return Measured(float(data["spearman"].to_numpy()[place, t]), float("nan"))


def _scored(run: Run, source: published.PublishedTable) -> str:
    """What the table's tasks are scored by, of those that this run has."""
    correlated = [task for task in run.results.tasks if task.lower() in source.correlated]
    correlation = f"; of {', '.join(correlated)} 100 times Spearman's correlation" if correlated else ""
    return f"Ours are shares of right answers{correlation}."


COSTS = ("seconds", "parameters", "trained", "megabytes", "peak_megabytes", "time")
MEGA = 1e6
COLUMNS = {  # of the papers' tables: those of the frame `summary`
    "single": "single",
    "target": "negated",
    "control": "negated_control",
    "wide_target": "wide_negated",
    "wide_control": "wide_negated_control",
    "one_shot_target": "one_shot_negated",
    "one_shot_control": "one_shot_negated_control",
    "absolute": "absolute",
    "normalized": "normalized",
    "one_shot_absolute": "one_shot_absolute",
    "one_shot_normalized": "one_shot_normalized",
}


def measured(run: Run, column: str, regime: str) -> float | None:
    """This run's number for a column of the papers' tables: a fraction with its error, or a cost."""
    if column in COSTS:
        return _cost(run, column, regime)
    if regime == "pretrained":
        if column.endswith("control"):
            return forgetting.control_accuracy(run.results)
        return cell(run.summary.loc[run.results.start], "single")
    if regime not in run.summary.index or column not in COLUMNS:
        return None
    return cell(run.summary.loc[regime], COLUMNS[column])


def _devices(run: Run) -> str:
    """What trained: the devices of the units that did."""
    units = [unit for unit in run.results.units() if unit.key.startswith("finetune/")]
    return ", ".join(dict.fromkeys(unit.device for unit in units)) or "no device"


def _minutes(seconds: float) -> str:
    """Seconds are shown as minutes:seconds, which is how the paper prints them."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"


def _trained(run: Run, regime: str) -> float | None:
    """Seconds of training of the regime's models, over all tasks; None where none was trained.

    A unit's seconds are those of its last start, so /training/R is asked first: it counts what came before.
    """
    whole = _whole(run, regime)
    return _of_units(run, regime) if whole is None else whole


def _whole(run: Run, regime: str) -> float | None:
    """The seconds of /training/R, of all starts; None where they are not there, or not of every task."""
    data = run.data("training", regime)
    if data is None or "seconds" not in data or not np.isfinite(data["seconds"].to_numpy()).all():
        return None
    return float(data["seconds"].to_numpy().sum())


def _of_units(run: Run, regime: str) -> float | None:
    """The seconds that /units has of the regime's training, of its last start alone; None without any."""
    begin = f"finetune/{regime}/"
    seconds = [unit.seconds for unit in run.results.units() if unit.key.startswith(begin)]
    return sum(seconds) if seconds else None


def _of_last_starts(run: Run, source: published.PublishedTable) -> list[str]:
    """A note of the regimes whose time may lack what was trained before an interruption."""
    regimes = dict.fromkeys(row.regime for row in source.rows)
    names = [
        regime for regime in regimes if _whole(run, regime) is None and _of_units(run, regime) is not None
    ]
    if not names:
        return []
    return [
        f"time of {', '.join(names)} is that of /units: of a training that was resumed, its last start alone."
    ]


def _cost(run: Run, column: str, regime: str) -> float | None:
    if column == "time":
        return _trained(run, regime)
    data = run.data("cost", regime)
    if data is None:
        return None
    parameters = (2 if run.results.regime(regime).linear else 1) * run.results.positive(data, "parameters")
    return {
        "seconds": run.results.positive(data, "seconds_per_step"),
        "parameters": parameters,
        "trained": run.results.positive(data, "trainable_parameters"),
        "megabytes": 4 * parameters / MEGA,
        "peak_megabytes": run.results.positive(data, "peak_memory") / MEGA,
    }[column]
