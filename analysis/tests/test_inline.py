# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Figures within a page lose bytes, not marks."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from taugrid_analysis.page import style
from taugrid_analysis.page.inline import to_svg


def figure() -> Figure:
    with style.settings():
        picture = Figure(figsize=(4, 3))
        left, right = picture.subplots(1, 2)
        shown = np.linspace(0, 1, 12).reshape(3, 4)
        left.imshow(shown, cmap=style.ERROR_MAP, vmin=0, vmax=1, interpolation="none", aspect="auto")
        left.set_gid(f"{style.MAP}xi/<a>&b/0")
        for level in (0.2, 0.5, 0.7):
            right.plot([0, 1], [0, level], "o-", label=f"level {level} & more")
        right.legend()
    return picture


def test_dots_of_an_image_are_the_same() -> None:
    svg = to_svg(figure(), "a")
    data = re.findall(r'href="data:image/png;base64,([^"]+)"', svg)
    assert len(data) == 1
    dots = np.asarray(Image.open(io.BytesIO(base64.b64decode(data[0]))).convert("RGB"))
    colours = style.ERROR_MAP(np.linspace(0, 1, 12).reshape(3, 4), bytes=True)
    np.testing.assert_array_equal(dots, colours[:, :, :3])


def test_marks_texts_and_maps_are_kept() -> None:
    svg = to_svg(figure(), "a")
    assert svg.count("data-map=") == 1 and 'data-map="xi/&lt;a&gt;&amp;b/0"' in svg
    assert all(f"level {level} &amp; more" in svg for level in (0.2, 0.5, 0.7))
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    assert used == set(re.findall(r' id="([^"]+)"', svg)) and all(name.startswith("a-") for name in used)
    classes = set(re.findall(r'class="([^"]+)"', svg))
    assert classes <= set(re.findall(r"\.(\w+)\{", svg)) and all(name.startswith("a_") for name in classes)
    assert "currentColor" in svg and style.INK not in svg


def test_figures_of_one_page_share_no_name() -> None:
    names = [set(re.findall(r'(?:id|class)="([^"]+)"', to_svg(figure(), prefix))) for prefix in ("a", "b")]
    assert names[0] and not names[0] & names[1]


def test_figures_of_one_page_have_one_scale() -> None:
    """A width of 11 inches is the page's; a figure that is wider takes the page as well."""
    assert [
        re.findall(r"--share:([\d.]+)%", to_svg(Figure(figsize=(width, 3)), "a")) for width in (5.5, 11, 14)
    ] == [["50"], ["100"], ["100"]]
