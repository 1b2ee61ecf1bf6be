# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""How every peer is timed, whichever library it uses: by the CPU time of its process, all threads together; on a GPU,
which TAUGRID_PEERS_DEVICE names, by the clock, until the device is done."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
DEVICE = os.environ.get("TAUGRID_PEERS_DEVICE", "cpu")


def arguments(name: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=f"Twin of taugrid bench's {name}.")
    parser.add_argument("folder", type=Path, help="folder of taugrid bench --dump")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cold", action="store_true", help="no warm-up run before the timed ones")
    parser.add_argument("--of", default="", help="which inputs of several, as the end of a name: _full")
    return parser.parse_args()


def repeated(name: str, options: argparse.Namespace, run: Callable[[], T]) -> T:
    """The last of the runs' results; prints the seconds of each as JSON."""
    if not options.cold:
        run()
    seconds: list[float] = []
    for _ in range(options.repetitions):
        began = _now()
        results = run()
        seconds.append(_now() - began)
    print(json.dumps({"name": name, "seconds": seconds}))
    return results


def _now() -> float:
    if DEVICE == "cpu":
        return time.process_time()
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()


def results_of(name: str, options: argparse.Namespace) -> Path:
    folder = options.folder / "peers"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}{options.of}.safetensors"
