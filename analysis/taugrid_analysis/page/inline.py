# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A figure as SVG within a page: small, in the page's ink and scale, with ids that no other figure has."""

from __future__ import annotations

import base64
import io
import re
from collections import Counter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from matplotlib.figure import Figure
from PIL import Image

from taugrid_analysis.page import style

DIGITS = {"d": 1, "x": 1, "y": 1, "points": 1, "transform": 4}  # of a point: no eye sees more
NOTHING_DRAWN = re.compile(r"fill: none;?")
OWN = re.compile(r"(font-family|image-rendering): ?[^;]+;? ?")  # what the page sets itself
LEAST = 3  # uses of a style for which it gets a name


def to_svg(figure: Figure, prefix: str) -> str:
    """prefix: begins every id and class, and so must differ from figure to figure of a page.

    --share is the figure's part of the page's width, so that all figures have the same scale.
    """
    out = io.StringIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with style.settings():
        style.lay_out(figure)
        figure.savefig(out, format="svg", metadata=nothing)
    text = out.getvalue()
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text[text.index("<svg") :]).replace("xlink:href", "href")
    root = ElementTree.fromstring(text)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    for child in list(root):
        if child.tag == "metadata":
            root.remove(child)
    for defs in root.iter("defs"):
        for child in list(defs):
            if child.tag == "style":
                defs.remove(child)
    _shorten(root)
    _flatten(root)
    _name(root, prefix)
    root.set("role", "img")
    root.set("style", f"--share:{100 * min(1.0, figure.get_figwidth() / style.PAGE):.4g}%")
    svg = ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)
    return svg.replace(style.INK, "currentColor").replace(style.FAINT, "var(--rule)")


def _shorten(root: Element) -> None:
    """Fewer digits, no blanks between elements, pictures without what a page does not need."""
    for element in root.iter():
        if element.tag != "text" and element.tag != "tspan":
            element.text = None
        element.tail = None
        for name, digits in DIGITS.items():
            if name in element.attrib:
                element.set(name, _rounded(element.attrib[name], digits))
        if "transform" in element.attrib:
            turned = re.sub(r"rotate\(-?0( [-\d.]+)*\)", "", element.attrib["transform"]).strip()
            element.attrib.pop("transform")
            if turned:
                element.set("transform", turned)
        if "style" in element.attrib:
            css = OWN.sub("", element.attrib.pop("style")).strip("; ")
            if css:
                element.set("style", css)
        if element.tag == "image":
            element.set("href", _picture(element.attrib["href"]))


def _rounded(text: str, digits: int) -> str:
    def shorter(number: re.Match[str]) -> str:
        return f"{float(number[0]):.{digits}f}".rstrip("0").rstrip(".")

    return re.sub(r"-?\d+\.\d+(?:e-?\d+)?", shorter, " ".join(text.split()))


def _picture(href: str) -> str:
    """The same dots, without an alpha channel that is full everywhere, and without a file's own words."""
    kind, _, data = href.partition(",")
    picture: Image.Image = Image.open(io.BytesIO(base64.b64decode(data)))
    if picture.mode == "RGBA" and picture.getchannel("A").getextrema() == (255, 255):
        picture = picture.convert("RGB")
    forms = [picture]
    if picture.mode == "RGB" and picture.getcolors(256) is not None:
        forms.append(picture.quantize(256))  # no colour is lost
    encoded = []
    for form in forms:
        out = io.BytesIO()
        form.save(out, "PNG", optimize=True)
        encoded.append(out.getvalue())
    return f"{kind},{base64.b64encode(min(encoded, key=len)).decode('ascii')}"


def _flatten(element: Element) -> None:
    """Without groups that say nothing and paths that draw nothing."""
    kept: list[Element] = []
    for child in list(element):
        _flatten(child)
        empty = child.tag in ("g", "defs") and not len(child)
        unseen = child.tag == "path" and NOTHING_DRAWN.fullmatch(child.attrib.get("style", ""))
        if empty or unseen:
            continue
        plain = child.tag == "g" and not set(child.attrib) - {"id"}
        marked = child.attrib.get("id", "").startswith(style.MAP)
        kept += list(child) if plain and not marked else [child]
    for child in list(element):
        element.remove(child)
    element.extend(kept)


def _name(root: Element, prefix: str) -> None:
    """Ids that something refers to, heat maps by what they show, and classes for styles that repeat."""
    text = ElementTree.tostring(root, encoding="unicode")
    used = {first or second for first, second in re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text)}
    short = {name: f"{prefix}-{index:x}" for index, name in enumerate(sorted(used))}
    counts = Counter(element.attrib["style"] for element in root.iter() if "style" in element.attrib)
    classes = {
        css: f"{prefix}_{index:x}" for index, css in enumerate(css for css, n in counts.items() if n >= LEAST)
    }
    for element in root.iter():
        name = element.attrib.pop("id", "")
        if name in short:
            element.set("id", short[name])
        elif name.startswith(style.MAP):
            element.set("data-map", name.removeprefix(style.MAP))
        if element.attrib.get("style") in classes:
            element.set("class", classes[element.attrib.pop("style")])
        for key, value in element.attrib.items():
            if key == "href" and value.startswith("#"):
                element.set(key, f"#{short[value[1:]]}")
            elif "url(#" in value:
                element.set(key, re.sub(r"url\(#([^)]+)\)", lambda match: f"url(#{short[match[1]]})", value))
    rules = Element("style")
    rules.text = "".join(
        f".{name}{{{css.replace('; ', ';').replace(': ', ':')}}}" for css, name in classes.items()
    )
    if classes:
        root.insert(0, rules)
