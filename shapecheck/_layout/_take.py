"""Per-token tensors that follow a changed layout. Traceable, without synchronising."""

from collections.abc import Mapping

import torch
from torch import Tensor

from shapecheck._layout._fail import fail, shown
from shapecheck._layout._tensors import Tensors

BUFFERS = ("cu_seqlens", "segment_ids", "position_ids", "token_tags")


def take(x: Tensor, rows: Tensor, dim: int, fill: float, used: int, seq_len: int) -> Tensor:
    """See `PackedLayout.take`."""
    axis = _axis(x, dim, "take")
    if rows.dim() != 1 or rows.shape[0] != used:
        fail(
            f"take: rows has shape {list(rows.shape)}, expected [{shown(used)}], the rows used\n"
            "  fix: pass the index that came with this layout"
        )
    gathered = x.index_select(axis, rows)
    if seq_len == used:
        return gathered
    shape = list(gathered.shape)
    shape[axis] = seq_len - used
    return torch.cat([gathered, gathered.new_full(shape, fill)], axis)


def shift(x: Tensor, offset: int, fill: float, dim: int, segment_ids: Tensor) -> Tensor:
    """See `PackedLayout.shift`."""
    axis = _axis(x, dim, "shift")
    rows = segment_ids.shape[0]
    if x.shape[axis] != rows:
        fail(f"shift: the tensor has {x.shape[axis]} rows on axis {axis}, expected the layout's seq_len {shown(rows)}")
    source = torch.arange(rows, device=x.device) - offset
    # roll wraps around, and the first and the last row may share a segment.
    inside = (source >= 0) & (source < rows) & (segment_ids.roll(offset) == segment_ids)
    shape = [1] * x.dim()
    shape[axis] = rows
    return torch.where(inside.view(shape), x.roll(offset, axis), torch.full_like(x, fill))


def buffers(tensors: Tensors) -> dict[str, Tensor]:
    """Copies of the metadata that depends on the samples only by value."""
    with torch.inference_mode(False):
        return {name: tensors.views[name].clone() for name in BUFFERS if name in tensors.views}


def copy_into(tensors: Tensors, target: Mapping[str, Tensor]) -> None:
    """See `PackedLayout.copy_into`."""
    own = {name: tensors.views[name] for name in BUFFERS if name in tensors.views}
    if set(target) != set(own):
        fail(f"copy_into: the buffers are {', '.join(target)}, expected {', '.join(own)}")
    for name, source in own.items():
        into = target[name]
        if into.shape != source.shape or into.dtype != source.dtype:
            fail(
                f"copy_into: buffer {name!r} is {into.dtype} {list(into.shape)}, "
                f"expected {source.dtype} {list(source.shape)}\n"
                "  fix: bring both layouts to one capacity with pad_to"
            )
    for name, source in own.items():
        target[name].copy_(source, non_blocking=True)


def _axis(x: Tensor, dim: int, what: str) -> int:
    if not -x.dim() <= dim < x.dim():
        fail(f"{what}: dim is {dim}, but the tensor has {x.dim()} axes")
    return dim % x.dim()
