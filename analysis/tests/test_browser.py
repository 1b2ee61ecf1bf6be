# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report in a browser: no script errors, every picture there, a value read by pointing at its cell."""

from __future__ import annotations

import csv
import io
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import synthetic

from taugrid_analysis.page.report import report
from taugrid_analysis.run.opened import Run

selenium = pytest.importorskip(
    "selenium", reason="no selenium: pip install -r jobs/packages/python-tests.txt"
)
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

DRIVER = shutil.which("chromedriver")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
if DRIVER is None or BROWSER is None:
    pytest.skip(
        "no Chromium with its driver: jobs/packages/debian-tests.txt names both", allow_module_level=True
    )

PATIENCE = 30  # seconds
A, B = 1, 2  # tasks of the pair that is pointed at


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "results.h5"
    return synthetic.write(path, tasks=synthetic.FEW_TASKS, schema=2, alpha=np.linspace(-2, 2, 9), bend=True)


@pytest.fixture(scope="module")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("browser")
    with Run(results) as run:
        (folder / "report.html").write_text(report(run), encoding="utf-8")
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for switch in ("headless=new", "disable-gpu", "disable-dev-shm-usage", "window-size=1250,1000"):
        options.add_argument(f"--{switch}")
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    if os.getuid() == 0:
        options.add_argument("--no-sandbox")  # which root cannot have
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.set_page_load_timeout(PATIENCE)
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    driver.get((folder / "report.html").as_uri())
    WebDriverWait(driver, PATIENCE).until(
        lambda it: it.execute_script("return document.documentElement.dataset.ready") == "yes"
    )
    driver.folder = folder  # type: ignore[attr-defined]
    yield driver
    driver.quit()


def point(page: Any, key: str, across: float, down: float) -> list[str]:
    """The lines that appear at this part of the map's width and height."""
    image = page.find_element(By.CSS_SELECTOR, f'[data-map="{key}"] image')
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", image)
    box = page.execute_script(
        "const b = arguments[0].getBoundingClientRect(); return [b.left, b.top, b.width, b.height]", image
    )
    x, y = box[0] + across * box[2], box[1] + down * box[3]
    tip = page.find_element(By.ID, "tip")
    end = time.monotonic() + 5
    while time.monotonic() < end:  # a busy browser may still be scrolling when the pointer comes
        for place in ((0, 0), (round(x), round(y))):
            pointer = ActionChains(page)
            pointer.w3c_actions.pointer_action.move_to_location(*place)
            pointer.perform()
        if tip.is_displayed():
            return tip.text.splitlines()
    return []


def test_no_script_error_and_nothing_fetched(page: Any) -> None:
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    fetched = page.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert [name for name in fetched if not name.startswith(("data:", "blob:"))] == []


def test_every_picture_is_there(page: Any) -> None:
    """Each <image> decodes, and each section shows a figure with some height."""
    broken = page.execute_async_script(
        """
        const done = arguments[0];
        Promise.all([...document.querySelectorAll("image")].map((image) => {
          const picture = new Image();
          picture.src = image.getAttribute("href");
          return picture.decode().then(() => picture.naturalWidth === 0, () => true);
        })).then((failed) => done([failed.length, failed.filter(Boolean).length]));
        """
    )
    assert broken[0] > 2 * (6 + 1) and broken[1] == 0
    heights = page.execute_script(
        "return [...document.querySelectorAll('figure svg')].map((svg) => svg.getBoundingClientRect().height)"
    )
    assert len(heights) >= 14 and min(heights) > 50


def test_all_pictures_have_one_scale(page: Any) -> None:
    """A heat map alone, as τJp of one regime, is no larger than those that stand side by side."""
    scales = page.execute_script(
        "return [...document.querySelectorAll('figure svg')].map((svg) => svg.getScreenCTM().a)"
    )
    alone, beside = (
        page.execute_script(
            "return document.querySelector(arguments[0]).getBoundingClientRect().height",
            f'[data-map="{key}/linear"] image',
        )
        for key in ("tau_jp", "cosine")
    )
    assert max(scales) / min(scales) < 1.01 and 0.7 < alone / beside < 1.4


def test_pointing_at_a_cell_reads_it(page: Any, results: Path) -> None:
    """α₁ along the columns, α₂ up the rows, value and error as the file's own numbers give them."""
    pair, first, second = synthetic.pairs_of(4).index((A, B)), 6, 7  # α = 1 and α = 1.5
    lines = point(page, f"xi/linear/{pair}", (first + 0.5) / 9, 1 - (second + 0.5) / 9)
    with h5py.File(results) as file:
        group = file["disentanglement/linear"]
        value, terms = group["error"][pair, first, second], group["error_by_task"][pair, :, first, second]
        alpha = group["alpha"][()]
        swapped = group["error"][pair, second, first]
    assert (alpha[first], alpha[second]) == (1.0, 1.5) and value != swapped
    error = np.sqrt((terms * (1 - terms) / 256).sum())
    names = synthetic.FEW_TASKS
    assert lines == [
        f"{names[A]} + {names[B]} (linear)",
        f"α of {names[A]} = 1, α of {names[B]} = 1.5",
        f"ξ = {value:.3f} ± {error:.3f}",
    ]


def test_pointing_at_other_maps(page: Any, results: Path) -> None:
    with h5py.File(results) as file:
        mean = file["disentanglement/standard/error"][()].mean(axis=0)[8, 0]
        cosine = file["similarity/linear/cosine"][0, 3]
        product = file["tau_jp/linear/control"][2]
    lines = point(page, "xi/standard/6", 8.5 / 9, 8.5 / 9)  # the mean over all pairs
    assert lines[0] == "mean over 6 pairs (standard)" and lines[2].startswith(f"ξ = {mean:.3f} ± 0.0")
    lines = point(page, "cosine/linear", 3.5 / 4, 0.5 / 4)
    assert lines[0] == "τ of fashion, τ of letters (linear)" and lines[1].startswith(
        f"cosine = {cosine:.3f} ("
    )
    lines = point(page, "tau_jp/linear", 4.5 / 5, 2.5 / 4)
    assert lines[0] == "τ of animals, x of control (linear)" and f"{product:.3f}" in lines[1]
    lines = point(page, "ntk/pretrained", 0.5 / 4, 1.5 / 4)
    assert lines[1] == "own share − null = 0.085 ± 0.013"
    assert point(page, "ntk/pretrained", 1.5 / 4, 1.5 / 4)[1] == "own share − null = not measured"


def downloaded(page: Any, section: str, name: str) -> list[dict[str, str]]:
    link = page.find_element(By.CSS_SELECTOR, f'#{section} a[download="{name}"]')
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", link)
    link.click()
    path = page.folder / name
    WebDriverWait(page, PATIENCE).until(lambda _: path.is_file() and path.stat().st_size)
    return list(csv.DictReader(line for line in io.StringIO(path.read_text("utf-8")) if line[0] != "#"))


def test_sections_hand_out_what_they_show(page: Any, results: Path) -> None:
    rows = downloaded(page, "disentanglement", "disentanglement.csv")
    with h5py.File(results) as file:
        error = np.stack([file[f"disentanglement/{name}/error"][()] for name in ("standard", "linear")])
        curve = file["addition/linear/test_accuracy"][()]
    np.testing.assert_allclose([float(row["value"]) for row in rows], error.ravel(), atol=1e-12)
    assert rows[1]["alpha_2"] == "-1.5" and all(float(row["error"]) > 0 for row in rows)
    rows = downloaded(page, "addition", "addition.csv")
    mine = [row for row in rows if row["regime"] == "linear" and row["split"] == "test"]
    np.testing.assert_allclose([float(row["accuracy"]) for row in mine], curve.ravel(), rtol=1e-9)
    rows = downloaded(page, "tables", "single_task.csv")
    assert [row["task"] for row in rows] == [*synthetic.FEW_TASKS, "mean"]
    assert page.get_log("browser") == []
