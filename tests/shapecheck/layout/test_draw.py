import io
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import PackedLayout, Part
from shapecheck._draw import letters, picture, plain, scale
from shapecheck._layout import Geometry

REQUEST = {"text": 77, "video": (16, 22, 40), "audio": 126}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_request():
    geometry = Geometry.pack(REQUEST, align=64, tags={"text": 1, "video": 0, "audio": 2})
    bar = "|t" + "v" * 74 + "a|.|"
    assert plain(geometry).split("\n") == [
        "14,336 rows = 14,283 used + 53 padding (align 64), 1 sample, 2 segments, longest 14,283",
        "0" + " " * 68 + "14283 14336",
        bar,
        "  t text                   77 rows  [0, 77)         tag 1",
        "  v video    16x22x40  14,080 rows  [77, 14157)     tag 0",
        "  a audio                 126 rows  [14157, 14283)  tag 2",
        "  . padding                53 rows  [14283, 14336)  tag -1",
    ]
    assert len(bar) == 80


def test_kinds_and_no_tags():
    assert plain(Geometry.pack([Part("a", 1), Part("ref", (1, 3), kind="image")]), width=20).split("\n") == [
        "4 rows = 4 used + 0 padding (align 1), 1 sample, 2 segments, longest 4",
        "0                  4",
        "|aaaarrrrrrrrrrrrr||",
        "  a a                   1 row  [0, 1)",
        "  r ref  (image)  1x3  3 rows  [1, 4)",
    ]


def test_an_empty_segment_is_two_marks():
    assert plain(Geometry.from_lengths([4, 0, 4]), width=20).split("\n")[1:3] == [
        "0         4        8",
        "|tttttttt||tttttttt|",
    ]


def test_tail_rows_have_no_closing_mark():
    bar = plain(Geometry.from_lengths([4], align=8), width=20).split("\n")[2]
    assert bar == "|ttttttttt|........."


def test_thousands_of_samples_stay_bounded():
    lines = plain(Geometry.from_lengths([3] * 100_000)).split("\n")
    assert len(lines) == 14
    assert "  ... 99,990 more, 299,970 rows" in lines
    assert " ... |" in lines[2]
    assert len(lines[1]) == len(lines[2]) == 80


def test_many_parts_in_one_sample_stay_bounded():
    lines = plain(Geometry.pack([Part("ref", 2) for _ in range(500)], align=64)).split("\n")
    assert "  ... 490 more, 980 rows" in lines
    assert lines[-1].startswith("  . padding")


def test_plain_is_ascii_whatever_the_names():
    text = plain(Geometry.pack({"vidéo\n\x1b[31m": 3, "音声": 4}))
    assert text.isascii()
    assert "\x1b" not in text
    assert "  v vid\\xe9o\\n\\x1b[31m" in text


def test_all_empty():
    assert plain(Geometry.pack({"a": 0}), width=20).split("\n")[1:3] == ["0", "|||"]


def test_plain_when_piped(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    layout = PackedLayout.pack(REQUEST, align=64)
    assert str(layout) == format(layout) == plain(layout.geometry)
    assert f"{layout:.6}" == "14,336"


def test_ascii_stdout(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    print(PackedLayout.pack({"text": 3, "é": 4}, align=4))
    sys.stdout.flush()
    assert raw.getvalue().startswith(b"8 rows = 7 used")


@pytest.fixture
def terminal(monkeypatch):
    """Call it in the test: between set-up and test pytest puts its own stdout back."""

    def install():
        monkeypatch.setattr(sys, "stdout", Terminal())

    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    return install


def strip(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_coloured_on_a_terminal(terminal):
    terminal()
    geometry = Geometry.pack(REQUEST, align=64)
    text = picture(geometry)
    assert "\x1b[" in text
    assert [line.rstrip() for line in strip(text).split("\n")] == plain(geometry, width=60).split("\n")
    assert "\x1b[" not in format(PackedLayout.pack(REQUEST))


def test_wide_terminals_get_100_columns(terminal, monkeypatch):
    terminal()
    monkeypatch.setenv("COLUMNS", "300")
    assert len(strip(picture(Geometry.pack(REQUEST))).split("\n")[2]) == 100


def test_no_color(terminal, monkeypatch):
    terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in picture(Geometry.pack(REQUEST))


def test_force_color(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in picture(Geometry.pack(REQUEST))


def test_rich_may_be_absent(terminal, monkeypatch):
    terminal()
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert picture(Geometry.pack(REQUEST)) == plain(Geometry.pack(REQUEST), width=60)


@pytest.mark.parametrize(
    ("sizes", "width", "cells"),
    [
        ([], 10, []),
        ([0, 0], 10, [0, 0]),
        ([1], 10, [10]),
        ([1, 1], 5, [3, 2]),
        ([1, 1000], 10, [1, 9]),
        ([1, 1, 1000], 10, [1, 1, 8]),
        ([77, 14080, 126, 53], 76, [1, 73, 1, 1]),
        ([5, 0, 5], 4, [2, 0, 2]),
        ([1, 1, 1], 2, [1, 1, 1]),
    ],
)
def test_scale(sizes, width, cells):
    assert scale(sizes, width) == cells


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=30), st.integers(0, 120))
def test_scale_fills_the_width(sizes, width):
    cells = scale(sizes, width)
    filled = [cell for size, cell in zip(sizes, cells, strict=True) if size]
    assert all(cell >= 1 for cell in filled)
    assert all(cell == 0 for size, cell in zip(sizes, cells, strict=True) if not size)
    assert sum(cells) == (max(width, len(filled)) if filled else 0)
    # A larger size never gets fewer cells.
    by_size = [cell for _, cell in sorted(zip(sizes, cells, strict=True))]
    assert by_size == sorted(by_size)


def test_letters():
    assert letters(["text", "video", "audio"]) == {"text": "t", "video": "v", "audio": "a"}
    assert letters(["text", "tags", "tt"]) == {"text": "t", "tags": "a", "tt": "T"}
    assert letters(["音", "é"]) == {"音": "0", "é": "1"}
    many = letters(f"p{i}" for i in range(70))
    assert len(set(many.values()) - {"#"}) == 62
    assert {".", "|"}.isdisjoint(many.values())
