"""`cat` and `split`: between one tensor per part and the packed tensor. Traceable, on any device."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shapecheck._layout._fail import fail, shown
from shapecheck._layout._geometry import Geometry, size_by_part
from shapecheck._layout._parts import PADDING


class Plan(NamedTuple):
    """What packing needs to know, as plain tuples and ints: Dynamo guards on those that a layout really uses."""

    samples: int
    seq_len: int
    used: int
    pad: int
    totals: dict[str, int]  # rows of each name
    occurrences: dict[str, tuple[tuple[int, int], ...]]  # (sample, rows) of each name, in row order
    order: tuple[tuple[str, int, int], ...]  # (name, first of its rows, rows) of every part, in row order
    runs: tuple[tuple[str, int, int], ...]  # the same, neighbours of one name merged
    single: frozenset[str]  # names of one run
    sizes: dict[str, str]  # for messages: " (16x22x40)", or nothing where that says no more than the total


def plan(geometry: Geometry) -> Plan:
    """The plan of `geometry`."""
    totals = dict.fromkeys(geometry.names, 0)
    sizes = size_by_part(geometry.samples)
    occurrences: dict[str, list[tuple[int, int]]] = {name: [] for name in totals}
    order: list[tuple[str, int, int]] = []
    runs: list[tuple[str, int, int]] = []
    for index, sample in enumerate(geometry.samples):
        for part in sample:
            step = (part.name, totals[part.name], part.rows)
            order.append(step)
            if runs and runs[-1][0] == part.name:
                runs[-1] = (part.name, runs[-1][1], runs[-1][2] + part.rows)
            else:
                runs.append(step)
            totals[part.name] += part.rows
            occurrences[part.name].append((index, part.rows))
    return Plan(
        len(geometry.samples),
        geometry.seq_len,
        geometry.used,
        geometry.seq_len - geometry.used,
        totals,
        {name: tuple(found) for name, found in occurrences.items()},
        tuple(order),
        tuple(runs),
        frozenset(name for name, count in Counter(run[0] for run in runs).items() if count == 1),
        {name: "" if text == str(totals[name]) else f" ({text})" for name, text in sizes.items()},
    )


def cat(plan: Plan, parts: Mapping[str, Any], dim: int, fill: float) -> Tensor:
    """See `PackedLayout.cat`."""
    if not isinstance(parts, Mapping):
        fail(f"cat: got a {type(parts).__name__}, expected a mapping of part name -> tensor")
    known = ", ".join(plan.totals)
    for name in parts:
        if name == PADDING:
            fail("cat: 'padding' is no part, its rows are appended\n  fix: leave it out, and pass fill= for its value")
        if name not in plan.totals:
            fail(f"cat: the layout has no part {name!r}\n  its parts are {known}")
    whole: dict[str, Tensor] = {}
    pieces: dict[str, list[Tensor | None]] = {}
    for name, rows in plan.totals.items():
        value = parts.get(name)
        if isinstance(value, Tensor):
            whole[name] = value
        elif isinstance(value, (list, tuple)):
            pieces[name] = _pieces(plan, name, value, dim)
        elif value is not None:
            fail(f"cat: part {name!r} is a {type(value).__name__}, expected a tensor or a list of tensors")
        elif rows != 0:
            fail(
                f"cat: part {name!r} is missing, expected {shown(rows)} rows{plan.sizes[name]}\n  the parts are {known}"
            )
    first = _first(plan, whole, pieces)
    axis = _axis(first[1], dim, "cat")
    for name, value in whole.items():
        _check(name, None, value, axis, plan.totals[name], plan.sizes[name], first)
    gathered: list[Tensor] = []
    taken = dict.fromkeys(pieces, 0)
    # Lists come piece by piece; as long as there are none, neighbours of one name stay one slice.
    for name, start, rows in plan.order if pieces else plan.runs:
        if name in pieces:
            piece = pieces[name][taken[name]]
            if piece is not None:
                sample = plan.occurrences[name][taken[name]][0] if plan.samples > 1 else None
                _check(name, sample, piece, axis, rows, "", first)
                gathered.append(piece)
            taken[name] += 1
        elif name in whole:
            # A part that is one run needs no slice, and inductor (2.13) trips over one of symbolic size.
            gathered.append(whole[name] if name in plan.single else whole[name].narrow(axis, start, rows))
    if plan.pad != 0:
        shape = list(first[1].shape)
        shape[axis] = plan.pad
        gathered.append(first[1].new_full(shape, fill))
    return torch.cat(gathered, axis)


def split(plan: Plan, x: Tensor, dim: int) -> dict[str, Tensor] | dict[str, list[Tensor]]:
    """See `PackedLayout.split`."""
    if not isinstance(x, Tensor):
        fail(f"split: got a {type(x).__name__}, expected a packed tensor")
    axis = _axis(x, dim, "split")
    if x.shape[axis] != plan.seq_len:
        fail(
            f"split: the tensor has {x.shape[axis]} rows on axis {axis}, "
            f"expected the layout's seq_len {shown(plan.seq_len)} "
            f"({shown(plan.used)} used + {shown(plan.pad)} padding)"
        )
    taken: dict[str, list[Tensor]] = {name: [] for name in plan.totals}
    # Not one split with the padding as its last piece: inductor (2.13) then loses a symbolic size.
    pieces = torch.split(x.narrow(axis, 0, plan.used), [rows for _, _, rows in plan.order], axis)
    for (name, _, _), piece in zip(plan.order, pieces, strict=True):
        taken[name].append(piece)
    if plan.samples == 1:
        return {name: _join(found, axis) for name, found in taken.items()}
    per_sample: dict[str, list[Tensor]] = {}
    for name, found in taken.items():
        mine: list[list[Tensor]] = [[] for _ in range(plan.samples)]
        for (sample, _), piece in zip(plan.occurrences[name], found, strict=True):
            mine[sample].append(piece)
        per_sample[name] = [_join(own, axis) if own else x.narrow(axis, 0, 0) for own in mine]
    return per_sample


def _join(pieces: list[Tensor], axis: int) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, axis)


def _pieces(plan: Plan, name: str, value: Sequence[Any], dim: int) -> list[Tensor | None]:
    """One tensor, or None, for each occurrence of `name`, from a list per sample or per occurrence."""
    occurrences = plan.occurrences[name]
    if len(value) == plan.samples and (len(value) != len(occurrences) or not _fits(occurrences, value, dim)):
        mine: list[list[int]] = [[] for _ in range(plan.samples)]
        for sample, rows in occurrences:
            mine[sample].append(rows)
        return [piece for sample in range(plan.samples) for piece in _of_sample(name, value, mine, sample, dim)]
    if len(value) != len(occurrences):
        fail(
            f"cat: part {name!r} is a list of {len(value)}, "
            f"expected one entry for each of the {shown(plan.samples)} samples "
            f"or for each of its {len(occurrences)} occurrences"
        )
    return [_piece(name, sample, rows, item) for (sample, rows), item in zip(occurrences, value, strict=True)]


def _fits(occurrences: Sequence[tuple[int, int]], value: Sequence[Any], dim: int) -> bool:
    """Whether a list that could be per sample or per occurrence has the rows of the occurrences."""
    for (_, rows), item in zip(occurrences, value, strict=True):
        if not isinstance(item, Tensor) or not -item.dim() <= dim < item.dim() or item.shape[dim] != rows:
            return False
    return True


def _of_sample(
    name: str, value: Sequence[Any], per_sample: list[list[int]], sample: int, dim: int
) -> list[Tensor | None]:
    """The pieces that entry `sample` of a list per sample holds."""
    item, mine = value[sample], per_sample[sample]
    if isinstance(item, (list, tuple)):
        if len(item) != len(mine):
            fail(
                f"cat: {_label(name, sample)} is a list of {len(item)}, expected one entry for each of its "
                f"{len(mine)} occurrences in that sample"
            )
        return [_piece(name, sample, rows, inner) for rows, inner in zip(mine, item, strict=True)]
    if len(mine) == 1:
        return [_piece(name, sample, mine[0], item)]
    total = sum(mine)
    piece = _piece(name, sample, total, item)
    if piece is None:
        return [None for _ in mine]
    axis = _axis(piece, dim, "cat")
    if piece.shape[axis] != total:
        if not mine:
            fail(
                f"cat: {_label(name, sample)} has {piece.shape[axis]} rows on axis {axis}, and that sample "
                f"has no part {name!r}\n  fix: pass None for it"
            )
        sizes = " + ".join(map(str, mine))
        fail(f"cat: {_label(name, sample)} has {piece.shape[axis]} rows on axis {axis}, expected {sizes}")
    return list(torch.split(piece, mine, axis)) if mine else []


def _piece(name: str, sample: int, rows: int, item: Any) -> Tensor | None:
    if item is None:
        if rows != 0:
            fail(f"cat: {_label(name, sample)} is None, expected {shown(rows)} rows")
        return None
    if not isinstance(item, Tensor):
        fail(f"cat: {_label(name, sample)} is a {type(item).__name__}, expected a tensor")
    return item


def _first(plan: Plan, whole: dict[str, Tensor], pieces: dict[str, list[Tensor | None]]) -> tuple[str, Tensor]:
    """The tensor that the others have to match, with the name of its part: the first that there is, in row order."""
    for name in plan.totals:
        if name in whole:
            return name, whole[name]
        for piece in pieces.get(name, ()):
            if piece is not None:
                return name, piece
    fail("cat: no tensor was passed\n  fix: pass at least one, of zero rows if need be: it gives the dtype and device")


def _axis(x: Tensor, dim: int, what: str) -> int:
    if not isinstance(dim, int):
        fail(f"{what}: dim is of type {type(dim).__name__}, expected an axis number")
    if not -x.dim() <= dim < x.dim():
        fail(f"{what}: dim is {dim}, but the tensor has {x.dim()} axes")
    return dim % x.dim()


def _check(
    name: str, sample: int | None, x: Tensor, axis: int, rows: int, size: str, first: tuple[str, Tensor]
) -> None:
    """Fails unless `x` has `rows` rows and is like the `first` tensor in everything else."""
    like, other = first
    if x.dim() != other.dim():
        fail(f"cat: {_label(name, sample)} has {x.dim()} axes, expected {other.dim()} like part {like!r}")
    if x.device != other.device:
        fail(f"cat: {_label(name, sample)} is on {x.device}, expected {other.device} like part {like!r}")
    if x.dtype != other.dtype:
        fail(f"cat: {_label(name, sample)} is {x.dtype}, expected {other.dtype} like part {like!r}")
    for a in range(other.dim()):
        if a != axis and x.shape[a] != other.shape[a]:
            fail(
                f"cat: {_label(name, sample)} has {x.shape[a]} entries on axis {a}, "
                f"expected {other.shape[a]} like part {like!r}"
            )
    if x.shape[axis] != rows:
        fail(
            f"cat: {_label(name, sample)} has {x.shape[axis]} rows on axis {axis}, "
            f"expected {shown(rows)} as the layout says{size}\n"
            "  fix: pass all of its rows in row order, or pack the layout from the sizes that the tensors have"
        )


def _label(name: str, sample: int | None) -> str:
    # Only ever formatted on the way out: a message built before its check would become a guard under torch.compile.
    return f"part {name!r}" if sample is None else f"part {name!r} of sample {shown(sample)}"
