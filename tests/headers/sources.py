# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Each source includes, directly or not, the headers that declare the functions of the project's which it calls.

    python sources.py SOURCES

Sources that are compiled together (CMAKE_UNITY_BUILD) see each other's includes and those of the precompiled header,
so that one may lack its own and nobody notices before a build without. Looked at are free functions, of names that one
header alone declares and that are no method's and no source's own; and names of the precompiled libraries.
"""

import re
import sys
from collections import Counter
from pathlib import Path

from alone import includes

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
ARGUMENTS = r"\((?:[^;{]|\{\})*?\)(?: const)?[;{ ]"
FUNCTION = re.compile(rf"^(?! )[\w:<>,*& \[\]]+?[ &*](\w+){ARGUMENTS}", re.M)
METHOD = re.compile(rf"(?:^ +(?!return |throw |else )\w[\w:<>,*& \[\]]*?[ &*]|\w::)(\w+){ARGUMENTS}", re.M)
CALL = re.compile(r"(?<![\w.>:])(?:\w+::)*(\w+)\(")
PRECOMPILED = {  # what a name of each looks like, and how the headers begin that may bring it
    r"\bnlohmann::": ("nlohmann/",),
    r"\bat::\w": ("ATen/", "torch/"),
}
LEAST = 8  # letters of a name: short ones are methods' and variables' too


def code(path: Path) -> str:
    return COMMENT.sub(" ", path.read_text())


def main(root: Path) -> int:
    within = includes(root)
    sources = sorted([*(root / "kernels").rglob("*.cpp"), *(root / "suite").rglob("*.cpp")])
    texts = {path: code(path) for path in [*sources, *(root / name for name in within)]}
    declared = {name: set(FUNCTION.findall(texts[root / name])) for name in within}
    count = Counter(function for functions in declared.values() for function in functions)
    methods = {name for text in texts.values() for name in METHOD.findall(text)}
    home = {function: name for name, functions in declared.items() for function in functions
            if count[function] == 1 and len(function) >= LEAST and function not in methods}
    failed = looked_at = 0
    for path in sources:
        text, whole = texts[path], path.read_text()
        direct = re.findall(r'^#include "([^"]+)"', whole, re.M)
        seen = set(direct).union(*(within.get(name, set()) for name in direct))
        others = set(re.findall(r"^#include <([^>]+)>", whole, re.M)) | seen
        for pattern, headers in PRECOMPILED.items():
            if (used := re.search(pattern, text)) and not any(name.startswith(headers) for name in others):
                failed += 1
                print(f"{path.relative_to(root)}: uses {used[0]}; expected #include <{headers[0]}>")
        mine = set(FUNCTION.findall(text))
        for function in sorted({name for name in CALL.findall(text) if name in home} - mine):
            looked_at += 1
            if home[function] not in seen:
                failed += 1
                print(f"{path.relative_to(root)}: calls {function}; expected #include \"{home[function]}\"")
    print(f"{looked_at} calls of {len(home)} functions")
    return int(failed > 0 or looked_at == 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
