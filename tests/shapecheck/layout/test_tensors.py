import time
from collections import Counter

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from shapecheck import PackedLayout, Part
from shapecheck._layout import Geometry
from shapecheck._layout._tensors import build

TAGS = {"text": 1, "cond": 0, "video": 0, "audio": 2}


def request():
    return PackedLayout.pack({"text": 7, "video": (2, 3, 4), "audio": 5}, align=64, tags=TAGS)


def tensors(layout):
    return [
        layout.cu_seqlens,
        layout.token_tags,
        layout.segment_ids,
        layout.position_ids,
        *(layout.part_index(name) for name in ("text", "video", "audio")),
        layout.part_index(kind="video"),
    ]


def test_one_buffer_in_aligned_slices():
    found = tensors(request())
    assert len({tensor.untyped_storage().data_ptr() for tensor in found}) == 1
    assert all(tensor.storage_offset() * tensor.element_size() % 64 == 0 for tensor in found)
    assert all(tensor.is_contiguous() for tensor in found)


def test_one_transfer():
    class Copies(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.calls = Counter()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls[func.overloadpacket] += 1
            return func(*args, **(kwargs or {}))

    layout = request()
    with Copies() as copies:
        moved = layout.to("meta")
    assert copies.calls[torch.ops.aten._to_copy] == 1
    views = {torch.ops.aten.slice, torch.ops.aten.view, torch.ops.aten.unsqueeze, torch.ops.aten.detach}
    assert set(copies.calls) <= {torch.ops.aten._to_copy, *views}
    assert all(tensor.device.type == "meta" for tensor in tensors(moved))
    for there, here in zip(tensors(moved), tensors(layout), strict=True):
        assert (there.shape, there.dtype) == (here.shape, here.dtype)


def test_dtypes():
    layout = request()
    assert [tensor.dtype for tensor in tensors(layout)] == [
        torch.int32,
        torch.int64,
        torch.int32,
        *[torch.int64] * 5,
    ]


def test_a_name_with_one_kind_shares_the_tensor():
    made = build(Geometry.pack([Part("a", 2), Part("b", 3, kind="k"), Part("c", 1, kind="k")]))
    assert made.names["a"] is made.kinds["a"] is made.atoms["a", "a"]
    assert made.names["b"] is made.atoms["b", "k"]
    assert made.kinds["k"].tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("context", [torch.device("meta"), torch.inference_mode(), torch.no_grad()])
def test_surroundings_leave_no_trace(context):
    with context:
        layout = request()
        both = layout.part_index("text", "audio")
    assert layout.device == torch.device("cpu")
    assert not any(tensor.is_inference() for tensor in [*tensors(layout), both])
    x = torch.randn(64, 2, requires_grad=True)
    x[layout.part_index("text")].sum().backward()
    x[both].sum().backward()


def test_default_dtype_leaves_no_trace():
    torch.set_default_dtype(torch.float64)
    try:
        assert request().token_tags.dtype == torch.int64
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_layout_built_before_a_fake_mode_keeps_its_tensors():
    layout = request()
    before = [id(tensor) for tensor in tensors(layout)]
    with FakeTensorMode():
        assert [id(tensor) for tensor in tensors(layout)] == before
        combined = layout.part_index("text", "audio")
    assert type(combined) is torch.Tensor
    assert layout.part_index("audio", "text") is combined
    assert combined.tolist() == [*range(7), *range(31, 36)]


def test_a_layout_built_under_a_fake_mode_is_fake():
    with FakeTensorMode():
        layout = request()
        found = tensors(layout)
        x = layout.cat({"text": torch.ones(7, 2), "video": torch.ones(24, 2), "audio": torch.ones(5, 2)}, dim=0)
    assert all(isinstance(tensor, FakeTensor) for tensor in [*found, x])
    assert [tuple(tensor.shape) for tensor in found[:4]] == [(3,), (64,), (64,), (64,)]
    assert layout == request()
    assert type(request().cu_seqlens) is torch.Tensor


def test_a_hundred_thousand_segments():
    lengths = [1 + i % 37 for i in range(100_000)]
    start = time.process_time()
    layout = PackedLayout.from_lengths(lengths, align=64)
    assert time.process_time() - start < 10  # about 0.8 s on one core
    assert layout.cu_seqlens.numel() == 100_001
    assert int(layout.segment_ids[-1]) in (99_999, 100_000)
    start = time.process_time()
    pieces = layout.split(torch.ones(layout.seq_len, 1), dim=0)
    assert layout.cat(pieces, dim=0).shape == (layout.seq_len, 1)
    assert time.process_time() - start < 20  # about 1 s
    assert len(repr(layout)) < 200
