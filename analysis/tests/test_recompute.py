# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What `recompute` says of a small run folder that is made here; those of the program are in tests/e2e."""

from __future__ import annotations

import importlib.util
import json
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import synthetic

from taugrid_analysis import cli
from taugrid_analysis.recompute.command import Extent
from taugrid_analysis.run.model import Unit

torch = pytest.importorskip("torch", reason="no PyTorch: recompute is optional")
transformers = pytest.importorskip("transformers", reason="no transformers: recompute is optional")
reading = pytest.importorskip("taugrid_analysis.recompute.reading")

TASKS = {"stripes": 3, "blobs": 4}
ROWS, FEATURES, SEED = {"train": 9, "validation": 7, "test": 12}, 6, 3


def digest(*arrays: np.ndarray) -> str:
    """Word by word, as the program's inputs.cpp describes it."""
    state = 0xCBF29CE484222325
    for array in arrays:
        content = array.tobytes()
        for start in range(0, len(content), 8):
            (word,) = struct.unpack("<Q", content[start : start + 8].ljust(8, b"\0"))
            state = ((state ^ word) * 0x9E3779B97F4A7C15) % 2**64
            state ^= state >> 32
    return f"{state:016x}"


def write_task(path: Path, classes: int) -> str:
    rng = np.random.default_rng(classes)
    head = rng.normal(size=(classes, FEATURES)).astype(np.float32)
    head /= np.linalg.norm(head, axis=1, keepdims=True)
    parts = [np.array(head.shape, dtype="<i8"), head, np.array([8.0])]
    channels = np.array([0.5, 0.4, 0.3], dtype=np.float32), np.array([0.2, 0.3, 0.25], dtype=np.float32)
    parts += channels
    with h5py.File(path, "w") as file:
        file["head/weight"] = head
        file["head/weight"].attrs["logit_scale"] = np.float32(8.0)
        file.attrs["mean"], file.attrs["std"] = channels
        for split, rows in ROWS.items():
            inputs = rng.integers(0, 256, (rows, 16, 16, 3), dtype=np.uint8)
            labels = np.arange(rows, dtype=np.int64) % classes
            file[f"{split}/inputs"], file[f"{split}/labels"] = inputs, labels
            parts += [
                np.array(inputs.shape, dtype="<i8"),
                inputs,
                np.array(labels.shape, dtype="<i8"),
                labels,
            ]
    return digest(*parts)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that measured θ0 and the vectors of one regime; numbers by a plain loop over the pictures."""
    from taugrid_analysis.recompute import draws, inputs

    run = tmp_path_factory.mktemp("recompute") / "run"
    (run / "data").mkdir(parents=True)
    digests = {name: write_task(run / "data" / f"{name}.h5", classes) for name, classes in TASKS.items()}
    torch.manual_seed(0)
    shape = transformers.CLIPVisionConfig(
        hidden_size=12,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=16,
        patch_size=8,
        projection_dim=FEATURES,
    )
    model = transformers.CLIPVisionModelWithProjection(shape).eval().requires_grad_(False)
    model.save_pretrained(run / "checkpoints" / "pretrained")
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    content = b"".join(start[name].numpy().tobytes() for name in draws.in_order(start))
    steps = {}
    for name in TASKS:
        with torch.no_grad():
            for key, p in model.named_parameters():
                p.copy_(start[key] + 0.05 * torch.randn_like(p))
        model.save_pretrained(run / "checkpoints" / "standard" / name)
        steps[name] = torch.cat([(p - start[key]).flatten() for key, p in model.named_parameters()]).double()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.copy_(start[key])
    with h5py.File(run / "results.h5", "w") as file:
        size = sum(p.numel() for p in start.values())
        synthetic.write_head(file, tuple(TASKS), ("tiny", size, "pretrained"), 2, "taugrid run tiny.toml")
        file["tasks/classes"][...] = list(TASKS.values())
        file["model"].attrs["fingerprint"] = inputs.fingerprint(content)
        accuracy, loss = zip(*(plain(model, run / "data" / f"{name}.h5") for name in TASKS), strict=True)
        group = file.create_group("single_task/pretrained")
        group["accuracy"], group["loss"] = np.array(accuracy), np.array(loss)
        rows = [draws.sample(SEED, "test", name, ROWS["test"], ROWS["test"]) for name in TASKS]
        group["sample_index"] = np.array(rows)
        vectors = torch.stack(list(steps.values()))
        file["similarity/standard/norm"] = vectors.norm(dim=1).numpy()
        lengths = vectors.norm(dim=1)
        file["similarity/standard/cosine"] = (vectors @ vectors.T / lengths.outer(lengths)).numpy()
    (run / "config.toml").write_text(
        f'[run]\nseed = {SEED}\n[data]\nfolder = "data"\n[model]\npath = "gone"\n[finetune]\nbatch = 4\n'
    )
    listed = "".join(f'"/elsewhere/{name}.h5" = "{hashed}"\n' for name, hashed in digests.items())
    (run / "inputs.toml").write_text(listed + f'"/elsewhere/tiny" = "{inputs.fingerprint(content)}"\n')
    return run


def plain(model: object, path: Path) -> tuple[float, float]:
    """Accuracy and mean cross-entropy over all test points, one after the other."""
    right, losses = [], []
    with h5py.File(path) as file, torch.no_grad():
        head = file["head/weight"][()].astype(float)
        for picture, label in zip(file["test/inputs"], file["test/labels"], strict=True):
            x = (picture / 255 - file.attrs["mean"]) / file.attrs["std"]
            pixels = torch.tensor(x.transpose(2, 0, 1)[None].astype(np.float32))
            z = model(pixel_values=pixels).image_embeds[0].numpy().astype(float)  # type: ignore[operator]
            logits = 8.0 * head @ z / np.linalg.norm(z)
            right.append(logits.argmax() == label)
            losses.append(np.log(np.exp(logits).sum()) - logits[label])
    return float(np.mean(right)), float(np.mean(losses))


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "run"))


def test_a_whole_run_holds(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["recompute", str(measured)]) == 0
    out = capsys.readouterr().out
    for quantity in ("single_task: accuracy", "single_task: loss", "similarity: cosine", "tasks: classes"):
        assert quantity in out
    assert "not in the run folder" not in out  # data and θ0 are linked there
    assert out.splitlines()[-1].startswith("all ") and "numbers hold" in out


def test_every_number_on_demand(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sample says from how many numbers it is; --all takes every one."""
    assert cli.main(["recompute", str(measured), "--points", "1", "--only", "similarity"]) == 0
    lines = capsys.readouterr().out.splitlines()
    cosine = next(line for line in lines if line.startswith("similarity: cosine"))
    assert cosine.split()[2:4] == ["1", "4"]
    assert (
        lines[-1].startswith("all 2 numbers hold")
        and "from 6 numbers, of which --all takes every one" in lines[-1]
    )
    assert cli.main(["recompute", str(measured), "--all", "--only", "similarity"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("similarity: cosine")).split()[2:4] == ["4", "4"]
    assert lines[-1].startswith("all 6 numbers hold") and "--all" not in lines[-1]
    with pytest.raises(SystemExit):
        cli.main(["recompute", str(measured), "--all", "--points", "5"])
    assert "not allowed with" in capsys.readouterr().err


def test_time_that_is_up_leaves_one_number_a_quantity(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["recompute", str(measured), "--minutes", "1e-9", "--only", "similarity"]) == 0
    short = capsys.readouterr().out.splitlines()
    assert short[0] == "up to 6 of 6 numbers, 2 quantities, 0 s for them"
    assert [line.split()[2:4] for line in short if line.startswith("similarity: ")] == [
        ["1", "4"],
        ["1", "2"],
    ]
    assert short[-2] == "for want of time 2 of the 6 numbers of the sample: --minutes M takes more"
    assert short[-1].startswith("all 2 numbers hold")
    assert cli.main(["recompute", str(measured), "--minutes", "5", "--only", "similarity"]) == 0
    whole = capsys.readouterr().out.splitlines()
    assert whole[0] == "up to 6 of 6 numbers, 2 quantities, 5 min for them"
    assert whole[-1].startswith("all 6 numbers hold") and not any("want of time" in line for line in whole)


def test_as_much_time_as_the_run_took() -> None:
    """The time is the work on so many ranks, five minutes or more; a count of numbers has no end."""
    for seconds, expected in ((10.0, 300.0), (900.0, 900 * 3 / 2)):
        units = [Unit(f"finetune/standard/{place}", place % 2, seconds, "cpu") for place in range(3)]
        results = SimpleNamespace(units=lambda units=units: units)
        assert Extent().seconds(results) == pytest.approx(expected)  # type: ignore[arg-type]
        assert Extent(minutes=2).seconds(results) == 120  # type: ignore[arg-type]
        for counted in (Extent(points=3), Extent(everything=True)):
            assert counted.seconds(results) == np.inf  # type: ignore[arg-type]
    counts = [Extent().count(), Extent(points=3).count(), Extent(everything=True).count()]
    assert counts == [50, 3, None]


def test_the_time_is_shared_out_and_what_is_left_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("taugrid_analysis.recompute.reading.time.monotonic", lambda: now[0])
    clock = reading.Clock(60)
    assert clock.share(3) == 120 and clock.left(10, 0, 0) == ""
    now[0] = 110.0  # the first took ten of its twenty seconds: the others have 25 each
    assert clock.share(2) == 135 and clock.left(10, 1, 1) == ", about 40 s left"
    now[0] = 150.0
    assert clock.left(1000, 1, 1) == ", about 10 s left" and clock.share(1) == 160
    now[0] = 170.0
    assert clock.share(1) == 170 and reading.Clock(np.inf).left(300, 0, 100) == ", about 0 s left"


@pytest.mark.parametrize(
    ("path", "change", "named"),
    [
        ("single_task/pretrained/accuracy", 0.2, "single_task: accuracy"),
        ("single_task/pretrained/loss", 0.01, "single_task: loss"),
        ("similarity/standard/norm", 0.01, "similarity: norm"),
        ("single_task/pretrained/sample_index", -1, "samples: rows"),
        ("tasks/classes", 1, "tasks: classes"),
    ],
)
def test_a_wrong_number_is_found(
    path: str, change: float, named: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(run / "results.h5", "r+") as file:
        values = file[path][()]
        file[path][...] = np.clip(values[..., ::-1], 0, None) if change < 0 else values + change
    assert cli.main(["recompute", str(run)]) == 1
    out = capsys.readouterr().out
    assert "FAILS: stored" in out and named in out.splitlines()[-1]


def test_changed_data_are_named_by_digest(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(run / "data" / "blobs.h5", "r+") as file:
        file["train/labels"][0] += 1
    before = (run / "inputs.toml").read_text().splitlines()[1].split('"')[3]
    assert cli.main(["recompute", str(run)]) == 2
    captured = capsys.readouterr()
    assert f"blobs.h5 was {before} and is " in captured.err and captured.err.count("\n") == 1
    assert "stripes" not in captured.err and captured.out == ""


def test_another_first_model_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run / "checkpoints" / "pretrained"
    shutil.rmtree(folder)
    shutil.copytree(run / "checkpoints" / "standard" / "blobs", folder)
    assert cli.main(["recompute", str(run)]) == 2
    assert "pretrained was " in capsys.readouterr().err


def test_an_older_folder_is_read_where_its_configuration_says(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.move(run / "data", tmp_path / "data")
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace('folder = "data"', f'folder = "{tmp_path / "data"}"'))
    assert cli.main(["recompute", str(run), "--only", "tasks"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("not in the run folder") and "data/stripes.h5, data/blobs.h5" in first
    shutil.rmtree(tmp_path / "data")
    assert cli.main(["recompute", str(run)]) == 2
    assert "data/stripes.h5: is missing" in capsys.readouterr().err


def test_nothing_agrees_with_an_overflow() -> None:
    from taugrid_analysis.recompute.checks import exact, relative

    for again in (float("inf"), float("-inf")):
        assert not relative(1.0, again).holds and not exact(2.0, again).holds
        assert not relative(-again, again).holds and relative(again, again).holds


def test_a_group_that_is_not_known_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(run / "results.h5", "r+") as file:
        file["later/standard/cosine"] = np.zeros(3)
    assert cli.main(["recompute", str(run), "--points", "1"]) == 0
    assert "later: not taken again: a group that this program does not know" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda run: (run / "config.toml").unlink(), "config.toml: is missing"),
        (lambda run: (run / "config.toml").write_text("[data"), "config.toml: cannot be read"),
        (lambda run: (run / "config.toml").write_text("data = 3"), "config.toml: has data = 3"),
        (lambda run: seed_is_a_word(run), "config.toml: has seed = 'a word'"),
        (lambda run: (run / "inputs.toml").write_text("= 1"), "inputs.toml: cannot be read"),
        (lambda run: shutil.rmtree(run / "checkpoints" / "pretrained"), "checkpoints/pretrained: is missing"),
        (
            lambda run: (run / "checkpoints" / "pretrained" / "config.json").write_text("{"),
            "cannot be loaded",
        ),
        (lambda run: shutil.rmtree(run / "checkpoints" / "standard"), "cannot be loaded"),
        (lambda run: other_architecture(run), "measures a SwinModel"),
        (lambda run: other_head(run), "/head is quadratic"),
    ],
)
def test_what_is_missing_or_broken_is_one_line(
    break_it: object, said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    break_it(run)  # type: ignore[operator]
    assert cli.main(["recompute", str(run)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and "expected" in error


def seed_is_a_word(run: Path) -> None:
    path = run / "config.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("seed =")]
    path.write_text("\n".join(lines).replace("[run]", '[run]\nseed = "a word"'))


def other_architecture(run: Path) -> None:
    with h5py.File(run / "results.h5", "r+") as file:
        file["model"].attrs["architecture"] = "SwinModel"


def other_head(run: Path) -> None:
    with h5py.File(run / "data" / "blobs.h5", "r+") as file:
        file["head"].attrs["kind"] = "quadratic"


def test_arguments(run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, said in (
        (["--points", "0"], "--points is 0"),
        (["--seed", "-1"], "--seed is -1"),
        (["--minutes", "0"], "--minutes is 0"),
        (["--minutes", "nan"], "--minutes is nan"),
        (["--only", "cost"], "has no group cost"),
    ):
        assert cli.main(["recompute", str(run), *arguments]) == 2
        assert said in capsys.readouterr().err
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "taugrid_analysis.recompute.command.find_spec", lambda name: None if name == "torch" else find(name)
    )
    assert cli.main(["recompute", str(run)]) == 2
    assert capsys.readouterr().err.count("torch is not installed") == 1


def test_the_digest_of_a_run_that_exists() -> None:
    """Words of eight bytes, the last padded: three bytes and then eight, by hand."""
    from taugrid_analysis.recompute.inputs import digest_words, fingerprint

    parts = [b"abc", b"12345678"]
    assert digest_words(iter(parts)) == digest(*[np.frombuffer(part, dtype=np.uint8) for part in parts])
    assert fingerprint(b"a") == "af63dc4c8601ec8c"  # FNV-1a's published test vector
    assert json.dumps(digest()) == '"cbf29ce484222325"'


SMALL = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
PICTURE = {**SMALL, "image_size": 16, "patch_size": 8}
TEXT = {**SMALL, "vocab_size": 20, "max_position_embeddings": 16}
NARROW = {"d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 1}
KINDS = {
    "clip": ("CLIPVisionModelWithProjection", "CLIPVisionConfig", PICTURE),
    "bert": ("BertModel", "BertConfig", TEXT),
    "masked bert": ("BertForMaskedLM", "BertConfig", TEXT),
    "masked roberta": ("RobertaForMaskedLM", "RobertaConfig", TEXT),
    "t5": ("T5ForConditionalGeneration", "T5Config", NARROW),
    "vit": ("ViTForImageClassification", "ViTConfig", PICTURE),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig", {"hidden_sizes": [4] * 4}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_drawn_model_needs_config_json_alone(tmp_path: Path, kind: str) -> None:
    """It has the same parameters, shapes and statistics as with weights in its folder, which are not read."""
    from taugrid_analysis.recompute import nets, oracle

    model, config, sizes = KINDS[kind]
    getattr(transformers, model)(getattr(transformers, config)(**sizes)).save_pretrained(tmp_path)
    of_texts = kind.split()[-1] in ("bert", "roberta", "t5")
    shapes = []
    for weights in (True, False):
        loaded = oracle.load(tmp_path, of_texts, weights)
        shapes.append({name: list(p.shape) for name, p in oracle.parameters(loaded).items()})
        shapes[-1] |= {name: list(p.shape) for name, p in nets.statistics(loaded).items()}
        (tmp_path / "model.safetensors").unlink(missing_ok=True)
        assert not loaded.training and all(p.dtype == torch.float64 for p in loaded.parameters())
    assert shapes[0] == shapes[1] and len(shapes[0]) > 5
