"""The ways in which one argument is broken."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from shapecheck.testing._oracle import Call, Mutant, at, replaced, without


def required(call: Call, path: str) -> Iterator[Mutant]:
    """Absent, and None."""
    yield Mutant(f"{path}: absent", without(call, path), "shape")
    yield Mutant(f"{path}: None", replaced(call, path, None), "shape")


def elsewhere(call: Call, path: str) -> Mutant:
    """On another device."""
    return Mutant(f"{path}: on another device", replaced(call, path, at(call, path).to("meta")), "shape")


def unlike(call: Call, path: str, what: str, value: Any) -> Mutant:
    """Another rank, size, dtype or type."""
    return Mutant(f"{path}: {what}", replaced(call, path, value), "shape")


def longer(call: Call, path: str) -> Mutant:
    """One entry more than there are rows."""
    value: Tensor = at(call, path)
    return unlike(call, path, "one entry more", torch.cat([value, value[-1:]]))


def shorter(call: Call, path: str) -> Mutant:
    """One entry less than there are rows."""
    return unlike(call, path, "one entry less", at(call, path)[:-1])


def set_at(call: Call, path: str, what: str, index: int, value: int) -> Mutant:
    """One value changed."""
    changed = at(call, path).clone()
    changed.view(-1)[index] = value
    return Mutant(f"{path}: {what}", replaced(call, path, changed), "host")


def indices(call: Call, path: str, size: int) -> Iterator[Mutant]:
    """Indices outside `0 .. size - 1`."""
    yield set_at(call, path, "just beyond the last", -1, size)
    yield set_at(call, path, "far beyond the last", 0, 2**30)
    yield set_at(call, path, "negative", 0, -1)


def boundaries(call: Call, path: str, *, tail: bool = True) -> Iterator[Mutant]:
    """Boundaries `[B+1]` of B >= 1 segments, of which at least one has rows.

    Args:
        tail: whether the last one has to be the number of rows.
    """
    cu: Tensor = at(call, path)
    end = int(cu[-1])
    yield set_at(call, path, "start at 1", 0, 1)
    yield set_at(call, path, "decrease", 0 if cu.numel() == 2 else 1, end + 1)
    yield set_at(call, path, "negative", -1, -1)
    yield set_at(call, path, "wrapped around in int32", -1, -(2**31) + end)
    yield unlike(call, path, "a column", cu[:, None])
    yield unlike(call, path, "floating point", cu.float())
    yield unlike(call, path, "int16", cu.to(torch.int16))
    yield unlike(call, path, "a list", cu.tolist())
    if tail:
        yield Mutant(f"{path}: beyond the rows", replaced(call, path, _moved(cu, 1)), "host")
        yield Mutant(f"{path}: rows left over", replaced(call, path, _moved(cu, -1)), "host")


def _moved(cu: Tensor, by: int) -> Tensor:
    moved = cu.clone()
    moved[moved == moved[-1]] += by
    return moved
