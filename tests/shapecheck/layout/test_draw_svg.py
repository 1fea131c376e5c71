"""The picture as SVG."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import PackedLayout, Part
from shapecheck._draw_svg import svg
from shapecheck._layout import Geometry

SVG = "{http://www.w3.org/2000/svg}"


def drawn(layout):
    root = ET.fromstring(layout.to_svg())
    rectangles = [{key: float(r.get(key)) for key in ("x", "width")} for r in root.iter(f"{SVG}rect")]
    return root, rectangles, [t.text for t in root.iter(f"{SVG}title")], [t.text for t in root.iter(f"{SVG}text")]


def test_parts_boundaries_and_padding():
    layout = PackedLayout.pack({"text": 77, "video": (16, 22, 40)}, align=64, tags={"text": 1, "video": 0})
    _, rectangles, tooltips, labels = drawn(layout)
    assert tooltips == [
        "text: 77 rows [0, 77), tag 1",
        "video 16x22x40: 14,080 rows [77, 14157), tag 0",
        "padding: 51 rows [14157, 14208), tag -1",
    ]
    assert sum(r["width"] for r in rectangles) == 760
    assert rectangles[1]["width"] > 700
    assert "video" in labels
    assert {"0", "14157"} <= set(labels)
    assert layout._repr_html_() == layout.to_svg()


def test_boundaries_are_those_of_the_segments():
    layout, _ = PackedLayout.pack({"image": 40}, padding="none").segment_by([10, 30])
    root, rectangles, _, labels = drawn(layout)
    lines = [float(p.get("d").split()[0][1:]) for p in root.iter(f"{SVG}path")]
    start, width = rectangles[0]["x"], rectangles[0]["width"]
    assert lines == [start, start + width / 4, start + width]
    assert {"0", "10", "40"} <= set(labels)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", 'a"b', "a&b", "\x00\x1b[2J", "\ud800"])
def test_names_cannot_break_out(name):
    layout = PackedLayout.pack([Part(name, 5, kind=name)])
    root, _, tooltips, _ = drawn(layout)
    assert not list(root.iter(f"{SVG}script"))
    assert tooltips[0].startswith("".join(c if c.isprintable() else ascii(c)[1:-1] for c in name))
    layout.to_svg().encode()


@pytest.mark.parametrize("padding", ["segment", "none"])
def test_zero_rows(padding):
    _, rectangles, _, _ = drawn(PackedLayout.pack({"text": 0}, padding=padding))
    assert [r["width"] for r in rectangles] == [0]


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=3), min_size=1, max_size=60), st.integers(1, 4096))
@settings(max_examples=50, deadline=None)
def test_bounded_and_inside(samples, align):
    geometry = Geometry.pack([[Part(f"p{i}", rows) for i, rows in enumerate(s)] for s in samples], align=align)
    root = ET.fromstring(svg(geometry))
    edge = 10.0
    for rectangle in root.iter(f"{SVG}rect"):
        assert float(rectangle.get("x")) >= edge
        edge = float(rectangle.get("x")) + float(rectangle.get("width"))
    assert edge <= 770
    assert all(10 <= float(p.get("d").split()[0][1:]) <= 770 for p in root.iter(f"{SVG}path"))
    assert len(list(root.iter())) < 300
