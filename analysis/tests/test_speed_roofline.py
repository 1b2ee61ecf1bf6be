# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`roofline` over a file of the bench whose numbers are round."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from taugrid_analysis.cli import main


def case(name: str, milliseconds: float, **more: Any) -> list[dict[str, Any]]:
    row = {"run_name": name, "real_time": milliseconds, "cpu_time": milliseconds, "time_unit": "ms"}
    median = (
        row | {"aggregate_name": "median", "valid": True, "bound": "products", "memory_bytes": None} | more
    )
    return [row | {"run_type": "iteration"}, median]


def bench(path: Path, rows: list[dict[str, Any]], **context: Any) -> Path:
    head = {"date": "2026-01-01", "peak_flops": 100e9, "peak_bytes": 10e9} | context
    path.write_text(json.dumps({"context": head, "benchmarks": rows}), encoding="utf-8")
    return path


ROWS = [
    *case("product", 20, flops=1e9, bytes=1e7, share_of_products=0.5, share_of_triad=0.05),
    *case(
        "sum",
        100,
        flops=1e8,
        bytes=8e8,
        share_of_products=0.01,
        share_of_triad=0.8,
        bound="triad",
        memory_bytes=1.2e9,
    ),
    *case("ring", 1, flops=0, bytes=1e6, bound="network"),
    *case("wrong", 1, flops=1e9, bytes=1e6, valid=False),
]


def test_rates_shares_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = bench(tmp_path / "bench.json", ROWS), tmp_path / "roof.png"
    assert main(["roofline", str(file), "--format", "csv", "--out", str(picture)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "," in line and line[0] != "#"]
    product, added = csv.DictReader(io.StringIO("\n".join(lines)))
    numbers = ("flop/byte", "Gflop/s", "of products", "GB/s", "of triad")
    assert [product["case"], product["bound"], product["traffic"]] == ["product", "products", ""]
    assert [float(product[name]) for name in numbers] == pytest.approx([100, 50, 0.5, 0.5, 0.05])
    assert [added["case"], added["bound"]] == ["sum", "triad"] and float(added["traffic"]) == pytest.approx(
        1.5
    )
    assert [float(added[name]) for name in numbers] == pytest.approx([0.125, 1, 0.01, 8, 0.8])
    with Image.open(picture) as drawn:
        assert len(drawn.convert("RGB").resize((200, 80)).getcolors(16_000) or []) > 20


@pytest.mark.parametrize(
    ("rows", "context", "words"),
    [
        (ROWS, {"peak_bytes": 0}, "has no peaks"),
        (ROWS, {"peak_flops": "fast"}, "has no peaks"),
        (ROWS[4:], {}, "holds no valid case that has flops and bytes"),
    ],
)
def test_refused(
    rows: list[dict[str, Any]],
    context: dict[str, Any],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["roofline", str(bench(tmp_path / "bench.json", rows, **context))]) == 2
    assert words in capsys.readouterr().err
