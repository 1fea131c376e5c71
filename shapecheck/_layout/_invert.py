"""Layouts from metadata that already exists. Everything is read on the host; what cannot be inverted is refused."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from shapecheck._errors import LayoutError
from shapecheck._layout import _change
from shapecheck._layout._geometry import Geometry
from shapecheck._layout._parts import Part


def lengths_of_cu_seqlens(cu_seqlens: Any) -> list[int]:
    """Segment lengths of boundaries from 0 that never decrease."""
    cu = _host(cu_seqlens, "cu_seqlens", 1)
    if cu.numel() < 2:
        raise LayoutError(f"cu_seqlens has {cu.numel()} entries, expected 2 or more: one more than there are segments")
    if cu[0] != 0:
        raise LayoutError(
            f"cu_seqlens starts at {int(cu[0])}, expected 0\n  fix: prepend 0, or subtract the first entry"
        )
    lengths = cu.diff()
    if bool((lengths < 0).any()):
        at = int((lengths < 0).nonzero()[0])
        raise LayoutError(f"cu_seqlens[{at + 1}] is {int(cu[at + 1])}, below the entry before it, {int(cu[at])}")
    return [int(rows) for rows in lengths.tolist()]


def lengths_of_position_ids(position_ids: Any) -> list[int]:
    """Rows between the places where positions restart at 0."""
    positions = _host(position_ids, "position_ids", 1)
    if not positions.numel():
        raise LayoutError("position_ids is empty, which does not say how many segments there are")
    if positions[0] != 0:
        raise LayoutError(f"position_ids starts at {int(positions[0])}, expected 0")
    starts = (positions == 0).nonzero().flatten()
    rows = torch.arange(positions.numel())
    expected = rows - starts[(positions == 0).cumsum(0) - 1]
    wrong = (positions != expected).nonzero()
    if wrong.numel():
        at = int(wrong[0])
        raise LayoutError(
            f"position_ids[{at}] is {int(positions[at])}, expected {int(expected[at])}, one more than before, or 0\n"
            "  fix: positions that do not restart at 0 do not determine the boundaries; pass lengths or cu_seqlens"
        )
    return [int(n) for n in torch.cat([starts, torch.tensor([positions.numel()])]).diff().tolist()]


def lengths_of_mask(mask: Any) -> list[int]:
    """Valid entries of each row of a `[B, L]` mask that pads on one side."""
    valid = _host(mask, "mask", 2, boolean=True)
    if bool(((valid != 0) & (valid != 1)).any()):
        raise LayoutError("mask has entries other than 0 and 1, expected a padding mask, not an additive one")
    valid = valid.bool()
    if not valid.shape[0]:
        raise LayoutError("mask has 0 rows, expected at least one sequence")
    if valid.shape[1] > 1:
        falls, rises = (valid[:, :-1] & ~valid[:, 1:]).sum(1), (~valid[:, :-1] & valid[:, 1:]).sum(1)
        wrong = (falls + rises > 1).nonzero()
        if wrong.numel():
            raise LayoutError(
                f"mask row {int(wrong[0])} is neither left- nor right-padded: its valid entries have a gap "
                "or padding on both sides"
            )
    return [int(n) for n in valid.sum(1).tolist()]


def lengths_of_nested(nested: Tensor) -> list[int]:
    """Rows of each component of a jagged nested tensor, from its offsets."""
    if not isinstance(nested, Tensor) or not nested.is_nested or nested.layout != torch.jagged:
        raise LayoutError("from_nested: expected a nested tensor with layout=torch.jagged")
    jagged: Any = nested  # these methods are not Tensor's
    if jagged.lengths() is not None:
        raise LayoutError("from_nested: the nested tensor has holes between its rows\n  fix: call .contiguous() first")
    return lengths_of_cu_seqlens(jagged.offsets())


def to_dict(geometry: Geometry) -> dict[str, Any]:
    """`geometry` as dicts, lists, strings, ints and None."""
    return {
        "samples": [
            [
                {
                    "name": p.name,
                    "size": p.size if isinstance(p.size, int) else list(p.size),
                    "kind": p.kind,
                    "tag": p.tag,
                }
                for p in sample
            ]
            for sample in geometry.samples
        ],
        "align": geometry.align,
        "seq_len": geometry.seq_len,
        "padding": geometry.padding,
        "pad_tag": geometry.pad_tag,
        "segments": None if geometry.segments is None else list(geometry.segments),
        "capacity": None if geometry.capacity is None else list(geometry.capacity),
    }


_KEYS = ("samples", "align", "seq_len", "padding", "pad_tag", "segments", "capacity")


def from_dict(data: Any) -> Geometry:
    """The geometry that `to_dict` described, checked again."""
    if not isinstance(data, Mapping) or set(data) != set(_KEYS):
        got = ", ".join(map(str, data)) if isinstance(data, Mapping) else type(data).__name__
        raise LayoutError(f"from_dict: got {got}, expected a mapping with the keys {', '.join(_KEYS)}")
    try:
        samples = tuple(tuple(Part(p["name"], p["size"], p["kind"], p["tag"]) for p in s) for s in data["samples"])
    except (KeyError, TypeError) as error:
        raise LayoutError(f"from_dict: samples is malformed: {error!r}") from None
    if not samples or not all(samples):
        raise LayoutError("from_dict: expected at least one sample, and at least one part in each")
    if len({part.tag is None for sample in samples for part in sample}) > 1:
        raise LayoutError("from_dict: some parts have a tag and others have none, expected all or none")
    geometry = Geometry._checked(samples, data["align"], data["seq_len"], data["pad_tag"], data["padding"])
    if data["segments"] is not None:
        geometry, _ = _change.segment_by(geometry, _list(data, "segments"))
    if data["capacity"] is not None:
        capacity = _list(data, "capacity")
        if len(capacity) != 2:
            raise LayoutError(f"from_dict: capacity has {len(capacity)} entries, expected segments and max_seqlen")
        geometry = _change.pad_to(geometry, geometry.seq_len, *capacity)
    return geometry


def _list(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = data[key]
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise LayoutError(f"from_dict: {key} is a {type(value).__name__}, expected a list of integers or None")
    return value


def _host(value: Any, what: str, rank: int, boolean: bool = False) -> Tensor:
    """`value` as an int64 CPU tensor of `rank` axes."""
    if isinstance(value, Tensor):
        if value.device.type != "cpu":
            raise LayoutError(
                f"{what} is on {value.device}, expected a CPU tensor\n"
                "  fix: pass a host copy; reading it from the device would stall it"
            )
        found = value
    else:
        try:
            found = torch.as_tensor(value, device="cpu")
        except (TypeError, ValueError, RuntimeError) as error:
            raise LayoutError(f"{what}: expected a {rank}-D integer tensor or sequence: {error}") from None
    if found.dim() != rank or (not boolean and (found.dtype == torch.bool or found.is_floating_point())):
        raise LayoutError(
            f"{what} is {found.dtype} with shape {list(found.shape)}, expected a {rank}-D "
            f"{'mask' if boolean else 'integer tensor'}"
        )
    return found.long()
