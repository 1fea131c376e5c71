import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest
import torch

from shapecheck import LayoutError, PackedLayout, Part

TAGS = {"text": 1, "cond": 0, "video": 0, "audio": 2}


def message(call, *arguments, **options):
    with pytest.raises(LayoutError) as error:
        call(*arguments, **options)
    return str(error.value)


def test_h3_request():
    layout = PackedLayout.pack(
        {"text": 77, "cond": (1, 22, 40), "audio": 126, "video": (16, 22, 40)}, align=64, tags=TAGS
    )
    used = 77 + 880 + 126 + 14080
    assert (layout.used, layout.seq_len, layout.max_seqlen) == (used, 15168, used)
    assert layout.lengths == (used,)
    assert layout.cu_seqlens_host == (0, used, 15168)
    assert layout.cu_seqlens.tolist() == [0, used, 15168]
    expected = torch.cat([torch.full((n,), t) for n, t in ((77, 1), (880, 0), (126, 2), (14080, 0), (5, -1))])
    assert torch.equal(layout.token_tags, expected)
    assert torch.equal(layout.segment_ids, torch.cat([torch.zeros(used), torch.ones(5)]).int())
    assert torch.equal(layout.position_ids, torch.cat([torch.arange(used), torch.arange(5)]))
    assert torch.equal(layout.part_index("audio"), torch.arange(957, 1083))


def test_h3_request_with_reference_blocks():
    """Blocks repeat in request order, audio before video inside a block."""
    layout = PackedLayout.pack(
        [
            Part("text", 77),
            Part("ref", 40, kind="audio"),
            Part("ref", (2, 4, 5), kind="video"),
            Part("ref", (1, 4, 5), kind="video"),
            Part("audio", 126),
            Part("video", (16, 22, 40)),
        ],
        align=64,
        tags=TAGS,
    )
    used = 77 + 40 + 40 + 20 + 126 + 14080
    assert layout.cu_seqlens_host == (0, used, 14400)
    assert layout.max_seqlen == used
    assert layout.part_index("ref").tolist() == [*range(77, 177)]
    assert layout.part_index("ref", kind="audio").tolist() == [*range(77, 117)]
    assert layout.part_index(kind="audio").tolist() == [*range(77, 117), *range(177, 303)]
    assert layout.part_index("video", "text", "ref", kind="video").tolist() == [*range(117, 177), *range(303, used)]
    tags = layout.token_tags
    assert (tags[:77] == 1).all()
    assert (tags[layout.part_index(kind="audio")] == 2).all()
    assert (tags[layout.part_index(kind="video")] == 0).all()
    assert (tags[used:] == -1).all()


def test_h3_request_that_fills_its_alignment_keeps_three_boundaries():
    layout = PackedLayout.pack({"text": 64, "video": (2, 8, 8)}, align=64, tags=TAGS)
    assert layout.cu_seqlens.tolist() == [0, 192, 192]
    assert layout.segment_ids.max() == 0


def test_from_lengths():
    layout = PackedLayout.from_lengths([3, 5])
    assert layout.cu_seqlens.tolist() == [0, 3, 8]
    assert layout.cu_seqlens.dtype == torch.int32
    assert layout.segment_ids.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert layout.position_ids.tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert layout.token_tags.tolist() == [0] * 8
    assert layout.part_index("tokens").tolist() == [*range(8)]
    assert PackedLayout.from_lengths(torch.tensor([3, 5], dtype=torch.int32)) == layout


def test_rows_beyond_the_last_boundary():
    layout = PackedLayout.from_lengths([3, 0, 2], align=8)
    assert layout.cu_seqlens.tolist() == [0, 3, 3, 5]
    assert layout.segment_ids.tolist() == [0, 0, 0, 2, 2, 3, 3, 3]
    assert layout.position_ids.tolist() == [0, 1, 2, 0, 1, 0, 1, 2]
    assert layout.token_tags.tolist() == [0, 0, 0, 0, 0, -1, -1, -1]


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        (
            torch.ones(2, 2, dtype=torch.int32),
            "lengths is a tensor of torch.int32 with shape [2, 2], expected a 1-D integer tensor",
        ),
        (torch.ones(2), "lengths is a tensor of torch.float32 with shape [2], expected a 1-D integer tensor"),
        (
            torch.ones(2, dtype=torch.bool),
            "lengths is a tensor of torch.bool with shape [2], expected a 1-D integer tensor",
        ),
        (
            torch.ones(2, dtype=torch.int32, device="meta"),
            "lengths is on meta, expected a CPU tensor\n"
            "  fix: pass the lengths that the host has; reading them from the device would stall it",
        ),
        (torch.tensor([3, -1]), "lengths[1] is -1, expected 0 or more rows"),
    ],
)
def test_bad_lengths(lengths, text):
    assert message(PackedLayout.from_lengths, lengths) == text


def test_pad_tag_and_padding_options():
    layout = PackedLayout.pack({"a": 3}, align=4, pad_tag=9, padding="none")
    assert layout.token_tags.tolist() == [0, 0, 0, 9]
    assert layout.cu_seqlens.tolist() == [0, 3]


def test_no_tags():
    layout = PackedLayout.pack({"text": 3, "video": 4})
    assert message(lambda: layout.token_tags) == (
        "token_tags: the layout has several kinds of parts and no tags\n"
        "  fix: pass tags={'text': ..., 'video': ...} when packing, with the numbers that the model expects"
    )


def test_every_read_returns_the_same_object():
    layout = PackedLayout.pack([{"text": 3, "video": 4}, {"text": 1}], tags=TAGS)
    for read in (
        lambda: layout.cu_seqlens,
        lambda: layout.token_tags,
        lambda: layout.segment_ids,
        lambda: layout.position_ids,
        lambda: layout.part_index("text"),
        lambda: layout.part_index(kind="video"),
        lambda: layout.part_index("text", kind="text"),
        lambda: layout.part_index("text", "video"),
    ):
        assert read() is read()
    assert layout.part_index("text", "video") is layout.part_index("video", "text", "video")


def test_part_index_is_in_row_order():
    layout = PackedLayout.pack([{"text": 1, "video": 2}, {"audio": 1, "text": 2}])
    assert layout.part_index("video", "text").tolist() == [0, 1, 2, 4, 5]
    assert layout.part_index("audio", "video").tolist() == [1, 2, 3]
    assert layout.part_index("text").tolist() == [0, 4, 5]
    assert PackedLayout.pack({"a": 0, "b": 1}).part_index("a").tolist() == []


@pytest.mark.parametrize(
    ("names", "kind", "text"),
    [
        ((), None, "part_index: expected at least one part name, or kind="),
        (
            ("text", "vdeo"),
            None,
            "part_index: the layout has no part 'vdeo'\n  it has text, ref\n"
            "  fix: pack a part that may be absent with 0 rows",
        ),
        (
            (),
            "ref",
            "part_index: the layout has no kind 'ref'\n  it has text, video\n"
            "  fix: pack a part that may be absent with 0 rows",
        ),
        (("text",), "video", "part_index: no part named 'text' is of kind 'video'"),
    ],
)
def test_bad_part_index(names, kind, text):
    layout = PackedLayout.pack([Part("text", 1), Part("ref", 2, kind="video")])
    assert message(layout.part_index, *names, kind=kind) == text


def test_to():
    layout = PackedLayout.pack({"a": 3})
    assert layout.to("cpu") is layout
    assert layout.to(torch.device("cpu")) is layout
    moved = layout.to("meta")
    assert moved.device == torch.device("meta")
    assert moved.to("meta") is moved
    assert moved.cu_seqlens_host == (0, 3, 3)
    assert moved != layout
    assert hash(moved) != hash(layout)
    assert moved == layout.to("meta")


def test_value_semantics():
    layout = PackedLayout.pack({"text": 3, "video": (2, 2)}, align=4, tags=TAGS)
    same = PackedLayout.pack([Part("text", 3, tag=1), Part("video", (2, 2), tag=0)], align=4)
    assert layout == same
    assert len({layout, same}) == 1
    assert layout != PackedLayout.pack({"text": 3, "video": 4}, align=4, tags=TAGS)
    assert layout != "layout"
    assert PackedLayout.pack(layout.samples, align=4) == layout
    for twin in (copy.copy(layout), copy.deepcopy(layout), pickle.loads(pickle.dumps(layout))):
        assert twin == layout
        assert torch.equal(twin.token_tags, layout.token_tags)
    assert pickle.loads(pickle.dumps(layout.to("meta"))).device.type == "meta"


def test_immutable():
    layout = PackedLayout.pack({"a": 3})
    with pytest.raises(FrozenInstanceError, match=r"^a PackedLayout is immutable, 'seq_len' cannot be assigned$"):
        layout.seq_len = 4
    with pytest.raises(FrozenInstanceError, match=r"^a PackedLayout is immutable, '_used' cannot be deleted$"):
        del layout._used


def test_repr():
    assert repr(PackedLayout.pack({"text": 77, "video": (16, 22, 40)}, align=64)) == (
        "PackedLayout(text 77 + video 14080 = 14157, seq_len=14208, segments=2, max_seqlen=14157, device='cpu')"
    )
    assert repr(PackedLayout.from_lengths([1, 2])) == (
        "PackedLayout(2 samples, tokens 3 = 3, seq_len=3, segments=2, max_seqlen=2, device='cpu')"
    )


def test_seq_len_error_reaches_the_caller():
    assert message(PackedLayout.pack, {"text": 77, "video": 512}, seq_len=512, align=64) == (
        "seq_len is 512, but the parts need 589 rows\n"
        "  text 77 + video 512 = 589\n"
        "  seq_len would be derived as 640, the rows used rounded up to a multiple of 64\n"
        "  fix: leave seq_len out, or compute it again whenever the parts change"
    )
