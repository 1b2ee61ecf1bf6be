# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid's cases beside their twins in PyTorch on one device: times by the clock, full float32 products on both sides,
and the twins once more with reduced ones (TF32). Prints a line a twin, as a table of Markdown."""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
import compare

CASES = {  # case: its peer, the tensor that both give, the largest difference
    pair.case: (pair.peer, pair.tensor, pair.same)
    for pair in reversed(compare.PAIRS)  # of several peers the first
    if pair.case in ("step/standard", "step/linear", "vit/step", "resnet/step", "text/step", "ntk", "text/ntk",
                     "grid/nonlinear_7x7") and not pair.needs
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("folder", type=Path, help="for inputs and results")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", default="", help="only cases whose name matches this regular expression")
    options = parser.parse_args()
    cases = {case: twin for case, twin in CASES.items() if re.search(options.only, case)}
    options.folder.mkdir(parents=True, exist_ok=True)
    report, pattern = options.folder / "bench.json", f"^({'|'.join(cases)})$"
    subprocess.run([options.program, "bench", "--device", options.device, "--filter", pattern, "--json", report,
                    "--dump", options.folder, "--repetitions", str(options.repetitions)],
                   check=False, stdout=subprocess.DEVNULL)  # an invalid case is among its figures
    ours = {row["run_name"]: row["real_time"] / 1e3 for row in json.loads(report.read_text())["benchmarks"]
            if row["run_type"] == "aggregate"}
    print("| case | taugrid, ms | PyTorch, ms | ratio | PyTorch with TF32, ms | ratio | difference |\n"
          "|---|---|---|---|---|---|---|")
    apart = 0
    for case, (peer, tensor, same) in cases.items():
        times, difference = [], float("nan")
        for reduced in ("0", "1"):
            device = "cpu" if options.device == "rehearsal" else options.device
            environment = os.environ | {"TAUGRID_PEERS_DEVICE": device, "TAUGRID_PEERS_TF32": reduced}
            done = subprocess.run([sys.executable, Path(compare.__file__).parent / f"{peer}.py", options.folder,
                                   "--repetitions", str(options.repetitions)], env=environment, text=True,
                                  capture_output=True, check=False)
            if done.returncode != 0:
                print(f"{peer}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}", file=sys.stderr)
                break
            times.append(statistics.median(json.loads(done.stdout.splitlines()[-1])["seconds"]))
            if reduced == "0":
                difference = compare.difference(options.folder / "results" / f"{case.replace('/', '-')}.safetensors",
                                                options.folder / "peers" / f"{peer}.safetensors", tensor)
        if len(times) == 2 and case in ours:
            figures = " | ".join(f"{1e3 * t:.2f} | {t / ours[case]:.2f}" for t in times)
            print(f"| {case} | {1e3 * ours[case]:.2f} | {figures} | {difference:.1e} |", flush=True)
            apart += not difference <= same
    return int(apart > 0)


if __name__ == "__main__":
    sys.exit(main())
