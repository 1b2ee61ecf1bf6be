# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Multilayer perceptrons and residual networks against plain PyTorch, torchvision and torch.func, in double precision:
every way to read logits, batch norm by stored statistics and by those of the batch."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torchvision
from oracle import relative
from safetensors.torch import load_file, save_file
from taugrid_analysis.recompute import nets
from torch import Tensor
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.nn.functional import cross_entropy, normalize

PROBE = os.environ["MODEL_PROBE"]
SCALE = 12.0
WORDS = torch.tensor([3, 0, 4])  # of five classes
MLP = {"model_type": "mlp", "architectures": ["MLP"], "image_size": 5, "num_channels": 2, "hidden_sizes": [7, 6]}
RESNET = {"model_type": "torchvision_resnet", "architectures": ["ResNet"], "image_size": 8, "num_channels": 2,
          "layers": [1, 2], "widths": [3, 5], "stem": "cifar"}


@dataclass(frozen=True)
class Case:
    config: dict
    readout: str = "affine"


CASES = {
    "mlp": Case(MLP),
    "mlp_of_one_layer_and_its_own_classifier": Case(MLP | {"hidden_sizes": [6], "num_classes": 5}, "words"),
    "mlp_with_gelu": Case(MLP | {"hidden_act": "gelu", "hidden_sizes": [4, 8, 6], "num_classes": 5}, "words"),
    "mlp_and_unit_rows": Case(MLP | {"num_classes": 3}, "cosine"),
    "resnet": Case(RESNET),
    "resnet_with_identities": Case(RESNET | {"shortcut": "identity", "num_classes": 5}, "words"),
    "resnet_and_unit_rows": Case(RESNET | {"layers": [2, 1, 1], "widths": [4, 4, 6]}, "cosine"),
    "resnet_with_the_large_stem": Case(RESNET | {"image_size": 16, "stem": "imagenet", "num_classes": 6}, "words"),
}


def shaken(model: torch.nn.Module) -> torch.nn.Module:
    """Biases, norms and statistics away from zeros and ones."""
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith("running_var"):
                tensor.mul_(0.5 + torch.rand_like(tensor))
            elif tensor.is_floating_point() and tensor.ndim == 1:
                tensor.add_(0.2 * torch.randn_like(tensor))
            elif not tensor.is_floating_point():
                tensor.fill_(3)
    return model


def write(folder: Path, config: dict, model: torch.nn.Module) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(model.state_dict(), folder / "model.safetensors")


def probe(folder: Path, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    save_file({k: v.contiguous() for k, v in inputs.items()}, folder / "in.safetensors")
    subprocess.run([PROBE, folder / "theirs", folder / "in.safetensors", folder / "out.safetensors", folder / "ours"],
                   check=True)
    return load_file(folder / "out.safetensors")


class World:
    def __init__(self, case: Case, folder: Path) -> None:
        torch.manual_seed(5)
        self.case, self.folder = case, folder
        write(folder / "theirs", case.config, shaken(nets.KINDS[case.config["model_type"]](case.config)))
        self.model = nets.load(folder / "theirs").double().eval()
        self.theta = {k: v.detach() for k, v in self.model.named_parameters()}
        self.tau = {k: 0.1 * torch.randn_like(v) for k, v in self.theta.items()}
        side = case.config["image_size"]
        self.pixels = torch.randn(5, case.config["num_channels"], side, side, dtype=torch.double)
        width = self.model(self.pixels).shape[1]
        self.head, self.bias = torch.randn(3, width, dtype=torch.double), torch.randn(3, dtype=torch.double)
        self.labels = torch.tensor([0, 1, 2, 1, 0])
        if case.readout == "cosine":
            self.head = normalize(self.head, dim=1)

    def measured(self) -> dict[str, Tensor]:
        readout = {"words": {"words": WORDS}, "affine": {"head": self.head, "bias": self.bias},
                   "cosine": {"head": self.head}}[self.case.readout]
        return probe(self.folder, {"pixels": self.pixels, "labels": self.labels, **readout,
                                   "scale": torch.tensor([SCALE], dtype=torch.double),
                                   **{f"tau.{k}": v for k, v in self.tau.items()}})

    def output(self, p: dict[str, Tensor], x: Tensor) -> Tensor:
        """What is linearised."""
        z: Tensor = functional_call(self.model, p, (x,))
        if self.case.readout != "words":
            return z
        name = self.model.classifier_name
        return z @ p[f"{name}.weight"][WORDS].T + p[f"{name}.bias"][WORDS]

    def logits(self, p: dict[str, Tensor], x: Tensor) -> Tensor:
        z = self.output(p, x)
        if self.case.readout == "affine":
            return z @ self.head.T + self.bias
        return z if self.case.readout == "words" else SCALE * normalize(z, dim=1) @ self.head.T

    def loss(self, p: dict[str, Tensor]) -> Tensor:
        return cross_entropy(self.logits(p, self.pixels), self.labels)

    def flat(self, of: dict[str, Tensor], key: str = "") -> Tensor:
        return torch.cat([of[key + k].flatten() for k in self.theta])


@pytest.fixture(params=CASES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(CASES[request.param], tmp_path)


def test_every_quantity_agrees(world: World) -> None:
    out, x, theta, tau = world.measured(), world.pixels, world.theta, world.tau
    along = jvp(lambda p: world.output(p, x), (theta,), (tau,))[1]
    assert relative(out["encoded"], world.model(x)) < 1e-12
    assert relative(out["jvp"], along) < 1e-11
    assert relative(out["jvp_logits"], jvp(lambda p: world.logits(p, x), (theta,), (tau,))[1]) < 1e-11
    assert abs(float(out["loss"]) - float(world.loss(theta))) < 1e-6 * float(world.loss(theta))
    assert relative(world.flat(out, "gradient."), world.flat(grad(world.loss)(theta))) < 1e-10
    assert relative(world.flat(out, "hvp."), world.flat(jvp(grad(world.loss), (theta,), (tau,))[1])) < 1e-10
    each = vmap(jacrev(lambda p, image: world.logits(p, image[None])[0]), (None, 0))(theta, x)
    rows = torch.cat([v.flatten(2) for v in each.values()], 2)  # [n, classes, P]
    assert relative(out["per_sample_norm"], rows.sum(1).norm(dim=1)) < 1e-10
    assert relative(world.flat(out, "per_sample_sum."), rows.sum((0, 1))) < 1e-10
    for c in range(2):
        gram = rows[:, c] @ rows[:, c].T
        assert relative(out["gram"][c], gram) < 1e-10
        assert relative(out["gram_factors"][c], gram[1:]) < 1e-10


def test_training_takes_the_statistics_of_the_batch(world: World) -> None:
    out = world.measured()
    stored = {k: v.clone() for k, v in world.model.state_dict().items() if "running" in k}
    if not stored:
        assert "training_loss" not in out
        return
    world.model.train()
    theta = {k: v.requires_grad_(True) for k, v in world.theta.items()}
    loss = world.loss(theta)
    loss.backward()
    assert abs(float(out["training_loss"]) - float(loss)) < 1e-6 * float(loss)
    theirs = {k: torch.zeros_like(v) if v.grad is None else v.grad for k, v in theta.items()}
    assert relative(world.flat(out, "training_gradient."), world.flat(theirs)) < 1e-10
    for name, after in world.model.state_dict().items():
        if name in stored:  # PyTorch goes a tenth of the way to what was found
            assert relative(0.9 * stored[name] + 0.1 * out[f"found.{name}"], after) < 1e-12, name


def test_the_folder_comes_back_as_it_was(world: World) -> None:
    world.measured()
    before, after = (load_file(world.folder / name / "model.safetensors") for name in ("theirs", "ours"))
    kept = {k: v for k, v in before.items() if not k.endswith("num_batches_tracked")}
    assert after.keys() == kept.keys()
    assert all(v.numpy().tobytes() == after[k].numpy().tobytes() for k, v in kept.items())
    configs = [json.loads((world.folder / name / "config.json").read_text()) for name in ("theirs", "ours")]
    assert configs[0] == configs[1]


def test_torchvision_resnet18_loads_both_ways(tmp_path: Path) -> None:
    """All of its 11 million parameters, by its own names, into both and back."""
    torch.manual_seed(6)
    theirs = shaken(torchvision.models.resnet18(num_classes=1000)).eval()
    config = {"model_type": "torchvision_resnet", "image_size": 64, "num_classes": 1000}
    write(tmp_path / "theirs", config, theirs)
    pixels = torch.randn(2, 3, 64, 64)
    encoded = probe(tmp_path, {"pixels": pixels})["encoded"]
    again = torchvision.models.resnet18(num_classes=1000).eval()
    again.load_state_dict(load_file(tmp_path / "ours" / "model.safetensors"))
    with torch.no_grad():
        expected = theirs(pixels)
        assert torch.equal(again(pixels), expected)
        assert relative(theirs.fc(encoded), expected) < 1e-5
        assert relative(nets.load(tmp_path / "theirs").eval()(pixels), encoded) < 1e-5


def test_torchvision_mlp_has_the_same_names(tmp_path: Path) -> None:
    torch.manual_seed(6)
    theirs = torchvision.ops.MLP(2 * 5 * 5, [7, 6, 4])
    write(tmp_path / "theirs", MLP | {"num_classes": 4}, theirs)
    pixels = torch.randn(3, 2, 5, 5)
    encoded = probe(tmp_path, {"pixels": pixels})["encoded"]
    again = torchvision.ops.MLP(2 * 5 * 5, [7, 6, 4])
    again.load_state_dict(load_file(tmp_path / "ours" / "model.safetensors"))
    with torch.no_grad():
        assert torch.equal(again(pixels.flatten(1)), theirs(pixels.flatten(1)))
        assert relative(theirs[6](encoded), theirs(pixels.flatten(1))) < 1e-5


@pytest.mark.parametrize(("case", "change", "named"), [
    ("mlp", {"hidden_sizes": []}, "hidden_sizes is []; expected a list of 1 to"),
    ("mlp", {"hidden_sizes": [7, 0]}, "hidden_sizes is [7,0]"),
    ("mlp", {"hidden_sizes": 7}, "hidden_sizes is 7"),
    ("mlp", {"hidden_act": "tanh"}, "hidden_act is 'tanh'; expected relu or gelu"),
    ("mlp", {"num_classes": 0}, "num_classes is 0"),
    ("mlp", {"num_classes": 9}, "6.weight is missing"),
    ("resnet", {"widths": [3, 5, 7]}, "widths has 3 numbers and layers 2"),
    ("resnet", {"widths": [5, 3], "shortcut": "identity"}, "widths become smaller"),
    ("resnet", {"stem": "large"}, "stem is 'large'; expected cifar or imagenet"),
    ("resnet", {"shortcut": "A"}, "shortcut is 'A'; expected projection or identity"),
    ("resnet", {"shortcut": "identity"}, "downsample.0.weight and"),
    ("resnet", {"layers": [1, 3]}, "layer2.2.conv1.weight is missing"),
    ("resnet", {"model_type": "resnet"}, "model_type is 'resnet'"),
])
def test_what_is_no_such_model_is_refused_in_one_line(tmp_path: Path, case: str, change: dict, named: str) -> None:
    world = World(CASES[case], tmp_path)
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(CASES[case].config | change))
    save_file({"pixels": world.pixels}, tmp_path / "in.safetensors")
    done = subprocess.run([PROBE, tmp_path / "theirs", tmp_path / "in.safetensors", tmp_path / "out.safetensors"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert named in done.stderr, done.stderr
