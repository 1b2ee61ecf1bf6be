# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Prints one page of what jobs/gpu_day.sh left in a folder; what is missing there is left out."""

from __future__ import annotations

import csv
import datetime as dt
import json
import sys
from collections import defaultdict
from pathlib import Path

import h5py


def steps(out: Path) -> list[dict[str, str]]:
    with (out / "steps.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def samples(out: Path) -> list[tuple[float, float, float, float]]:
    """(time, watts, MiB in use, per cent busy) of the GPU each second."""
    rows = []
    path = out / "samples.csv"
    for line in path.read_text().splitlines() if path.exists() else []:
        fields = [field.strip() for field in line.split(",")]
        try:
            moment = dt.datetime.strptime(fields[0], "%Y/%m/%d %H:%M:%S.%f").timestamp()
            rows.append((moment, *(float(field) for field in fields[1:4])))
        except (ValueError, IndexError):
            continue  # the last line may be cut off, and what a GPU does not tell is no number
    return rows


def table_of_steps(out: Path) -> None:
    seen = samples(out)
    print("| step | seconds | result | mean W | kJ | most GiB in use | busy % |\n|---|---|---|---|---|---|---|")
    for row in steps(out):
        began = out / f"{row['step']}.began"
        readings = []
        if began.exists():
            start = float(began.read_text())
            readings = [s for s in seen if start <= s[0] <= start + float(row["seconds"]) + 1]
        figures = "- | - | - | -"
        if readings:
            watts = sum(s[1] for s in readings) / len(readings)
            kilojoules, most = watts * float(row["seconds"]) / 1e3, max(s[2] for s in readings) / 1024
            figures = f"{watts:.0f} | {kilojoules:.1f} | {most:.1f} | {sum(s[3] for s in readings) / len(readings):.0f}"
        print(f"| {row['step']} | {row['seconds']} | {row['status']} | {figures} |")


def medians(path: Path) -> dict[str, dict]:
    if not path.exists():
        return {}
    rows = json.loads(path.read_text())["benchmarks"]
    return {row["run_name"]: row for row in rows if row["run_type"] == "aggregate"}


def table_of_bench(out: Path) -> None:
    host = medians(out / "bench_cpu.json")
    device, path = medians(out / "bench_device.json"), out / "bench_device.json"
    if device:
        context = json.loads(path.read_text())["context"]
        print(f"\n## Bench: {context.get('device', '')} beside one core of the host\n")
        full, half = context["peak_flops"] / 1e12, context.get("peak_bf16_flops", 0) / 1e12
        triad = context["peak_bytes"] / 1e9
        print(f"Peak: {full:.1f} Tflop/s in float32, {half:.0f} in bfloat16; triad {triad:.0f} GB/s.\n")
        print("| case | device, ms | share of peak, % | host, ms | host / device | error | result |\n"
              "|---|---|---|---|---|---|---|")
        for name, row in device.items():
            cpu = host.get(name)
            beside = f"{cpu['real_time']:.2f} | {cpu['real_time'] / row['real_time']:.1f}" if cpu else "- | -"
            share, error = row["share_of_peak"], row["relative_error"]
            result = row.get("error_message") or ("ok" if row["valid"] else "INVALID")
            print(f"| {name} | {row['real_time']:.3f} | {100 * share:.1f} | {beside} | {error:.1e} | {result} |")


def table_of_units(out: Path, name: str, title: str) -> None:
    path = out / f"{name}.h5"
    if not path.exists():
        return
    seconds, counts = defaultdict(float), defaultdict(int)
    with h5py.File(path) as file:
        for key, took in zip(file["units"]["key"], file["units"]["seconds"], strict=True):
            kind = "/".join(key.decode().split("/")[:2])
            seconds[kind] += took
            counts[kind] += 1
        device = file["units"][0]["device"].decode()
    print(f"\n## {title}, on {device}\n\n| units | how many | seconds |\n|---|---|---|")
    for kind, took in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"| {kind} | {counts[kind]} | {took:.2f} |")


def text_of(out: Path, name: str, title: str, last: int) -> None:
    path = out / f"{name}.txt"
    if path.exists():
        lines = path.read_text(errors="replace").splitlines()
        print(f"\n## {title}\n\n```\n" + "\n".join(lines[-last:]) + "\n```")


def main() -> None:
    out = Path(sys.argv[1])
    print("# A day with a GPU\n")
    table_of_steps(out)
    text_of(out, "machine", "The machine", 60)
    text_of(out, "verify", "Verification on the device", 60)
    table_of_bench(out)
    twins = out / "twins.txt"
    if twins.exists():
        print("\n## PyTorch's twins on the same device\n\n" + twins.read_text(errors="replace"))
    table_of_units(out, "large", "A model of the papers' size")
    text_of(out, "quickstart", "The quickstart beside the recorded run", 40)
    table_of_units(out, "quickstart", "The quickstart")
    text_of(out, "tests", "Tests on the device", 25)


if __name__ == "__main__":
    main()
