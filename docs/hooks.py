# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Lets pages of the site stand elsewhere in the repository. MkDocs calls the two functions (`hooks` in mkdocs.yml)."""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "models/clip_mini/README.md": "models/clip_mini.md",
    "models/clip_mini_2/README.md": "models/clip_mini_2.md",
}
LINK = re.compile(r"\[([^\]\[]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that stand outside docs/."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(REPOSITORY / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links that hold in the repository hold in the site.

    A link to a file of the repository that is no page becomes its text. One to a file that does not exist stays, and
    MkDocs refuses it.
    """
    here = page.file.src_uri
    source = next((path for path, name in OUTSIDE.items() if name == here), f"docs/{here}")

    def rewritten(link: re.Match[str]) -> str:
        text, anchor = link[1], link[3] or ""
        target = os.path.normpath(os.path.join(os.path.dirname(source), link[2]))
        if target in OUTSIDE:
            target = OUTSIDE[target]
        elif target.startswith("docs/"):
            target = target.removeprefix("docs/")
        elif (REPOSITORY / target).exists():
            return text
        return f"[{text}]({os.path.relpath(target, os.path.dirname(here) or '.')}{anchor})"

    return LINK.sub(rewritten, markdown)
