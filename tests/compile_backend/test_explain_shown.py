import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
import torch
from rich.console import Console
from shapecheck.compile_backend.boundaries import read_boundaries
from shapecheck.compile_backend.explanation import Break, ExplainedSite, Explanation
from shapecheck.compile_backend.report import Obligation, Report, Site, Sizes
from shapecheck.compile_backend.show import drawing, table, words
from shapecheck.compile_backend.show.groups import groups

SORTED = Obligation("tags never decrease", "proved", "searchsorted of arange(1000) in sorted boundaries")
ENDS = Obligation("the last boundary is 1000", "checked", "in every call, else the attention runs as it is written")
BATCH = Obligation("batch is 1", "guarded", "q.shape[0] == 1")
LEAK = Obligation("masked scores vanish", "refused", "the fill -20.0 leaks")
STREAM = Obligation("q and k share their boundaries", "contradicted", "cu_text and cu_video")

SHAPE = "[1, 2, 1000, 8]"
LOWERED = Site(
    name="attn", form="sdpa", location="model.py:42", q=SHAPE, k=SHAPE, v=SHAPE, dtype="float32", device="cpu",
    mask="equal ids from searchsorted", obligations=(SORTED, ENDS, BATCH), lowered=True, kernel="cpu: segments",
    sizes=Sizes(batch=1, heads_q=2, heads_k=2, rows_q=1000, rows_k=1000, head_dim=8, head_dim_v=8, itemsize=4),
    boundaries="cu",
)  # fmt: skip
LEFT = replace(
    LOWERED, name="softmax", form="softmax", lowered=False, kernel="", reason="the fill leaks", boundaries="",
    obligations=(LEAK, STREAM), location="eager.py:7",
)  # fmt: skip


def boundaries(*lengths, rows=1000, causal=False, window=(-1, -1), keys=None):
    cu_q, cu_k = (torch.tensor([0, *counts]).cumsum(0) for counts in (lengths, keys or lengths))
    return read_boundaries(rows, rows if keys is None else sum(keys), cu_q, cu_k, causal, window)


HALVES = boundaries(500, 500)


def explanation(*sites, **fields):
    reports = fields.pop("reports", (Report([one.site for one in sites], seconds=0.0124),))
    return Explanation(reports=reports, sites=sites, **fields)


def everything():
    layers = [ExplainedSite(1, replace(LOWERED, name=f"attn_{i}"), (HALVES,)) for i in range(32)]
    failed = Report(failure="RuntimeError: no rule for aten.odd", seconds=0.001)
    left = ExplainedSite(2, LEFT)
    return explanation(
        *layers,
        left,
        reports=(Report([one.site for one in layers], seconds=0.01), Report([LEFT], seconds=0.002), failed),
        breaks=(Break("Call to print\n  Hint: remove it", "loop.py:9"),),
        skipped=2,
    )


class TestWork:
    def test_flops_are_those_of_the_visible_pairs(self):
        work = ExplainedSite(1, LOWERED, (HALVES,)).work
        assert work.flops_dense == 4 * 1000 * 1000 * 8 * 2
        assert work.flops == work.flops_dense // 2
        assert (work.mask_bytes, work.scores_bytes) == (1_000_000, 0)

    def test_causal_counts_the_triangles(self):
        work = ExplainedSite(1, LOWERED, (boundaries(500, 500, causal=True),)).work
        assert work.flops == 4 * 8 * 2 * (2 * 500 * 501 // 2)

    def test_explicit_scores_are_counted(self):
        assert ExplainedSite(1, LEFT).work.scores_bytes == 2 * 1000 * 1000 * 4

    def test_flex_attention_builds_neither_mask_nor_all_scores(self):
        work = ExplainedSite(1, replace(LOWERED, form="flex_attention"), (HALVES,)).work
        assert (work.flops_dense, work.mask_bytes, work.scores_bytes) == (None, 0, 0)
        assert work.flops

    def test_unknown_sizes(self):
        work = ExplainedSite(1, replace(LOWERED, sizes=None), (HALVES,)).work
        assert (work.flops_dense, work.flops, work.mask_bytes) == (None, None, 0)

    def test_a_shared_mask_is_saved_once_and_each_call_counts(self):
        twice = (HALVES, boundaries(1000))
        found = explanation(*(ExplainedSite(1, replace(LOWERED, name=name), twice) for name in "ab"))
        assert found.saved_bytes() == 1_000_000
        assert found.saved_flops() == (4 * 64_000_000, 3 * 64_000_000)

    def test_what_was_left_saves_nothing(self):
        found = explanation(ExplainedSite(1, LEFT))
        assert (found.saved_bytes(), found.saved_flops()) == (0, (0, 0))


class TestGroups:
    def test_equal_layers_are_one_group(self):
        assert [group.label for group in groups(everything().sites)] == ["1-32", "33"]

    def test_other_boundaries_are_another_group(self):
        sites = [ExplainedSite(1, LOWERED, (seen,)) for seen in (HALVES, boundaries(1000), boundaries(500, 500))]
        assert [group.label for group in groups(sites)] == ["1, 3", "2"]

    @pytest.mark.parametrize("change", [{"q": "[2]"}, {"reason": "x"}, {"obligations": (SORTED,)}, {"window": (3, -1)}])
    def test_any_difference_that_is_shown_separates(self, change):
        assert len(groups([ExplainedSite(1, LOWERED), ExplainedSite(1, replace(LOWERED, **change))])) == 2


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1.00 kB"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (4.5e12, "4.50 TB"),
        (2e22, "20,000 EB"),
    ],
)
def test_scaled(number, text):
    assert words.scaled(number, "B") == text


class TestText:
    def test_all_that_is_known_is_said(self):
        lines = str(everything()).split("\n")
        assert lines[0] == (
            "shapecheck: 32 of 33 attentions lowered, 3 graphs, 1 graph break, 2 functions not captured, analysed in 13 ms"
        )
        assert lines[1] == ("2.05 GFLOP -> 1.02 GFLOP (2 times less) forward, 1 MB of masks and scores not allocated")
        assert re.fullmatch(r"1-32 +1 +sdpa +model.py:42 +\[1, 2, 1000, 8\] +2 times less +lowered", lines[4])
        assert re.fullmatch(r"33 +2 +softmax +eager.py:7 +\[1, 2, 1000, 8\] +left as it is", lines[5])
        for line in (
            "1-32  sdpa float32 on cpu: attn_0, attn_1, attn_2 and 29 more",
            "  kernel       cpu: segments",
            "  mask         equal ids from searchsorted",
            "  shapes       q [1, 2, 1000, 8], k [1, 2, 1000, 8], v [1, 2, 1000, 8]",
            "  packing      2 segments, longest 500 rows",
            "  forward      64 MFLOP -> 32 MFLOP (2 times less)",
            "  saves        mask 1 MB",
            "  proved       tags never decrease: searchsorted of arange(1000) in sorted boundaries",
            "  checked      the last boundary is 1000: in every call, else the attention runs as it is written",
            "  guarded      batch is 1: q.shape[0] == 1",
            "  left         the fill leaks",
            "  refused      masked scores vanish: the fill -20.0 leaks",
            "  contradicted q and k share their boundaries: cu_text and cu_video",
            "  graph 3      RuntimeError: no rule for aten.odd",
            "  loop.py:9    Call to print",
            "                 Hint: remove it",
            "2 functions not captured: TORCH_LOGS=graph_breaks tells why",
        ):
            assert line in lines, line

    def test_nothing_found(self):
        assert str(explanation()) == "shapecheck: no attention found, 1 graph, 0 graph breaks, analysed in 12 ms"

    def test_calls_with_different_boundaries(self):
        text = str(explanation(ExplainedSite(1, LOWERED, (HALVES, boundaries(900, 40), HALVES))))
        assert "  ran          3 times, with 2 different boundaries, these first\n" in text

    def test_rows_outside_the_segments_and_cross_attention(self):
        seen = boundaries(300, 400, keys=(10, 20))
        text = str(explanation(ExplainedSite(1, replace(LOWERED, causal=True, window=(128, -1)), (seen,))))
        assert "2 segments, longest 400 queries and 20 keys, 300 query and 0 key rows outside them\n" in text
        assert "equal ids from searchsorted, causal, window of 128 rows to the left\n" in text

    @pytest.mark.parametrize("width", [40, 60, 87, 88, 100, 200])
    def test_no_line_is_too_long_and_nothing_is_cut(self, width):
        text = table._render(table.parts(everything()), width, colour=False)
        assert max(map(len, text.split("\n"))) <= width
        squeezed = re.sub(r"\s", "", text)
        for part in (
            SORTED.detail,
            ENDS.detail,
            STREAM.detail,
            SHAPE,
            "model.py:42",
            "Hint: remove it",
            "cpu: segments",
        ):
            assert re.sub(r"\s", "", part) in squeezed
        assert "…" not in text

    def test_text_from_the_program_cannot_steer_the_terminal(self):
        site = replace(LOWERED, mask="\x1b[31mred\nü[bold]x", location="C:\\new\\tab.py:1")
        text = str(explanation(ExplainedSite(1, site)))
        assert text.isascii()
        assert "\x1b" not in text
        assert r"\x1b[31mred" in text
        assert r"\xfc[bold]x" in text
        assert "C:\\new\\tab.py:1" in text

    def test_colour_only_on_a_terminal(self, monkeypatch):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "60")
        plain = str(everything())
        monkeypatch.setattr(sys, "stdout", Terminal())
        coloured = str(everything())
        assert "\x1b" not in plain
        assert "\x1b[32mproved" in coloured
        assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in coloured.split("\n")) <= 60
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in str(everything())

    def test_rich_prints_it(self):
        console = Console(file=io.StringIO(), width=100)
        console.print(everything())
        assert "32 of 33 attentions lowered" in console.file.getvalue()


class _Checker(HTMLParser):
    """Elements that stay open or close out of turn, ids, and addresses of anything that would be loaded."""

    VOID = {"meta", "br"}  # noqa: RUF012
    CLOSED = {"path", "rect"}  # noqa: RUF012

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.stack, self.ids, self.text, self.tags = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in self.CLOSED
        self.handle_starttag(tag, attrs)
        self.stack.pop()

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


class TestPage:
    def test_a_complete_page_that_loads_nothing(self):
        text = everything().to_html()
        checker = _Checker(text)
        assert checker.stack == []
        assert len(checker.ids) == len(set(checker.ids))
        assert text.startswith("<!DOCTYPE html>")
        assert not re.search(r"https?:|@import|url\((?!#)|<script|<link|<img|<iframe", text)
        assert not {name for _, attrs in checker.tags for name in attrs} & {"src", "href", "srcset"}
        assert "prefers-color-scheme: dark" in text
        assert "width=device-width" in text

    def test_it_says_what_the_text_says(self):
        said = " ".join("".join(_Checker(everything().to_html()).text).split())
        for part in ("32 of 33 attentions lowered", SORTED.name, SORTED.detail, LEAK.detail, "contradicted", SHAPE):
            assert part in said
        for part in ("cpu: segments", "attn_31", "no rule for aten.odd", "loop.py:9", "the fill leaks", "2 times less"):
            assert part in said

    def test_pictures_are_named(self):
        checker = _Checker(everything().to_html())
        (svg,) = [attrs for tag, attrs in checker.tags if tag == "svg"]
        assert svg["role"] == "img"
        assert {svg["aria-labelledby"], svg["aria-describedby"]} <= set(checker.ids)

    def test_text_from_the_program_is_text(self):
        evil = "</main><script>alert('&\"')</script>\x00\x1b"
        site = replace(
            LOWERED, name=evil, form=evil, location=evil, q=evil, k=evil, v=evil, dtype=evil, device=evil, mask=evil,
            kernel=evil, obligations=(Obligation(evil, "proved", evil),), boundaries=evil,
        )  # fmt: skip
        left = replace(site, lowered=False, reason=evil)
        found = explanation(
            ExplainedSite(1, site, (HALVES,)),
            ExplainedSite(1, left),
            reports=(Report([site, left], failure=evil),),
            breaks=(Break(evil, evil),),
        )
        text = found.to_html()
        assert "<script" not in text
        assert "\x00" not in text
        assert "\x1b" not in text
        assert _Checker(text).stack == []

    def test_written_to_a_file(self, tmp_path):
        found = explanation(ExplainedSite(1, replace(LOWERED, mask="ü"), (HALVES,)))
        text = found.to_html(tmp_path / "page.html")
        assert "ü" in text
        assert (tmp_path / "page.html").read_text(encoding="utf-8") == text

    def test_two_in_one_notebook(self):
        joined = everything()._repr_html_() + everything()._repr_html_()
        assert "<html" not in joined
        ids = _Checker(joined).ids
        assert len(ids) == len(set(ids))
        style = re.search(r"<style>(.*?)</style>", joined, re.DOTALL)[1]
        rules = re.sub(r"@media [^{]*\{", "", style)
        selectors = [part for rule in re.findall(r"([^{}]+)\{", rules) for part in rule.split(",")]
        assert all(one.strip().startswith(".shapecheck") for one in selectors)

    def test_nothing_found(self):
        assert _Checker(explanation().to_html()).stack == []


def shapes(seen):
    svg, note = drawing.drawing(seen, "title", "description", "key")
    paths = re.findall(r'<path class="block ([^"]*)" d="M([^"]*)Z"', svg)
    rows = 480 / max(seen.rows_q, seen.rows_k, 1)
    polygons = [
        (style, [tuple(float(n) / rows for n in point.split()) for point in path.split("L")]) for style, path in paths
    ]
    return svg, note, polygons


def area(polygon):
    corners = [*polygon, polygon[0]]
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(corners))) / 2


class TestDrawing:
    def test_blocks_to_scale(self):
        _, note, polygons = shapes(boundaries(300, 200, 0, 500))
        assert note == ""
        assert [round(area(points)) for _, points in polygons] == [90_000, 40_000, 250_000]
        assert polygons[1][1][0] == pytest.approx((500, 300))  # right upper corner of the second: keys, queries

    @pytest.mark.parametrize("window", [(-1, -1), (50, -1), (0, -1)])
    def test_causal_triangles_and_bands(self, window):
        seen = boundaries(400, 600, causal=True, window=window)
        _, _, polygons = shapes(seen)
        # The edge is drawn at the beginning of each row: half a pair less for each row at either slanting side.
        assert sum(area(points) for _, points in polygons) == pytest.approx(seen.pairs, abs=1000)

    def test_a_band_to_both_sides(self):
        seen = boundaries(400, 600, window=(30, 70))
        assert sum(area(points) for _, points in shapes(seen)[2]) == pytest.approx(seen.pairs, abs=1000)

    def test_queries_that_see_nothing(self):
        seen = boundaries(400, 600, keys=(0, 300))
        _, _, polygons = shapes(seen)
        assert [round(area(points)) for _, points in polygons] == [600 * 300]

    @pytest.mark.parametrize(
        "lengths",
        [[1] * 1000, [300, *[1] * 700], [*[1] * 350, 300, *[1] * 350], [2] * 257 + [1] * 486, [3, 1] * 250],
    )
    def test_many_segments_are_merged(self, lengths):
        seen = boundaries(*lengths)
        _, note, polygons = shapes(seen)
        assert 100 <= len(polygons) <= drawing.MAX_BLOCKS
        assert re.fullmatch(r"[\d,]+ short segments are drawn as \d+ blocks\.", note)
        merged = [points for style, points in polygons if style == "merged"]
        assert f"as {len(merged)} blocks" in note
        assert min(y for _, points in polygons for _, y in points) == 0
        assert max(y for _, points in polygons for _, y in points) == pytest.approx(1000, abs=0.1)
        if 300 in lengths:
            assert any(
                area(points) == pytest.approx(90_000, rel=1e-3) for style, points in polygons if style != "merged"
            )

    def test_256_are_not(self):
        _, note, polygons = shapes(boundaries(*[3] * 256, rows=768))
        assert (note, len(polygons)) == ("", 256)

    def test_padding_is_hatched(self):
        assert shapes(boundaries(500, 400))[0].count("url(#key-hatch)") == 2
        assert shapes(boundaries(500, 500))[0].count("url(#key-hatch)") == 0

    def test_picked_rows_give_ragged_edges(self):
        order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
        cu = torch.tensor([0, 4, 8])
        seen = read_boundaries(8, 8, cu, cu, True, (2, -1), order, order)
        assert seen.pairs == 2 * (1 + 2 + 2 + 2)
        assert len(shapes(seen)[2]) == 2

    def test_no_rows_at_all(self):
        cu = torch.tensor([0, 0])
        assert shapes(read_boundaries(0, 0, cu, cu, False, (-1, -1)))[2] == []


def test_json():
    found = everything()
    read = json.loads(json.dumps(found.to_dict()))
    assert read["graphs"][2]["failure"] == "RuntimeError: no rule for aten.odd"
    assert (len(read["sites"]), read["skipped"], read["breaks"][0]["location"]) == (33, 2, "loop.py:9")
    first = read["sites"][0]
    assert first["observed"] == [
        {"cu_seqlens_q": [0, 500, 1000], "cu_seqlens_k": [0, 500, 1000], "segments": 2, "longest": [500, 500],
         "pairs": 500_000, "ordered": False}
    ]  # fmt: skip
    assert first["obligations"][1] == {"name": ENDS.name, "status": "checked", "detail": ENDS.detail}
    assert read["saved"]["flops_dense"] == 32 * first["work"]["flops_dense"]
