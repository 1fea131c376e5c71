"""Random layouts against naive definitions."""

import pickle
from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import PackedLayout, Part
from shapecheck._draw import plain

NAMES, KINDS = ("text", "video", "audio", "ref"), ("text", "video", "sound")

few = settings(max_examples=50, deadline=None)  # CI machines are shared

sizes = st.integers(0, 6) | st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
parts = st.builds(
    Part, st.sampled_from(NAMES), sizes, kind=st.none() | st.sampled_from(KINDS), tag=st.none() | st.integers(-3, 9)
)
samples = st.lists(st.lists(parts, min_size=1, max_size=5), min_size=1, max_size=4)


@st.composite
def layouts(draw):
    tags = {name: number for number, name in enumerate((*NAMES, *KINDS))}
    chosen = draw(samples)
    options = {"align": draw(st.integers(1, 8)), "padding": draw(st.sampled_from(["segment", "none"]))}
    if draw(st.booleans()):
        used = sum(part.rows for sample in chosen for part in sample)
        options["seq_len"] = (-(-used // options["align"]) + draw(st.integers(0, 2))) * options["align"]
    return PackedLayout.pack(chosen, tags=tags, pad_tag=draw(st.integers(-5, 5)), **options), chosen, tags


@given(layouts())
@few
def test_boundaries(case):
    layout, chosen, _ = case
    ends = [0]
    for sample in chosen:
        ends.append(ends[-1] + sum(part.rows for part in sample))
    assert layout.lengths == tuple(b - a for a, b in pairwise(ends))
    if layout.geometry.padding == "segment":
        ends.append(layout.seq_len)
    assert layout.cu_seqlens.tolist() == list(layout.cu_seqlens_host) == ends
    assert layout.max_seqlen == max(layout.lengths)
    assert layout.seq_len % layout.geometry.align == 0


@given(layouts())
@few
def test_segments_and_positions(case):
    layout, _, _ = case
    rows = torch.arange(layout.seq_len, dtype=torch.int32)
    expected = torch.searchsorted(layout.cu_seqlens[1:].contiguous(), rows, right=True, out_int32=True)
    assert torch.equal(layout.segment_ids, expected)
    positions, last = [], None
    for segment in layout.segment_ids.tolist():
        positions.append(positions[-1] + 1 if segment == last else 0)
        last = segment
    assert layout.position_ids.tolist() == positions


@given(layouts())
@few
def test_tags(case):
    layout, chosen, tags = case
    expected = []
    for sample in chosen:
        for part in sample:
            tag = part.tag if part.tag is not None else tags.get(part.name, tags.get(part.kind))
            expected += [tag] * part.rows
    expected += [layout.geometry.pad_tag] * (layout.seq_len - layout.used)
    assert layout.token_tags.tolist() == expected


@given(layouts())
@few
def test_names_and_kinds_partition_the_used_rows(case):
    layout, chosen, _ = case
    geometry = layout.geometry
    for index in (
        [layout.part_index(name) for name in geometry.names],
        [layout.part_index(kind=kind) for kind in geometry.kinds],
    ):
        assert all(torch.equal(rows, rows.sort().values) for rows in index)
        assert torch.cat(index).sort().values.tolist() == list(range(layout.used))
    assert torch.equal(layout.part_index(*reversed(geometry.names)), torch.arange(layout.used))
    owners = []
    for sample in chosen:
        for part in sample:
            owners += [part] * part.rows
    for name in geometry.names:
        assert layout.part_index(name).tolist() == [row for row, part in enumerate(owners) if part.name == name]


@given(layouts(), st.integers(0, 2))
@few
def test_cat_undoes_split(case, dim):
    layout, _, _ = case
    shape = [2, 2, 2]
    shape[dim] = layout.seq_len
    x = torch.randn(shape)
    packed = layout.cat(layout.split(x, dim), dim, fill=3)
    assert torch.equal(packed.narrow(dim, 0, layout.used), x.narrow(dim, 0, layout.used))
    assert (packed.narrow(dim, layout.used, layout.seq_len - layout.used) == 3).all()


@given(layouts())
@few
def test_cat_of_whole_names_undoes_part_index(case):
    layout, _, _ = case
    x = torch.randn(layout.seq_len, 2)
    x[layout.used :] = 0
    assert torch.equal(layout.cat({name: x[layout.part_index(name)] for name in layout.geometry.names}, dim=0), x)


@given(layouts())
@few
def test_equality_and_hash(case):
    layout, chosen, tags = case
    geometry = layout.geometry
    options = {"align": geometry.align, "padding": geometry.padding, "pad_tag": geometry.pad_tag}
    same = PackedLayout.pack(chosen, tags=tags, seq_len=layout.seq_len, **options)
    assert same == layout
    assert hash(same) == hash(layout)
    assert pickle.loads(pickle.dumps(layout)) == layout
    longer = PackedLayout.pack([*chosen, [Part("text", 1)]], tags=tags, **options)
    assert longer != layout


@given(layouts(), st.integers(20, 100))
@few
def test_the_bar_fits(case, width):
    layout, _, _ = case
    ruler, bar = plain(layout.geometry, width).split("\n")[1:3]
    parts = sum(span.stop > span.start for span in layout.geometry.spans())
    assert len(bar) <= max(width, parts + bar.count("|") + 5)
    assert len(ruler) <= max(len(bar), len(str(layout.seq_len)) + 2)
