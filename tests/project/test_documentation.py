# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The README is a door: it stays short. The documentation is a site: it builds, and no link of it breaks."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml", "docs", "models")  # what the site is made of


def build(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site of a project as its own documents say; a warning is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(project / "mkdocs.yml")]
    return subprocess.run([*command, "--site-dir", str(site)], capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the documents, without weights."""
    for name in PAGES:
        source, target = PROJECT / name, tmp_path / "project" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.safetensors", "__pycache__"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    for name in ("LICENSE", "CITATION.cff", "Containerfile", "analysis", "jobs"):  # which pages link to
        (tmp_path / "project" / name).symlink_to(PROJECT / name)
    return tmp_path / "project"


def test_comments_are_sentences() -> None:
    """A comment or docstring opens with what it speaks of, not with "Of", "Those" or "At" of something unsaid."""
    opening = re.compile(r'^\s*(?:///?|""")\s?(?:Of|Those|At|By) ')
    fragments = []
    for folder in ("suite", "kernels", "analysis", "jobs", "tests"):
        for path in sorted((PROJECT / folder).rglob("*")):
            if path.suffix not in (".py", ".cpp", ".hpp") or "build" in path.parts:
                continue
            lines = path.read_text(encoding="utf-8").splitlines()
            continued = ("//", "///")  # a line of a longer comment begins anywhere
            fragments += [
                f"{path.relative_to(PROJECT)}:{number + 1}: {line.strip()}"
                for number, line in enumerate(lines)
                if opening.match(line) and (number == 0 or not lines[number - 1].lstrip().startswith(continued))
            ]
    assert not fragments


def test_the_readme_is_a_door() -> None:
    assert len((PROJECT / "README.md").read_bytes()) <= 8192


def test_the_site_builds_with_every_link(tmp_path: Path) -> None:
    result = build(PROJECT, tmp_path / "site")
    assert result.returncode == 0, result.stderr
    for page in ("index", "start", "findings/index", "contributing", "changelog", "models/clip_mini"):
        assert (tmp_path / "site" / f"{page}.html").is_file(), page
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert 'src="quickstart.png"' in home and 'href="start.html#how-long-it-takes"' in home
    assert not list((tmp_path / "site").glob("hooks*"))


def test_links_that_lead_nowhere_end_the_build(copy: Path, tmp_path: Path) -> None:
    links = {
        "README.md": ("docs/start.md#no-such-heading", "docs/no_such_page.md"),
        "CONTRIBUTING.md": ("LICENCE",),
        "docs/findings/texts.md": ("../../suite/no_such_file.cpp",),
        "docs/start.md": ("measures.md#another-heading",),
    }
    for page, targets in links.items():
        with (copy / page).open("a", encoding="utf-8") as text:
            text.writelines(f"\nThis is [a link]({target}).\n" for target in targets)
    result = build(copy, tmp_path / "site")
    assert result.returncode != 0
    for target in (target for targets in links.values() for target in targets):
        assert target.rsplit("/", 1)[-1] in result.stderr, target


def test_the_analysis_readme_leads_somewhere() -> None:
    """It is no page of the site."""
    document = PROJECT / "analysis" / "README.md"
    targets = re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8"))
    assert targets
    for target in targets:
        assert (document.parent / target).exists(), target


def test_files_that_pages_name_exist() -> None:
    """Whoever moves a file of the repository renews the pages that name it."""
    path = re.compile(r"(?<![\w/.~-])(?:analysis|jobs|kernels|models|suite|tests)/[\w./-]*\w")
    pages = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *(PROJECT / "docs").rglob("*.md")]
    named = {(page, name) for page in pages for name in path.findall(page.read_text(encoding="utf-8"))}
    named = {(page, name) for page, name in named if not re.search(r"\b[A-Z]+\b(?!\.)", name)}  # NAME stands for any
    assert len(named) > 30
    missing = [f"{page.relative_to(PROJECT)}: {name}" for page, name in sorted(named) if not (PROJECT / name).exists()]
    assert not missing
