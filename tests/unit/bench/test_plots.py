"""Plots of benchmarks, drawn from the committed raw results: read without colours, with their finding as the title."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from scripts.bench_pages import BLOCKS, RESULTS
from tests.bench.drawing import COLOURS, bar, line, picture, ticks

DRAWN = [block for block in BLOCKS if block.plot]


def parts(svg: str, name: str) -> list[dict[str, str]]:
    return [element.attrib for element in ElementTree.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{name}")]


def shown(block) -> str:
    return block.plot[1](json.loads((RESULTS / block.results).read_text(encoding="utf-8")))


@pytest.mark.parametrize("block", DRAWN, ids=lambda block: block.name)
def test_lines_of_different_colours_have_different_dashes(block):
    looks = {(one["stroke"], one.get("stroke-dasharray", "")) for one in parts(shown(block), "polyline")}
    assert len({dashes for _colour, dashes in looks}) == len({colour for colour, _dashes in looks}) == len(looks)


@pytest.mark.parametrize("block", DRAWN, ids=lambda block: block.name)
def test_each_panel_has_its_finding_as_the_title(block):
    texts = ElementTree.fromstring(shown(block)).iter("{http://www.w3.org/2000/svg}text")
    titles = [text.text or "" for text in texts if text.get("font-weight") == "bold"]
    assert titles
    assert any(letter.isdigit() for letter in titles[0])


@pytest.mark.parametrize("block", DRAWN, ids=lambda block: block.name)
def test_what_is_drawn_is_within_the_picture(block):
    svg = shown(block)
    width = float(ElementTree.fromstring(svg).attrib["viewBox"].split()[2])
    for one in parts(svg, "rect"):
        assert 0 <= float(one.get("x", 0)) <= float(one.get("x", 0)) + float(one["width"]) <= width
    for one in parts(svg, "polyline"):
        assert all(0 <= float(point.split(",")[0]) <= width for point in one["points"].split())


def test_each_series_has_a_pattern_and_dashes_of_its_own():
    svg = picture(10, 10, [line([(0, 0), (1, 1)], number) for number in range(len(COLOURS))], description="x")
    assert len({one.get("stroke-dasharray", "") for one in parts(svg, "polyline")}) == len(COLOURS)
    hatches = [one["d"] for one in parts(svg, "path")]
    assert len(set(hatches)) == len(hatches) == len(COLOURS)
    assert "url(#p3)" in bar(0, 0, 1, 1, 3)


@pytest.mark.parametrize(
    ("most", "found"), [(0, [0]), (2.9, [0, 0.5, 1, 1.5, 2, 2.5]), (50000, [0, 10000, 20000, 30000, 40000, 50000])]
)
def test_an_axis_begins_at_0_and_has_round_numbers(most, found):
    assert ticks(most) == found
