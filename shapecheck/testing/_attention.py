"""Calls of attention functions over packed rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from shapecheck._layout import PackedLayout
from shapecheck.testing._edits import boundaries, elsewhere, required, unlike
from shapecheck.testing._oracle import Call, Mutant, at, replaced


@dataclass(frozen=True)
class Names:
    """What one function calls its arguments.

    Attributes:
        q: the queries.
        k: the keys.
        v: the values.
        cu_q: boundaries of the queries, int32.
        cu_k: boundaries of the keys.
        max_q: rows of the longest segment of queries.
        max_k: of keys.
    """

    q: str
    k: str
    v: str
    cu_q: str
    cu_k: str
    max_q: str
    max_k: str


def layout(random: Random) -> PackedLayout:
    """A random batch of documents, some of them empty, at least one not."""
    lengths = [random.choice((0, 1, random.randint(1, 40))) for _ in range(random.randint(0, 6))]
    lengths.insert(random.randint(0, len(lengths)), random.randint(1, 40))
    return PackedLayout.from_lengths(lengths)


def rows(layout: PackedLayout, names: Names) -> Call:
    """Queries, keys and values `[T, 2, 8]` of zeros, float32."""
    x = torch.zeros(layout.seq_len, 2, 8, device=layout.device)
    return {names.q: x, names.k: x.clone(), names.v: x.clone()}


def call(layout: PackedLayout, names: Names) -> Call:
    """Self-attention of `layout`."""
    bounds = {names.cu_q: layout.cu_seqlens.clone(), names.cu_k: layout.cu_seqlens.clone()}
    return {**rows(layout, names), **bounds, names.max_q: layout.max_seqlen, names.max_k: layout.max_seqlen}


def mutants(call: Call, names: Names, *, cp_size: int = 1) -> Iterator[Mutant]:
    """`call` with one thing broken.

    Args:
        cp_size: ranks that share the rows, whose boundaries reach that many times as far.
    """
    yield from mutants_of_rows(call, names)
    for path, longest, value in ((names.cu_q, names.max_q, names.q), (names.cu_k, names.max_k, names.k)):
        cu: Tensor = at(call, path)
        yield from required(call, path)
        yield elsewhere(call, path)
        yield from boundaries(call, path, tail=False)
        yield unlike(call, path, "int64", cu.long())
        yield unlike(call, path, "one segment more", torch.cat([cu, cu[-1:]]))
        yield unlike(call, path, "one boundary less", cu[:-1])
        beyond = cu.clone()
        beyond[-1] = cp_size * call[value].shape[0] + 1
        yield Mutant(f"{path}: beyond the rows", replaced(call, path, beyond), "host")
        most = int(cu.diff().max())
        yield Mutant(f"{longest}: too small", replaced(call, longest, most - 1), "host")
        yield unlike(call, longest, "a word", "long")


def mutants_of_rows(call: Call, names: Names) -> Iterator[Mutant]:
    """The rows alone."""
    for name in (names.q, names.k, names.v):
        value = call[name]
        yield from required(call, name)
        yield unlike(call, name, "a batch axis", value[None])
        yield unlike(call, name, "integers", value.long())
        if name != names.q:
            yield elsewhere(call, name)
    yield unlike(call, names.k, "another number of rows", call[names.k][1:])
    yield unlike(call, names.k, "another head size", call[names.k][..., 1:])
    yield unlike(call, names.v, "another number of heads", call[names.v][:, 1:])
