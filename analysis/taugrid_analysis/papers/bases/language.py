# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The bases paper's language tables, 8, 15 and 16: what a run of language tasks has for their cells."""

from __future__ import annotations

from taugrid_analysis.numbers import means, measured, sampling
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.papers.published import PublishedTable, Row
from taugrid_analysis.run import accuracies, labels
from taugrid_analysis.run.accuracies import Accuracies
from taugrid_analysis.run.opened import Run

REGIME = "standard"
STORED = ("masks", "density %", "GB")
MRPC, PARAPHRASE = "mrpc", "equivalent"  # whose F1 the paper prints, and the class that it is of
TWELVE = ("sst2", "cr", "mr", "mpqa", "trec", "subj", "qnli", "snli", "mnli", "rte", "mrpc", "qqp")


def _plain(name: str) -> str:
    """SST-2 and sst2, SST2Adv and sst2_adv are the same task."""
    return name.lower().replace("-", "").replace("_", "")


def _places(run: Run) -> dict[str, int]:
    return {_plain(task): t for t, task in enumerate(run.results.tasks)}


def _of_the_twelve(run: Run) -> list[int]:
    """The places of those that the run has."""
    known = _places(run)
    return [known[task] for task in TWELVE if task in known]


def _all_of_texts(run: Run) -> list[int]:
    """The places of a language model's tasks."""
    model = run.results.model()
    reads = model is not None and model.architecture.startswith(("Bert", "Roberta", "T5"))
    return list(range(len(run.results.tasks))) if reads else []


def accuracy(run: Run, row: Row, column: str) -> float | None:
    """T8, T15: a merge's accuracy on a task, F1 of MRPC; its mean; what it stores.

    The mean is over the twelve that the run has, or where it has none over all of its tasks.
    """
    name, known = _merged(run, row), _places(run)
    data = run.results.data("merging", name)
    wanted = (_of_the_twelve(run) or _all_of_texts(run)) if column in ("mean", *STORED) else []
    wanted = wanted or [known[task] for task in TWELVE if task in known and task == _plain(column)]
    if data is None or not wanted:
        return None
    if column in STORED:
        if "masks" in data:
            count, gigabytes = float(data["masks"]), 4e-9 * float(data["mask_numbers"])
            density = float(data["mask_density"].mean())
        else:
            count, gigabytes = float(len(known)), 1e-9 * float(data["bytes"]) / float(data["passes"])
            density = 1.0
        return {"masks": count, "density %": 100 * density, "GB": gigabytes}[column]
    test, place = _at_its_coefficient(run, name)
    values, errors = test.value.to_numpy()[place].astype(float), test.error[place].copy()
    if (t := known.get(MRPC)) in wanted and (score := _f1(run, test, place, t)) is not None:
        values[t], errors[t] = score
    mean = measured.measured_mean(values[wanted], errors[wanted])
    return Measured(100 * mean, 100 * mean.error)


def _merged(run: Run, row: Row) -> str:
    """The name below /merging of what stands for a row of the paper."""
    names = [f"{method}/{REGIME}" for method in (row.variant, row.merge_in)]
    return next((name for name in names if name in run.results.by_method("merging")), names[1])


def _at_its_coefficient(run: Run, name: str) -> tuple[Accuracies, int]:
    """The accuracies of /merging/NAME and their place of the coefficient that validation chose."""
    data = run.data("merging", name)
    test = accuracies.accuracies(run.results, "merging", name, "test_accuracy")
    assert data is not None and test is not None
    place = means.place_of(data["alpha"].to_numpy(), float(data["coefficient"]))
    assert place is not None
    return test, place


def _score_of_mrpc(run: Run, source: PublishedTable, t: int) -> str:
    """Whether MRPC's scores are F1, which takes what a run may lack."""
    scored: list[str] = []
    others: list[str] = []
    for row in source.rows:
        name = _merged(run, row)
        if run.data("merging", name) is None:
            continue
        f1 = _f1(run, *_at_its_coefficient(run, name), t)
        (others if f1 is None else scored).append(row.label)
    if not others:
        return " Of MRPC ours is F1." if scored else ""
    text = " Of MRPC ours is an accuracy"
    if scored:
        text = f" Of MRPC ours is F1, but an accuracy of {', '.join(dict.fromkeys(others))}"
    return f"{text}: F1 takes the labels in the run folder's data, and which test points were right."


def _f1(run: Run, test: Accuracies, place: int, t: int) -> tuple[float, float] | None:
    """F1 of the paraphrases and its error; None where stored bits or labels are not there."""
    rows = test.rows_of(t)
    if test.correct is None or rows is None or run.results.classes[t] != 2:
        return None
    positive, right = labels.of_class(run, t, PARAPHRASE, rows), test.correct.of(place, t)
    if positive is None or len(right) != len(positive):
        return None
    return sampling.f1(right, positive)


def cosine(run: Run, row: Row, _: str) -> float | None:
    """T16."""
    data, known = run.data("similarity", REGIME), _places(run)
    pair = [known.get(_plain(name)) for name in row.label.split(", ")]
    if data is None or pair[0] is None or pair[1] is None:
        return None
    return float(data["cosine"].to_numpy()[pair[0], pair[1]])


def said(run: Run, source: PublishedTable) -> str:
    model = run.results.model()
    ours = "an unnamed model" if model is None else f"{model.name}, a {model.architecture}"
    text = f"Published for {source.setting}; ours is {ours}, without difference."
    if source.measure == "language":
        if (t := _places(run).get(MRPC)) is not None:
            text += _score_of_mrpc(run, source, t)
        mean = (
            "those of the twelve that this run has"
            if _of_the_twelve(run)
            else f"the {len(run.results.tasks)} tasks of this run, none of which is among the paper's twelve"
        )
        text += (
            f" The mean is over {mean}. GB: four bytes a number, of masks without their places, of whole"
            " vectors with what was frozen."
        )
    return text
