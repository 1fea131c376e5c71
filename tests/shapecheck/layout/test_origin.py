import gc
import weakref

import torch

from shapecheck import PackedLayout
from shapecheck._layout import origin, remember


def test_tensors_of_a_layout_are_known():
    layout = PackedLayout.pack({"a": 2, "b": 3}, tags={"a": 0, "b": 1})
    known = [layout.cu_seqlens, layout.token_tags, layout.segment_ids, layout.position_ids, layout.part_index("a")]
    known += [layout.part_index("a", "b"), layout.cat({"a": torch.ones(2), "b": torch.ones(3)}, dim=0)]
    known += [layout.to("meta").cu_seqlens]
    assert all(origin(tensor) is layout.geometry for tensor in known)


def test_other_tensors_are_not():
    layout = PackedLayout.pack({"a": 2})
    assert origin(layout.token_tags + 0) is None
    assert origin(torch.ones(2)) is None


def test_nothing_leaks():
    layout = PackedLayout.pack({"a": 2, "b": 3})
    watched = [weakref.ref(t) for t in (layout, layout.cu_seqlens, layout.part_index("a"), layout.part_index("a", "b"))]
    watched.append(weakref.ref(layout.geometry))
    packed = layout.cat({"a": torch.ones(2), "b": torch.ones(3)}, dim=0)
    watched.append(weakref.ref(packed))
    del layout, packed
    gc.collect()
    assert [ref() for ref in watched] == [None] * len(watched)


def test_not_while_compiling():
    geometry = PackedLayout.pack({"a": 2}).geometry

    def call(x):
        y = x + 1
        remember(y, geometry)
        return y

    torch._dynamo.reset()
    assert origin(torch.compile(call, backend="eager", fullgraph=True)(torch.ones(2))) is None
    assert origin(call(torch.ones(2))) is geometry
