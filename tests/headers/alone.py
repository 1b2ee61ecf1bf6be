# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Each header of kernels/ and suite/ compiles where nothing was included before it.

    python alone.py SOURCES BUILD [CLANG]

SOURCES: the project's folder; BUILD: a build folder, whose compile_commands.json has the options of alone.cpp beside
this file; CLANG: a clang that reads the headers instead of the compiler there, in less than half of the time, since it
instantiates what a precompiled header needs once, and not again for each source.

One by one the headers take minutes, most of them for what they share. A header that is read after others is alone all
the same if it includes each of them itself, directly or not. So one source reads a chain of headers, each of which
includes all before it, behind a precompiled header that the first of them includes.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

BASES = ("suite/study/model.hpp", "ATen/core/Tensor.h", "filesystem")  # precompiled, for headers that include them


def includes(root: Path) -> dict[str, set[str]]:
    """All that each of the project's headers includes, directly or not."""
    names = [str(path.relative_to(root)) for part in ("kernels", "suite") for path in (root / part).rglob("*.hpp")]
    direct = {name: set(re.findall(r'^#include [<"]([^>"]+)[>"]', (root / name).read_text(), re.M)) for name in names}
    reached: dict[str, set[str]] = {}

    def of(name: str) -> set[str]:
        if name not in reached:
            reached[name] = set(direct[name]).union(*(of(other) for other in direct[name] if other in direct))
        return reached[name]

    for name in sorted(names):
        of(name)
    return reached


def chains(headers: list[str], within: dict[str, set[str]]) -> list[list[str]]:
    """The fewest chains that hold every header, by a maximum matching of each with one that includes it."""
    above: dict[str, str] = {}  # the header before, of each that has one

    def matched(header: str, tried: set[str]) -> bool:
        for other in headers:
            if header in within[other] and other not in tried:
                tried.add(other)
                if other not in above or matched(above[other], tried):
                    above[other] = header
                    return True
        return False

    last = [header for header in headers if not matched(header, set())]
    joined = []
    for header in last:
        chain = [header]
        while chain[0] in above:
            chain.insert(0, above[chain[0]])
        joined.append(chain)
    return joined


def options(commands: Path) -> list[str]:
    """The compiler and its options, without input and output."""
    entry = next(entry for entry in json.loads(commands.read_text()) if Path(entry["file"]).name == "alone.cpp")
    words = shlex.split(entry["command"])
    return [word for word, before in zip(words, ["", *words], strict=False)
            if word not in ("-c", "-o", entry["file"]) and before != "-o"]


def main(root: Path, build: Path, clang: str | None = None) -> int:
    compiler, within = options(build / "compile_commands.json"), includes(root)
    precompiled, reuse = ["-x", "c++-header"], ["-fpch-preprocess"]
    if clang:  # which warns of other things than the compiler that builds
        compiler[0], precompiled, reuse = clang, [*precompiled, "-w", "-fpch-instantiate-templates"], ["-w"]
    rest, sources, failed = sorted(within), 0, False
    folder = build / "tests/headers/chains"
    folder.mkdir(parents=True, exist_ok=True)

    def compiled(arguments: list[str | Path], names: list[str], path: Path) -> None:
        nonlocal failed
        lines = [f'#include "{name}"\n' if name in within else f"#include <{name}>\n" for name in names]
        path.write_text("".join(lines))
        done = subprocess.run([*compiler, *arguments, path], capture_output=True, text=True, check=False)
        if done.returncode:
            failed = True
            print(f"{', '.join(names)}:\n{done.stderr}")

    for place, base in enumerate((*BASES, None)):
        group = [name for name in rest if base is None or base == name or base in within[name]]
        rest = [name for name in rest if name not in group]
        before: list[str | Path] = []
        if base is not None and group:
            header = folder / f"base{place}.hpp"
            compiled([*precompiled, "-o", f"{header}.gch"], [base], header)
            before = ["-include", header]
        for chain in chains([name for name in group if name != base], within):
            compiled(["-fsyntax-only", *reuse, *before], chain, folder / f"chain{place}_{sources}.cpp")
            sources += 1
    print(f"{len(within)} headers in {sources} sources")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
