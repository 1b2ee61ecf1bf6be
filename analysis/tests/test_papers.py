# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`--paper`: every printed number has its line, every figure its file or its reason."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
from PIL import Image

from taugrid_analysis import cli
from taugrid_analysis.page.table import Table
from taugrid_analysis.papers import PRINTED, drawings, figure, published
from taugrid_analysis.papers.comparison import NOT_MEASURED, paper_tables
from taugrid_analysis.run.opened import Run

B32 = ("openai/clip-vit-base-patch32", 87849216, "pretrained")


def tables_of(path: Path, paper: str) -> list[Table]:
    with Run(path) as run:
        return paper_tables(run, paper)


def records(tables: list[Table], name: str) -> list[dict[str, object]]:
    chosen = [table for table in tables if table.name == name]
    return [
        dict(zip([column.name for column in table.columns], row, strict=True))
        for table in chosen
        for row in table.rows
    ]


@pytest.fixture(scope="module")
def papers_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    path = synthetic.write(
        folder / "results.h5", model=B32, tasks=synthetic.PAPER_TASKS, regimes=synthetic.EVERY
    )
    with h5py.File(path, "r+") as file:
        file["addition/tau_jp/normalized"][...] = 0.9999
        place = int(np.flatnonzero(file["negation/linear/alpha"][()] == 0.5)[0])
        file["negation/linear/chosen_alpha"][...] = 0.5
        file["negation/linear/test_target"][:, place] = 0.15
        file["cost/tau_jp_strict/seconds_per_step"][...] = 1.5
    return folder


@pytest.mark.parametrize("paper", PRINTED)
def test_every_printed_number_has_a_line(paper: str, run_folder: Path) -> None:
    tables = tables_of(run_folder, paper)
    sources = published.tables((paper,))
    assert [table.name for table in tables] == [f"table{source.number}" for source in sources]
    for table, source in zip(tables, sources, strict=True):
        printed = [row[4] for row in table.rows if row[4] is not None]
        assert len(printed) == sum(len(values) for row in source.rows for values in row.values.values())
        for row in table.rows:
            assert row[7] is None and row[8] is None  # another model: no difference, no verdict
            assert row[9] == (NOT_MEASURED if row[6] is None else "other model, tasks")


def test_no_difference_from_another_model(run_folder: Path) -> None:
    rows = records(tables_of(run_folder, "tangent_space"), "table1")
    row = next(row for row in rows if (row["regime"], row["quantity"]) == ("standard", "absolute"))
    with h5py.File(run_folder / "results.h5") as file:
        ours = 100 * file["addition/standard/absolute"][()]
    assert (row["model"], row["published"]) == ("CLIP ViT-B/32", "71.4")
    assert row["ours"] == ours and row["difference"] is None and row["verdict"] is None


def test_the_papers_model_is_judged(papers_run: Path) -> None:
    rows = records(tables_of(papers_run, "tangent_space"), "table2")
    mine = [row for row in rows if row["model"] == "CLIP ViT-B/32"]
    assert all(row["verdict"] is not None and row["remark"] == "" for row in mine)
    assert all(float(str(row["its error"])) > 0 for row in mine)
    target = next(row for row in mine if (row["regime"], row["quantity"]) == ("linear", "target"))
    assert (target["published"], target["ours"]) == ("10.9", pytest.approx(15.0))
    error = 100 * np.sqrt(0.15 * 0.85 / 512 / 8)  # ours: 512 points of each of eight tasks
    assert target["ours"].error == pytest.approx(error)  # type: ignore[attr-defined]
    tolerance = 1.96 * np.hypot(error, float(str(target["its error"])))
    assert target["verdict"] == f"above by 4.1 (± {tolerance:.1f})" and target["difference"] == 4.1
    others = [row for row in rows if row["model"] != "CLIP ViT-B/32"]
    assert all(row["ours"] is None and row["remark"] == NOT_MEASURED for row in others)


def test_regularised_regimes_and_seconds(papers_run: Path) -> None:
    tables = tables_of(papers_run, "tau_jp")
    rows = {(row["regime"], row["quantity"]): row for row in records(tables, "table4")}
    assert rows["tau_jp", "normalized"]["difference"] == pytest.approx(99.99 - 97.6, abs=0.05)
    assert str(rows["tau_jp", "normalized"]["verdict"]).startswith("agrees within ")
    seconds = rows["tau_jp_strict", "seconds"]
    assert (seconds["published"], seconds["ours"]) == ("2.027", 1.5)
    assert seconds["difference"] is None and seconds["verdict"] is None
    assert seconds["remark"] == "other machine"


def test_numbers_of_a_picture(papers_run: Path) -> None:
    """Table 2 of the τJp paper is a picture: its numbers come from the authors' repository."""
    rows = {
        (row["regime"], row["quantity"], row["model"]): row
        for row in records(tables_of(papers_run, "tau_jp"), "table2")
    }
    assert rows["tau_jp", "one_shot_control", "CLIP ViT-L/14"]["published"] == "75.1"
    with h5py.File(papers_run / "results.h5") as file:
        wide = file["negation/tau_jp/wide/target"][()].mean()
        group = file["negation/tau_jp"]
        one_shot = group["test_control"][()][:, np.flatnonzero(group["alpha"][()] == 1.0)[0]].mean()
    mine = rows["tau_jp", "wide_target", "CLIP ViT-B/32"]
    assert mine["published"] == "6.7" and mine["ours"] == pytest.approx(100 * wide)
    assert mine["verdict"] is not None
    control = rows["tau_jp", "one_shot_control", "CLIP ViT-B/32"]
    assert control["published"] == "62.5" and control["ours"] == pytest.approx(100 * one_shot)
    before = rows["pretrained", "wide_control", "CLIP ViT-B/32"]
    assert before["published"] == "66.7" and before["ours"] == pytest.approx(60.0)


# The picture in the authors' repository: target/control for B/32, B/16, L/14.
TABLE_2 = {
    ("pretrained", "wide"): "47.3/66.7 54.5/69.3 65.1/77.3",
    ("standard", "one_shot"): "10.9/44.7 10.8/51.6 15.2/68.6",
    ("standard", "wide"): "24.0/60.7 20.3/64.7 18.4/72.4",
    ("linear", "one_shot"): "6.3/57.2 5.4/62.2 3.0/67.9",
    ("linear", "wide"): "11.8/60.6 8.8/65.0 8.3/72.2",
    ("tau_jp", "one_shot"): "11.8/62.5 11.8/67.8 15.1/75.1",
    ("tau_jp", "wide"): "6.7/60.8 4.7/66.0 3.7/73.0",
}


def test_table_2_of_tau_jp_is_printed_whole(papers_run: Path) -> None:
    printed = {
        (row["regime"], row["quantity"], row["model"]): row["published"]
        for row in records(tables_of(papers_run, "tau_jp"), "table2")
    }
    models = ("CLIP ViT-B/32", "CLIP ViT-B/16", "CLIP ViT-L/14")
    expected = {
        (regime, f"{kind}_{name}", model): number
        for (regime, kind), line in TABLE_2.items()
        for model, cell in zip(models, line.split(), strict=True)
        for name, number in zip(("target", "control"), cell.split("/"), strict=True)
    }
    assert printed == expected and len(expected) == 42


def test_a_picture_without_numbers_gives_ours_alone(papers_run: Path) -> None:
    rows = records(tables_of(papers_run, "tau_jp"), "table5")
    assert all(row["published"] is None and row["verdict"] is None for row in rows)
    joint = next(row["ours"] for row in rows if (row["regime"], row["quantity"]) == ("multitask", "absolute"))
    assert joint == pytest.approx(100 * (np.mean(synthetic.ZERO_SHOT) + 0.15))


def test_cost_is_four_bytes_a_parameter_and_the_peak_beside_it(run_folder: Path) -> None:
    rows = {
        (row["regime"], row["quantity"]): row
        for row in records(tables_of(run_folder, "attention_only"), "table4")
    }
    assert rows["standard", "megabytes"]["published"] == "891.614"
    assert rows["standard", "megabytes"]["ours"] == pytest.approx(4 * 0.869632)
    assert rows["linear", "megabytes"]["ours"] == pytest.approx(8 * 0.869632)
    assert rows["linear", "time"]["ours"] == "0:56"  # of 8 tasks from 5 to 9 seconds
    assert rows["linear", "time"]["published"] == "40:59"
    peak = rows["linear", "peak_megabytes"]
    assert peak["published"] is None and peak["ours"] == 80.0
    assert all(row["difference"] is None for row in rows.values())


def test_time_is_of_all_starts_where_the_run_has_it(tmp_path: Path) -> None:
    """A resumed training's unit has its last start alone: /training counts, and /units only without it."""
    path = synthetic.write(tmp_path / "results.h5")
    with h5py.File(path, "r+") as file:
        tasks = len(file["tasks/name"])
        file["training/standard/seconds"][...] = np.full(tasks, 3600.0)
        file["training/linear/seconds"][0] = np.nan
    tables = tables_of(path, "attention_only")
    rows = {(row["regime"], row["quantity"]): row["ours"] for row in records(tables, "table4")}
    assert rows["standard", "time"] == f"{60 * tasks}:00"
    with Run(path) as run:
        units = [unit.seconds for unit in run.results.units() if unit.key.startswith("finetune/linear/")]
    assert len(units) == tasks and rows["linear", "time"] == f"0:{round(sum(units)):02d}" != "0:56"
    (notes,) = [table.notes for table in tables if table.name == "table4"]
    assert [note for note in notes if note.startswith("time of linear is that of /units")]


def test_ablation(papers_run: Path) -> None:
    rows = records(tables_of(papers_run, "attention_only"), "table5")
    assert {row["regime"] for row in rows} == {
        "attention",
        "attention+bias",
        "attention+mlp",
        "attention+mlp+bias",
    }
    assert all(row["verdict"] is not None for row in rows)


@pytest.mark.parametrize(
    ("paper", "name"),
    [
        ("tangent_space", "table4"),
        ("tangent_space", "table5"),
        ("attention_only", "table3"),
    ],
)
def test_other_settings_are_not_measured(paper: str, name: str, papers_run: Path) -> None:
    rows = records(tables_of(papers_run, paper), name)
    assert rows and all(row["ours"] is None and row["remark"] == NOT_MEASURED for row in rows)


def test_a_run_of_the_tables_own_setting_stands_beside_it(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.PAPER_TASKS)
    with h5py.File(path, "r+") as file:
        file["heads/pretrained/loss"] = np.zeros((len(synthetic.PAPER_TASKS), 3))
    rows = records(tables_of(tmp_path, "tangent_space"), "table5")
    assert all(row["ours"] is not None and row["verdict"] is None for row in rows)
    assert all(row["ours"] is None for row in records(tables_of(tmp_path, "tangent_space"), "table4"))
    with h5py.File(path, "r+") as file:
        file["model"].attrs["architecture"] = "ConvNextModel"
    tables = tables_of(tmp_path, "tangent_space")
    assert all(row["ours"] is not None for row in records(tables, "table4"))
    assert all(row["ours"] is None for row in records(tables, "table5"))


def test_a_random_start_is_held_against_table_3_alone(tmp_path: Path) -> None:
    model = (B32[0], B32[1], "random")
    synthetic.write(tmp_path / "results.h5", model=model, tasks=synthetic.PAPER_TASKS)
    tables = tables_of(tmp_path, "tangent_space")
    assert all(row["ours"] is None for row in records(tables, "table1"))
    mine = [row for row in records(tables, "table3") if row["model"] == "CLIP ViT-B/32"]
    assert len(mine) == 5 and all(row["ours"] is not None for row in mine)
    # The paper's random start is open_clip's, ours Hugging Face's: no verdict, and the row says why.
    assert all(row["verdict"] is None and row["remark"] == "other initialisation" for row in mine)
    table = next(table for table in tables if table.name == "table3")
    note = next(note for note in table.notes if "open_clip" in note and "Hugging Face" in note)
    assert "values and the MLP's second layer narrow with the number of layers, 1/√(2 width · layers)" in note
    assert "keys and values Xavier uniform" in note and "0 in attention and uniform in the MLP" in note


def test_only_one_table_of_a_paper(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tables", str(run_folder), "--paper", "tau_jp", "--only", "table3"]) == 0
    out = capsys.readouterr().out
    assert "Table 3" in out and "Table 4" not in out
    assert cli.main(["tables", str(run_folder), "--paper", "tau_jp", "--only", "table9"]) == 2
    assert "table1" in capsys.readouterr().err


# ---- figures -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def every_regime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    synthetic.write(
        folder / "results.h5",
        tasks=synthetic.FEW_TASKS,
        regimes=synthetic.EVERY,
        alpha=np.linspace(-2, 2, 5),
        bend=True,
    )
    return folder


NOT_DRAWN = {"tangent_space": {1, 4, 11, 12, 13, 15, 16}, "tau_jp": set(), "attention_only": {1, 2, 4}}
LAST = {"tangent_space": 16, "tau_jp": 8, "attention_only": 10}


@pytest.mark.parametrize("paper", PRINTED)
def test_a_line_a_figure(paper: str, every_regime: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = every_regime / "out" / paper
    assert cli.main(["figures", str(every_regime), "--paper", paper, "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"figure {n}" for n in range(1, LAST[paper] + 1)]
    for number, line in enumerate(lines, start=1):
        rest = line.split(": ", 1)[1]
        if number in NOT_DRAWN[paper]:
            assert rest.startswith("needs ")
        else:
            assert Path(rest).name.startswith(f"{paper}_fig{number:02d}_")
            assert Path(rest).read_bytes()[:4] == b"\x89PNG"
    assert len(list(out.iterdir())) == LAST[paper] - len(NOT_DRAWN[paper])


@pytest.mark.parametrize("paper", PRINTED)
def test_figures_say_what_the_run_lacks(paper: str, small_folder: Path) -> None:
    """Two regimes: what needs others is named by its path."""
    with Run(small_folder) as run:
        lacking = {plate.number: figure.missing(run, plate) for plate in figure.of_paper(paper)}
    if paper == "tangent_space":
        assert lacking[2] == ["/single_task/posthoc"] and lacking[5] == []
        assert lacking[11] == ["a run from random θ0"] and lacking[15] == ["/ntk/random"]
    elif paper == "tau_jp":
        assert lacking[1] == ["/disentanglement/tau_jp", "/tau_jp/tau_jp"] and lacking[3] == []
    else:
        assert "/single_task/attention_posthoc" in lacking[3] and lacking[9] == ["/addition/attention"]


def test_every_figure_of_a_text_has_its_plate() -> None:
    for paper, last in LAST.items():
        assert [plate.number for plate in figure.of_paper(paper)] == list(range(1, last + 1))


def test_a_random_start_has_its_own_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, model=("clip_mini", 869632, "random"))
    assert cli.main(["figures", str(tmp_path), "--paper", "tangent_space"]) == 0
    out = capsys.readouterr().out
    drawn = {int(line.split()[1][:-1]) for line in out.splitlines() if line.endswith(".png")}
    assert drawn == {11, 15, 16}


def test_a_folder_that_cannot_be_made(small_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = small_folder / "results.h5" / "below"
    assert cli.main(["figures", str(small_folder), "--paper", "tau_jp", "--out", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "cannot be made" in captured.err


# ---- several runs ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three sizes of a model on the papers' tasks, four of them; the last without post-hoc linearisation."""
    folder, runs = tmp_path_factory.mktemp("sizes"), []
    for place, name in enumerate(("vit-b-32", "vit-b-16", "vit-l-14")):
        path = folder / name / "results.h5"
        path.parent.mkdir()
        regimes = ("standard", "posthoc", "linear") if place < 2 else ("standard", "linear")
        tasks = ("DTD", "SUN397", "MNIST", "SVHN")
        model = (name, 10**6 * (place + 1), "pretrained")
        runs.append(
            synthetic.write(path, tasks=tasks, regimes=regimes, model=model, shift=0.02 * place).parent
        )
    return runs


def test_three_models_in_one_figure(
    sizes: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [plate for plate in figure.of_paper("tangent_space") if plate.number in (2, 5, 7, 11)]
    monkeypatch.setattr(figure, "of_paper", lambda paper: few)
    out = sizes[0].parent / "out"
    paths = [str(path) for path in sizes]
    assert cli.main(["figures", *paths, "--paper", "tangent_space", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "figure 2: without vit-l-14 lacks /single_task/posthoc" in printed
    assert "figure 5: without" not in printed and "figure 11: needs a run from random θ0" in printed
    with Image.open(out / "tangent_space_fig07_single_task.png") as both:
        two = both.size
    assert cli.main(["figures", paths[0], "--paper", "tangent_space", "--out", str(out / "one")]) == 0
    with Image.open(out / "one" / "tangent_space_fig07_single_task.png") as alone:
        single = alone.size
    assert two[0] * two[1] > 1.9 * single[0] * single[1]


def test_sizes_show_the_same_pair(tmp_path: Path) -> None:
    """The first run's median pair, though another is the second one's."""
    runs = []
    for name in ("small", "large"):
        (tmp_path / name).mkdir()
        path = synthetic.write(
            tmp_path / name / "results.h5",
            tasks=("a", "b", "c"),
            regimes=("standard", "posthoc"),
            model=(name, 100, "pretrained"),
        )
        with h5py.File(path, "r+") as file:
            error = file["disentanglement/standard/error"]
            order = (0, 1, 2) if name == "small" else (1, 0, 2)
            error[...] = np.array(order, dtype=float)[:, None, None]
        runs.append(Run(path))
    medians = [drawings._typical(run, "dtd", "sun397", "standard") for run in runs]
    assert medians == [1, 0]
    (plate,) = [plate for plate in figure.of_paper("tangent_space") if plate.number == 9]
    picture, _ = figure.drawn(plate, runs)
    assert picture is not None
    titles = [axes.get_title() for axes in picture.axes if axes.get_title()]
    assert titles == ["small\na + c", "large\na + c"]


def test_markers_and_columns_are_runs(sizes: list[Path]) -> None:
    """Figure 5 has a marker a model; figure 9 a column a model, its cells those of the run."""
    plate = {plate.number: plate for plate in figure.of_paper("tangent_space")}
    runs = [Run(path) for path in sizes]
    picture, lacking = figure.drawn(plate[5], runs)
    assert picture is not None and lacking == []
    labels = picture.axes[0].get_legend_handles_labels()[1]
    assert labels == [f"linear against standard, {name}" for name in ("vit-b-32", "vit-b-16", "vit-l-14")]
    offsets = [np.asarray(collection.get_offsets()) for collection in picture.axes[0].collections]
    points = [places for places in offsets if len(places) == 4]
    with h5py.File(sizes[2] / "results.h5") as file:
        expected = [file[f"single_task/{name}/accuracy"][()] for name in ("standard", "linear")]
    np.testing.assert_allclose(points[-1], np.transpose(expected))
    picture, lacking = figure.drawn(plate[9], runs)
    assert picture is not None and lacking == ["vit-l-14 lacks /disentanglement/posthoc"]
    grids = [axes for axes in picture.axes if axes.images]
    titles = [axes.get_title() for axes in grids if axes.get_title()]
    assert titles == ["vit-b-32\nDTD + SUN397", "vit-b-16\nDTD + SUN397"]
    for column, path in enumerate(sizes[:2]):
        with h5py.File(path / "results.h5") as file:
            shown = np.asarray(grids[column].images[0].get_array())
            np.testing.assert_array_equal(shown, file["disentanglement/standard/error"][0].T)


def test_histograms_have_the_null_as_third_colour(schema2_folder: Path, small_folder: Path) -> None:
    plate = next(plate for plate in figure.of_paper("tangent_space") if plate.number == 14)
    for folder, count in ((schema2_folder, 3), (small_folder, 2)):
        with Run(folder) as run:
            picture, _ = figure.drawn(plate, [run])
        assert picture is not None
        labels = picture.axes[0].get_legend_handles_labels()[1]
        assert len(labels) == count and ("null" in labels[-1]) == (count == 3)


def test_symmetric_divergence_is_drawn_where_it_is_known(schema2_folder: Path, every_regime: Path) -> None:
    plate = next(plate for plate in figure.of_paper("attention_only") if plate.number == 6)
    for folder, rows in ((schema2_folder, 3), (every_regime, 2)):
        with Run(folder) as run:
            picture, _ = figure.drawn(plate, [run])
        assert picture is not None and sum(bool(axes.images) for axes in picture.axes) == 3 * rows


def test_the_two_starts_are_as_the_note_says() -> None:
    """Hugging Face's from transformers; open_clip's from the modules of PyTorch of which it is made."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    width, layers = 128, 3
    config = transformers.CLIPVisionConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        image_size=64,
    )
    weights = transformers.CLIPVisionModelWithProjection(config).state_dict()
    narrow = (2 * width * layers) ** -0.5
    for part, deviation in {
        "q_proj.weight": narrow,
        "v_proj.weight": narrow,
        "fc2.weight": narrow,
        "fc1.weight": (2 * width) ** -0.5,
        "out_proj.weight": width**-0.5,
        "patch_embedding.weight": 0.02,
        "visual_projection.weight": width**-0.5,
    }.items():
        name = next(name for name in weights if name.endswith(part))
        assert weights[name].std().item() == pytest.approx(deviation, rel=0.05), part
    assert all((value == 0).all() for name, value in weights.items() if name.endswith("bias"))
    attention = torch.nn.MultiheadAttention(width, 2)
    xavier = (6 / (3 * width + width)) ** 0.5
    assert attention.in_proj_weight.abs().max().item() == pytest.approx(xavier, rel=0.01)
    assert attention.out_proj.weight.abs().max().item() == pytest.approx(width**-0.5, rel=0.01)
    assert (attention.in_proj_bias == 0).all() and (attention.out_proj.bias == 0).all()
    assert torch.nn.Linear(width, 4 * width).bias.std() > 0


def test_a_t5_on_glue_stands_beside_the_printed_numbers(tmp_path: Path) -> None:
    tasks = ("cola", "mnli", "mrpc", "qqp", "rte", "sst2")
    model = ("google/flan-t5-base", 247577856, "pretrained")
    path = synthetic.write(
        tmp_path / "results.h5", model=model, tasks=tasks, regimes=("standard", "attention")
    )
    with h5py.File(path, "r+") as file:
        file["model"].attrs["architecture"] = "T5ForConditionalGeneration"
        place = int(
            np.abs(
                file["addition/attention/alpha"][()] - file["addition/attention/chosen_alpha"][()]
            ).argmin()
        )
        file["addition/attention/test_accuracy"][place] = np.linspace(0.5, 0.75, 6)
    tables = tables_of(path, "attention_only")
    rows = {(row["regime"], row["quantity"]): row for row in records(tables, "table3")}
    mrpc = rows["attention", "mrpc"]
    assert (mrpc["published"], mrpc["remark"]) == ("86.76", "settings of ours")
    assert mrpc["ours"] == pytest.approx(60) and mrpc["difference"] is None and mrpc["verdict"] is None
    assert rows["attention", "average"]["ours"] == pytest.approx(62.5)
    assert (rows["attention", "stsb"]["ours"], rows["attention", "stsb"]["remark"]) == (None, NOT_MEASURED)
    assert rows["linear", "mrpc"]["remark"] == NOT_MEASURED


def test_the_average_of_a_t5_on_other_tasks_is_over_all_of_them(tmp_path: Path) -> None:
    model = ("t5_mini", 500_000, "pretrained")
    path = synthetic.write(
        tmp_path / "results.h5", model=model, tasks=("a", "b", "c"), regimes=("attention",)
    )
    with h5py.File(path, "r+") as file:
        file["model"].attrs["architecture"] = "T5ForConditionalGeneration"
        alpha, chosen = file["addition/attention/alpha"][()], file["addition/attention/chosen_alpha"][()]
        file["addition/attention/test_accuracy"][int(np.abs(alpha - chosen).argmin())] = [0.5, 0.6, 0.85]
    tables = tables_of(path, "attention_only")
    rows = {row["quantity"]: row for row in records(tables, "table3") if row["regime"] == "attention"}
    assert rows["average"]["ours"] == pytest.approx(65) and rows["average"]["difference"] is None
    assert rows["cola"]["ours"] is None and rows["cola"]["remark"] == NOT_MEASURED
    (table,) = [table for table in tables if table.name == "table3"]
    assert any("over the 3 tasks of this run, none of which is the paper's" in note for note in table.notes)


def test_sts_b_is_scored_by_its_correlation_at_the_alpha_of_the_others(tmp_path: Path) -> None:
    """Beside the attention paper's table 3, in the average too; without decoded answers there is neither."""
    tasks = ("cola", "stsb", "rte", "sst2")
    model = ("google/flan-t5-base", 247577856, "pretrained")
    path = synthetic.write(tmp_path / "results.h5", model=model, tasks=tasks, regimes=("attention",))
    with h5py.File(path, "r+") as file:
        file["model"].attrs["architecture"] = "T5ForConditionalGeneration"
        alpha, chosen = file["addition/attention/alpha"][()], file["addition/attention/chosen_alpha"][()]
        place = int(np.abs(alpha - chosen).argmin())
        file["addition/attention/test_accuracy"][place] = [0.5, 0.01, 0.6, 0.7]  # exact answers are few
    rows = {
        row["quantity"]: row
        for row in records(tables_of(path, "attention_only"), "table3")
        if row["regime"] == "attention"
    }
    assert rows["stsb"]["ours"] is None and rows["average"]["ours"] is None
    assert rows["cola"]["ours"] == pytest.approx(50)
    with h5py.File(path, "r+") as file:
        group = file.create_group("generation_sum/attention")
        group["alpha"] = alpha
        for name in ("value", "exact_match", "f1", "token_accuracy", "pearson", "spearman", "no_number"):
            group[name] = np.full((len(alpha), 4), np.nan)
        group["spearman"][place, 1] = 0.8
        group["sample_index"] = np.tile(np.arange(100), (4, 1))
    tables = tables_of(path, "attention_only")
    rows = {row["quantity"]: row for row in records(tables, "table3") if row["regime"] == "attention"}
    assert rows["stsb"]["ours"] == pytest.approx(80)
    assert rows["average"]["ours"] == pytest.approx((50 + 80 + 60 + 70) / 4)
    (table,) = [table for table in tables if table.name == "table3"]
    assert any("of stsb 100 times Spearman's correlation" in note for note in table.notes)
    assert not any("first generated step" in note for note in table.notes)


def test_a_t5_on_its_pair_of_texts_is_the_other_architecture(tmp_path: Path) -> None:
    """Figure 12 of the tangent-space paper: IMDB and QASC, in whatever order the run has them."""
    model = ("t5-base", 222903552, "pretrained")
    path = synthetic.write(tmp_path / "results.h5", model=model, tasks=("race", "qasc", "imdb"))
    plate = next(plate for plate in figure.of_paper("tangent_space") if plate.number == 12)
    with Run(path) as run:
        picture, lacking = figure.drawn(plate, [run])
    assert picture is None and lacking == ["a run of a ConvNext or T5For"]
    with h5py.File(path, "r+") as file:
        file["model"].attrs["architecture"] = "T5ForConditionalGeneration"
        expected = file["disentanglement/standard/error"][2].T  # qasc + imdb
    with Run(path) as run:
        picture, lacking = figure.drawn(plate, [run])
    assert picture is not None and lacking == []
    grids = [axes for axes in picture.axes if axes.images]
    assert [axes.get_title() for axes in grids if axes.get_title()] == ["qasc + imdb"] and len(grids) == 2
    np.testing.assert_array_equal(np.asarray(grids[0].images[0].get_array()), expected)
