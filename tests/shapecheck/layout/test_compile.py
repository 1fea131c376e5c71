"""A layout as an argument of compiled code: no breaks, no more graphs than raw tensors and ints, errors that arrive."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters

from shapecheck import LayoutError, PackedLayout

TAGS = {"text": 1, "video": 0, "audio": 2}
SIZES = [(7, 20, 12), (9, 41, 30), (77, 100, 50), (13, 60, 40), (25, 31, 19)]

each_dynamic = pytest.mark.parametrize("dynamic", [None, True, False])
each_backend = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def pack(text, video, audio):
    return PackedLayout.pack({"text": text, "video": (2, video, 3), "audio": audio}, align=64, tags=TAGS)


def compiled(function, backend, dynamic):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    return torch.compile(function, backend=counter, fullgraph=True, dynamic=dynamic), counter


def reads(x, layout):
    meta = layout.token_tags + layout.segment_ids + layout.position_ids
    x = (x + meta[:, None]) * layout.max_seqlen + layout.cu_seqlens.sum() + layout.seq_len
    return x, x[layout.part_index("text")], x[layout.part_index(kind="video")]


def raw_reads(x, tags, segments, positions, longest, cu, seq_len, text, video):
    x = (x + (tags + segments + positions)[:, None]) * longest + cu.sum() + seq_len
    return x, x[text], x[video]


def arguments(layout):
    return (
        layout.token_tags,
        layout.segment_ids,
        layout.position_ids,
        layout.max_seqlen,
        layout.cu_seqlens,
        layout.seq_len,
        layout.part_index("text"),
        layout.part_index(kind="video"),
    )


@each_dynamic
@each_backend
def test_reads_cost_no_graph(backend, dynamic):
    layouts = [pack(*size) for size in SIZES]
    raw, raw_counter = compiled(raw_reads, backend, dynamic)
    for layout in layouts:
        raw(torch.ones(layout.seq_len, 2), *arguments(layout))
    call, counter = compiled(reads, backend, dynamic)
    for layout in layouts:
        x = torch.randn(layout.seq_len, 2)
        for got, expected in zip(call(x, layout), reads(x, layout), strict=True):
            torch.testing.assert_close(got, expected)
    assert counter.frame_count <= raw_counter.frame_count
    assert not counters["graph_break"]


@each_dynamic
@each_backend
def test_a_combination_is_traced_and_not_kept(backend, dynamic):
    layout = pack(*SIZES[0])
    call, _ = compiled(lambda x, layout: x[layout.part_index("audio", "text")], backend, dynamic)
    x = torch.randn(layout.seq_len, 2)
    got = call(x, layout)
    assert not layout._memo
    assert torch.equal(got, x[layout.part_index("text", "audio")])


@each_dynamic
@each_backend
def test_cat_and_split_cost_no_graph(backend, dynamic):
    def through(parts, layout):
        return layout.split(layout.cat(parts, 0) * 2, 0)

    def raw(parts, text, video, audio, pad):
        x = torch.cat([parts["text"], parts["video"], parts["audio"], parts["text"].new_full((pad, 2), 0)]) * 2
        return dict(zip(("text", "video", "audio"), x.split([text, video, audio, pad]), strict=False))

    layouts = [pack(*size) for size in SIZES]
    batches = [
        {"video": torch.randn(6 * v, 2), "text": torch.randn(t, 2), "audio": torch.randn(a, 2)} for t, v, a in SIZES
    ]
    call, raw_counter = compiled(raw, backend, dynamic)
    for (t, v, a), layout, batch in zip(SIZES, layouts, batches, strict=True):
        call(batch, t, 6 * v, a, layout.seq_len - layout.used)
    call, counter = compiled(through, backend, dynamic)
    for layout, batch in zip(layouts, batches, strict=True):
        for name, part in call(batch, layout).items():
            assert torch.equal(part, batch[name] * 2)
    assert counter.frame_count <= raw_counter.frame_count
    assert not counters["graph_break"]


@each_dynamic
@each_backend
def test_lists_and_gradients(backend, dynamic):
    layout = PackedLayout.pack([{"text": 4, "video": 3}, {"text": 5}], align=8)
    text = [torch.randn(4, 2, requires_grad=True), torch.randn(5, 2, requires_grad=True)]
    video = torch.randn(3, 2, requires_grad=True)

    def through(text, video, layout):
        return layout.cat({"text": text, "video": [video, None]}, 0)

    call, _ = compiled(through, backend, dynamic)
    x = call(text, video, layout)
    assert torch.equal(x, through(text, video, layout))
    (x * torch.arange(16)[:, None]).sum().backward()
    assert video.grad[:, 0].tolist() == [4, 5, 6]


@each_dynamic
@each_backend
def test_a_layout_on_its_device_may_be_moved_there(backend, dynamic):
    call, _ = compiled(lambda x, layout: x + layout.to("cpu").token_tags, backend, dynamic)
    layout = PackedLayout.from_lengths([3, 5])
    assert call(torch.ones(8), layout).tolist() == [1] * 8


LAYOUT = pack(*SIZES[0])
T, V, A = torch.ones(7, 2), torch.ones(120, 2), torch.ones(12, 2)
FIX = "\n  fix: pass all of its rows in row order, or pack the layout from the sizes that the tensors have"


@each_dynamic
@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize(
    ("function", "operands", "text"),
    [
        (
            lambda layout: layout.part_index("vdeo"),
            (LAYOUT,),
            "part_index: the layout has no part 'vdeo'\n  it has text, video, audio\n"
            "  fix: pack a part that may be absent with 0 rows",
        ),
        (
            lambda layout: layout.to("meta").cu_seqlens,
            (LAYOUT,),
            "to: the layout is moved from cpu to meta inside a compiled region\n  fix: move it before the call",
        ),
        (
            lambda x: x + PackedLayout.from_lengths([3]).cu_seqlens,
            (torch.ones(2),),
            "a PackedLayout is built inside a compiled region\n"
            "  fix: build it before the call and pass it as an argument",
        ),
        (
            lambda layout: layout.token_tags,
            (PackedLayout.pack({"a": 2, "b": 3}),),
            "token_tags: the layout has several kinds of parts and no tags\n"
            "  fix: pass tags={'a': ..., 'b': ...} when packing, with the numbers that the model expects",
        ),
        (
            lambda t, v, layout: layout.cat({"text": t, "video": v}, 0),
            (T, V, LAYOUT),
            "cat: part 'audio' is missing, expected 12 rows\n  the parts are text, video, audio",
        ),
        (
            lambda t, v, a, layout: layout.cat({"text": t, "video": v, "audio": a, "foo": a}, 0),
            (T, V, A, LAYOUT),
            "cat: the layout has no part 'foo'\n  its parts are text, video, audio",
        ),
        (
            lambda t, v, a, layout: layout.cat({"text": t, "video": a, "audio": a}, 0),
            (T, V, A, LAYOUT),
            "cat: part 'video' has 12 rows on axis 0, expected 120 as the layout says (2x20x3)" + FIX,
        ),
        (
            lambda t, layout: layout.split(t, 0)["text"],
            (T, LAYOUT),
            "split: the tensor has 7 rows on axis 0, expected the layout's seq_len 192 (139 used + 53 padding)",
        ),
    ],
)
def test_errors_arrive(function, operands, text, fullgraph, dynamic):
    """Raised while Dynamo traces, before any backend."""
    with pytest.raises(LayoutError) as error:
        torch.compile(function, backend="eager", fullgraph=fullgraph, dynamic=dynamic)(*operands)
    # Dynamo appends where in the user's code it was.
    assert str(error.value).split("\n\nfrom user code")[0] == text


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [None, True])
def test_cat_of_split_under_inductor(dynamic):
    call = torch.compile(lambda layout, x: layout.cat(layout.split(x, 1), 1), fullgraph=True, dynamic=dynamic)
    for text in (5, 9, 13, 14):
        layout = PackedLayout.pack({"text": text, "video": (3, 2)}, tags={"text": 1, "video": 0}, align=4)
        x = torch.randn(1, layout.seq_len, 4)
        y = call(layout, x)
        assert torch.equal(y[:, : layout.used], x[:, : layout.used])
        assert not y[:, layout.used :].any()
