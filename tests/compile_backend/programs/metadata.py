"""The metadata that programs take beside q, k and v: each function makes one argument from the lengths."""

from collections.abc import Callable
from itertools import accumulate

import torch
from torch import Tensor

from .program import Metadata, Sizes, key_lengths


def cu_seqlens(dtype: torch.dtype = torch.int32) -> Metadata:
    """[0, n1, n1 + n2, ...], one more than segments."""
    return lambda sizes, _: torch.tensor([0, *accumulate(sizes)], dtype=dtype)


def cu_seqlens_k(keys: Callable[[Sizes], Sizes] = key_lengths) -> Metadata:
    """The boundaries of the keys of a cross attention, int32."""
    return lambda sizes, _: torch.tensor([0, *accumulate(keys(sizes))], dtype=torch.int32)


def ends(dtype: torch.dtype = torch.int32) -> Metadata:
    """Boundaries without the leading zero."""
    return lambda sizes, _: torch.tensor([*accumulate(sizes)], dtype=dtype)


def lens(dtype: torch.dtype = torch.int64) -> Metadata:
    """The lengths."""
    return lambda sizes, _: torch.tensor(sizes, dtype=dtype)


def ids_of(sizes: Sizes) -> list[int]:
    """The segment of each row."""
    return [index for index, size in enumerate(sizes) for _ in range(size)]


def ids(dtype: torch.dtype = torch.int64, *, batch: bool = False) -> Metadata:
    """The segment of each row, [S]; [1, S] if `batch`."""

    def make(sizes: Sizes, _: torch.Generator) -> Tensor:
        made = torch.tensor(ids_of(sizes), dtype=dtype)
        return made[None] if batch else made

    return make


def position_ids(dtype: torch.dtype = torch.int64) -> Metadata:
    """[1, S], counted from zero in each segment."""
    return lambda sizes, _: torch.tensor([[row for size in sizes for row in range(size)]], dtype=dtype)


def tokens(marker: int, *, first: bool) -> Metadata:
    """Token ids [1, S] with the marker at the first (else last) token of each segment and nowhere else."""

    def make(sizes: Sizes, generator: torch.Generator) -> Tensor:
        made = torch.randint(marker + 1, marker + 50, (1, sum(sizes)), generator=generator)
        for start, end in zip([0, *accumulate(sizes)], accumulate(sizes), strict=False):
            if start < end:
                made[0, start if first else end - 1] = marker
        return made

    return make


def key_mask(dtype: torch.dtype = torch.bool, *, left: bool = False) -> Metadata:
    """[B, L] of a padded batch, nonzero where a token is; padded on the right, else on the left."""

    def make(sizes: Sizes, _: torch.Generator) -> Tensor:
        longest = max(sizes)
        rows = torch.arange(longest)[None].expand(len(sizes), -1)
        lengths = torch.tensor(sizes)[:, None]
        return (rows >= longest - lengths if left else rows < lengths).to(dtype)

    return make


def values(*numbers: int, dtype: torch.dtype = torch.int32) -> Metadata:
    """The same few numbers for any sizes."""
    return lambda *_: torch.tensor(numbers, dtype=dtype)
