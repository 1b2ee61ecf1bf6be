# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Prints the definition of an Apptainer image with the steps of Containerfile, the one list of them:

  python3 jobs/apptainer.py > taugrid.def

taugrid.def is kept beside Containerfile; a test holds the two together.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

CONTAINERFILE = Path(__file__).resolve().parents[1] / "Containerfile"
HEAD = """\
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# taugrid in Debian 12 for Apptainer, built for the processor of the machine that builds the image. From the
# repository's root:
#   apptainer build taugrid.sif taugrid.def
#   mkdir -p runs data                                                            the quickstart, to its report:
#   apptainer run --writable-tmpfs --bind runs:{folder}/runs,data:{folder}/data taugrid.sif
# Only what is committed goes in. python3 jobs/apptainer.py makes this file of Containerfile's steps.
"""


def steps(text: str) -> list[tuple[str, str]]:
    """(instruction, what follows it) of a Containerfile."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(step, rest) for step, rest in (line.split(maxsplit=1) for line in lines)]


def definition(text: str) -> str:
    """The same steps as Apptainer has them. Raises ValueError for a step that it has no word for."""
    image, folder, command = "", "/", []
    files: list[str] = []
    post: list[str] = ["set -e"]
    for step, rest in steps(text):
        if step == "FROM":
            image = rest
        elif step == "ENV":
            post.append(f"export {rest}")
        elif step == "WORKDIR":
            folder = rest
            post += [f"mkdir -p {folder}", f"cd {folder}"]
        elif step == "COPY":
            source, target = rest.split()
            files.append(f"{source} {folder}/{target}")
            post.append(f"chown -R 0:0 {folder}/{target}")
        elif step == "RUN":
            post.append(rest)
        elif step == "CMD":
            command = json.loads(rest)
        else:
            raise ValueError(f"{step}: Apptainer has no word for it")
    post.append("mkdir -p runs data  # where folders of the host are bound: an image cannot be written")
    run = [f"cd {folder}", f'[ $# -gt 0 ] || set -- {shlex.join(command)}', 'exec "$@"']
    parts = {"files": files, "post": post, "runscript": run}
    sections = ["\n".join([f"%{name}", *(f"    {line}" for line in lines)]) for name, lines in parts.items()]
    return "\n\n".join([f"{HEAD.format(folder=folder)}Bootstrap: docker\nFrom: {image}", *sections]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(definition(CONTAINERFILE.read_text(encoding="utf-8")))
