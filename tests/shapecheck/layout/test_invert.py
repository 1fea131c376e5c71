"""Layouts from existing metadata, and the refusals."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import LayoutError, PackedLayout, Part

few = settings(max_examples=50, deadline=None)  # CI machines are shared


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9))
@few
def test_cu_seqlens_round_trip(lengths):
    layout = PackedLayout.from_lengths(lengths)
    assert PackedLayout.from_cu_seqlens(layout.cu_seqlens) == layout
    assert PackedLayout.from_cu_seqlens(list(layout.cu_seqlens_host)) == layout


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9))
@few
def test_position_ids_round_trip(lengths):
    layout = PackedLayout.from_lengths(lengths)
    assert PackedLayout.from_position_ids(layout.position_ids) == layout


@given(st.lists(st.integers(0, 6), min_size=1, max_size=9), st.booleans(), st.booleans())
@few
def test_mask_round_trip(lengths, left, integers):
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    mask = mask.flip(1) if left else mask
    assert PackedLayout.from_mask(mask.long() if integers else mask).lengths == tuple(lengths)


def test_nested():
    nested = torch.nested.nested_tensor([torch.ones(3, 2), torch.ones(0, 2), torch.ones(4, 2)], layout=torch.jagged)
    assert PackedLayout.from_nested(nested).cu_seqlens_host == (0, 3, 3, 7)


def part(**changes):
    return {"name": "tokens", "size": 3, "kind": "tokens", "tag": 0, **changes}


def data(**changes):
    return PackedLayout.from_lengths([3]).to_dict() | changes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PackedLayout.from_cu_seqlens([1, 3]), "starts at 1"),
        (lambda: PackedLayout.from_cu_seqlens([0, 3, 2]), r"cu_seqlens\[2\] is 2"),
        (lambda: PackedLayout.from_cu_seqlens([0]), "1 entries"),
        (lambda: PackedLayout.from_cu_seqlens([0.0, 2.0]), "float32"),
        (lambda: PackedLayout.from_position_ids([1, 2]), "starts at 1"),
        (lambda: PackedLayout.from_position_ids([0, 1, 1]), r"position_ids\[2\] is 1, expected 2"),
        (lambda: PackedLayout.from_position_ids(torch.zeros(0, dtype=torch.long)), "empty"),
        (lambda: PackedLayout.from_mask([[1, 0, 1]]), "row 0 is neither"),
        (lambda: PackedLayout.from_mask([[1, 1, 1], [0, 1, 0]]), "row 1 is neither"),
        (lambda: PackedLayout.from_mask([[0.0, -1e9]]), "additive"),
        (lambda: PackedLayout.from_mask([1, 1]), "2-D"),
        (lambda: PackedLayout.from_nested(torch.ones(2)), "nested"),
        (lambda: PackedLayout.from_dict({"samples": []}), "keys"),
        (lambda: PackedLayout.from_dict(data(samples=[])), "at least one sample"),
        (lambda: PackedLayout.from_dict(data(samples=[[]])), "one part in each"),
        (lambda: PackedLayout.from_dict(data(samples=[[{"name": "text"}]])), "malformed"),
        (lambda: PackedLayout.from_dict(data(samples=[[part(tag=1), part(tag=None)]])), "all or none"),
        (lambda: PackedLayout.from_dict(data(seq_len=1)), "seq_len is 1"),
        (lambda: PackedLayout.from_dict(data(segments=[1])), "add up to 1"),
        (lambda: PackedLayout.from_dict(data(segments=3)), "list of integers"),
        (lambda: PackedLayout.from_dict(data(capacity=[3])), "1 entries"),
        (lambda: PackedLayout.from_dict(data(capacity=[0, 3])), "segments is 0"),
    ],
)
def test_what_cannot_be_inverted_is_refused(call, message):
    with pytest.raises(LayoutError, match=message):
        call()


def test_dict_round_trip_through_json():
    layout = PackedLayout.pack(
        [[Part("text", 4, tag=1), Part("ref", (2, 2), "video", 0)], {"text": 0, "video": 6}],
        align=8,
        tags={"text": 1, "video": 0},
    )
    layout, _ = layout.segment_by([3, 1, 10])
    layout = layout.pad_to(rows=32, segments=6, max_seqlen=12)
    assert PackedLayout.from_dict(json.loads(json.dumps(layout.to_dict()))) == layout


def test_dict_of_a_layout_without_tags():
    untagged = PackedLayout.pack({"text": 2, "image": 3})
    text, _ = untagged.stream(kind="text")
    for layout in (untagged, text):
        assert PackedLayout.from_dict(layout.to_dict()) == layout
