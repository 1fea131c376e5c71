"""Changed layouts: the new description, and the index that brings tensors along."""

import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter

from shapecheck import LayoutError, PackedLayout, Part

few = settings(max_examples=50, deadline=None)  # CI machines are shared
TAGS = {"text": 1, "image": 0}


def joint():
    return PackedLayout.pack([{"text": 3, "image": (2, 2)}, {"text": 2}, {"image": 5, "text": 1}], align=8, tags=TAGS)


def along(layout, rows, old):
    """Whatever changed, tags follow the rows."""
    tags = layout.take(old.token_tags, rows, 0, fill=-1)
    assert torch.equal(tags, layout.token_tags)
    return layout


def test_select():
    old = joint()
    new, rows = old.select([2, 0])
    along(new, rows, old)
    assert new.lengths == (6, 7)
    assert rows.tolist() == [*range(9, 15), *range(7)]
    assert new.seq_len == 16


def test_stream_keeps_every_sample():
    old = joint()
    new, rows = old.stream(kind="image")
    along(new, rows, old)
    assert new.lengths == (4, 0, 5)
    assert torch.equal(rows, old.part_index(kind="image"))


def test_drop():
    old = joint()
    new, rows = old.drop("image")
    along(new, rows, old)
    assert [[part.name for part in sample] for sample in new.samples] == [["text"]] * 3
    with pytest.raises(LayoutError, match="no part 'audio'"):
        old.drop("audio")
    with pytest.raises(LayoutError, match="no part is left"):
        old.drop("image", kinds=["text"])


def test_truncate():
    old = joint()
    new, rows = old.truncate([5, 9, 0])
    along(new, rows, old)
    assert new.lengths == (5, 2, 0)
    assert new.samples[0][1].size == 2
    total, rows = old.truncate(8)
    assert along(total, rows, old).lengths == (7, 1, 0)


@given(st.lists(st.booleans(), min_size=16, max_size=16))
@few
def test_filter(mask):
    old, _ = joint().segment_by([4, 4, 7])
    new, rows = old.filter(torch.tensor(mask))
    along(new, rows, old)
    assert rows.tolist() == [row for row in range(15) if mask[row]]
    ends = [0, sum(mask[:4]), sum(mask[:8]), sum(mask[:15])]
    assert new.cu_seqlens.tolist() == [*ends, new.seq_len]


def test_concat():
    a, b = joint(), joint().select([1])[0]
    new, rows = PackedLayout.concat([a, b])
    tags = torch.cat([a.token_tags, b.token_tags])
    assert torch.equal(new.take(tags, rows, 0, fill=-1), new.token_tags)
    assert new.lengths == (7, 2, 6, 2)
    with pytest.raises(LayoutError, match="align"):
        PackedLayout.concat([a, PackedLayout.from_lengths([2])])


def test_the_vision_tower():
    # One image of 1 x 4 x 8 patches, merged 2 x 2: eight units of four rows, in windows of 2 x 2 units.
    frames = PackedLayout.pack({"image": (1, 4, 8)}, padding="none")
    order = [0, 1, 4, 5, 2, 3, 6, 7]
    moved, rows = frames.permute(order, unit=4)
    windows, same = moved.segment_by([16, 16])
    assert rows.tolist() == [unit * 4 + i for unit in order for i in range(4)]
    assert same.tolist() == list(range(32))
    assert moved.cu_seqlens.tolist() == [0, 32]
    assert windows.cu_seqlens.tolist() == [0, 16, 32]
    assert windows.max_seqlen == 16
    assert windows.samples == frames.samples  # a grid that stays in one piece is kept
    merged, first = windows.coarsen(4)
    assert merged.cu_seqlens.tolist() == [0, 4, 8]
    assert first.tolist() == list(range(0, 32, 4))
    restored, _ = merged.permute(torch.tensor(order).argsort())
    assert restored.seq_len == 8


def test_permute_tears_parts_apart():
    old = PackedLayout.pack([Part("text", 2, tag=1), Part("image", 2, tag=0)], padding="none")
    new, rows = old.permute([0, 2, 1, 3])
    along(new, rows, old)
    assert [part.name for part in new.samples[0]] == ["text", "image", "text", "image"]


@given(st.permutations(range(7)), st.integers(1, 2))
@few
def test_permute_within_a_sample(order, unit):
    sample = [Part("text", 2 * unit), Part("none", 0), Part("image", 3 * unit), Part("text", 2 * unit)]
    tags = {"text": 1, "none": 2, "image": 0}
    old = PackedLayout.pack([sample, [Part("text", unit)]], align=8, tags=tags)
    new, rows = old.permute(torch.tensor([*order, 7]), unit=unit)
    along(new, rows, old)
    assert rows.tolist() == [block * unit + i for block in (*order, 7) for i in range(unit)]
    assert new.lengths == old.lengths
    assert new.geometry.names.count("none") == 1
    if order == sorted(order):
        assert new == old


def test_permute_wants_the_host():
    with pytest.raises(LayoutError, match="on meta, expected a 1-D integer CPU tensor"):
        joint().permute(torch.arange(15, device="meta"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.permute([0, 0]), "no permutation"),
        (lambda x: x.permute([*range(14), 0][::-1]), "no permutation"),
        (lambda x: x.permute([14, *range(1, 14), 0]), "of sample"),
        (lambda x: x.permute([0, 1], unit=4), "divisor"),
        (lambda x: x.coarsen(2), "expected a multiple of 2"),
        (lambda x: x.segment_by([4, 4]), "add up to 8"),
        (lambda x: x.segment_by([16, -1]), "0 or more"),
        (lambda x: x.select([]), "no sample"),
        (lambda x: x.select([3]), "no sample 3"),
        (lambda x: x.segment_by([8, 7])[0].select([0]), "beyond the end of sample 0"),
        (lambda x: x.truncate([1]), "1 limits"),
        (lambda x: x.filter([True]), "1 entries"),
        (lambda x: x.stream(kind="audio"), "no kind 'audio'"),
        (lambda x: x.pad_to(rows=8, segments=9), "need 15"),
        (lambda x: x.pad_to(rows=24, segments=3), "the layout has 4"),
        (lambda x: x.pad_to(rows=24, segments=9, max_seqlen=3), "longest"),
        (lambda x: x.take(torch.ones(16), torch.arange(3), 0), "rows used"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(LayoutError, match=message):
        call(joint())


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(-7, 7))
@few
def test_shift_stays_inside_segments(lengths, offset):
    layout = PackedLayout.from_lengths(lengths)
    x = torch.arange(layout.seq_len)
    expected = []
    for sample in x.split(list(lengths)):
        own = sample.tolist()
        expected += [own[i - offset] if 0 <= i - offset < len(own) else -100 for i in range(len(own))]
    assert layout.shift(x, offset, -100).tolist() == expected


def test_shift_and_take_compile():
    torch._dynamo.reset()
    old = joint()
    new, rows = old.select([2, 0])

    def step(x, old, new, rows):
        return new.take(old.shift(x, -1, -100), rows, 0, fill=-100)

    x = torch.arange(16)
    got = torch.compile(step, backend="eager", fullgraph=True)(x, old, new, rows)
    assert torch.equal(got, step(x, old, new, rows))


def test_one_capacity_is_one_graph():
    torch._dynamo.reset()
    counter = CompileCounter()

    @torch.compile(backend=counter, fullgraph=True)
    def step(x, layout):
        return x[layout.cu_seqlens[:-1].long().clamp(max=63)] * layout.max_seqlen + layout.token_tags.sum()

    static = PackedLayout.from_lengths([1]).pad_to(rows=64, segments=8, max_seqlen=32)
    buffers = static.buffers()
    for lengths in ([5], [3, 9], [1, 2, 3], [32], [7] * 8, [0, 4], [20, 30]):
        layout = PackedLayout.from_lengths(lengths).pad_to(rows=64, segments=8, max_seqlen=32)
        assert layout.cu_seqlens_host[len(lengths) :] == (sum(lengths),) * (9 - len(lengths))
        step(torch.ones(64), layout)
        layout.copy_into(buffers)
        assert torch.equal(buffers["cu_seqlens"], layout.cu_seqlens)
        assert torch.equal(buffers["segment_ids"], layout.segment_ids)
    assert counter.frame_count == 1
    with pytest.raises(LayoutError, match="one capacity"):
        PackedLayout.from_lengths([4]).copy_into(buffers)


def test_reads_for_mamba_and_ascend():
    layout = PackedLayout.from_lengths([2, 3])
    assert layout.seq_idx.tolist() == [[0, 0, 1, 1, 1]]
    assert layout.seq_idx.dtype == torch.int32
    assert layout.seq_idx is layout.seq_idx
    assert layout.npu_ends == (2, 5)


@pytest.mark.slow
def test_many_segments_are_quick():
    lengths = [i * 7 % 13 + 1 for i in range(100_000)]
    start = time.process_time()
    layout = PackedLayout.from_lengths(lengths)
    assert PackedLayout.from_cu_seqlens(layout.cu_seqlens) == layout
    for new, rows in (
        layout.truncate([3] * 100_000),
        layout.filter([True, False] * (layout.used // 2) + [True] * (layout.used % 2)),
        layout.segment_by(lengths[::-1]),
        layout.select(range(0, 100_000, 2)),
        layout.permute(range(layout.used)),
    ):
        assert new.used == len(rows)
    assert time.process_time() - start < 120  # a few seconds on an idle core; quadratic code would take hours
