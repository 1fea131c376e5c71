"""Masks from the lengths alone, by loops: what programs are about, independent of how they write it."""

from collections.abc import Callable
from itertools import accumulate

import torch
from torch import Tensor

from .metadata import ids_of
from .program import Claim, Sizes, key_lengths, samples


def blocks(sizes: Sizes) -> Tensor:
    """[S, S]: the rows of a segment see its rows."""
    return _paint(sizes, sizes)


def cross_blocks(sizes: Sizes) -> Tensor:
    """[Sq, Sk]: query segment i sees key segment i."""
    return _paint(sizes, key_lengths(sizes))


def _paint(queries: Sizes, keys: Sizes) -> Tensor:
    mask = torch.zeros(sum(queries), sum(keys), dtype=torch.bool)
    for row_end, row, column_end, column in zip(accumulate(queries), queries, accumulate(keys), keys, strict=True):
        mask[row_end - row : row_end, column_end - column : column_end] = True
    return mask


def nothing_else(sizes: Sizes) -> Tensor:
    """[S, S]: everything."""
    return torch.ones(sum(sizes), sum(sizes), dtype=torch.bool)


def where_rows(claim: Claim, allowed: Callable[[int, int], bool]) -> Claim:
    """The claim's mask, where `allowed(query row, key row)` too."""

    def mask(sizes: Sizes) -> Tensor:
        made = claim(sizes)
        rows, columns = made.shape[-2:]
        return made & torch.tensor([[allowed(row, column) for column in range(columns)] for row in range(rows)])

    return mask


def causal(claim: Claim) -> Claim:
    """The claim's mask, no key after its query."""
    return where_rows(claim, lambda row, column: column <= row)


def window(claim: Claim, left: int, right: int) -> Claim:
    """The claim's mask, at most `left` rows back and `right` ahead."""
    return where_rows(claim, lambda row, column: row - left <= column <= row + right)


def real_keys(sizes: Sizes) -> Tensor:
    """[B, 1, L, L] of a padded batch: all queries see the tokens of their sample."""
    lengths = samples(sizes)
    longest = max(lengths)
    mask = torch.zeros(len(lengths), 1, longest, longest, dtype=torch.bool)
    for sample, length in enumerate(lengths):
        mask[sample, :, :, :length] = True
    return mask


def real_keys_left(sizes: Sizes) -> Tensor:
    """[B, 1, L, L] of a batch padded on the left."""
    return real_keys(sizes).flip(-1)


def real_pairs(sizes: Sizes) -> Tensor:
    """[B, 1, L, L] of a padded batch: tokens see the tokens of their sample, padding sees nothing."""
    keys = real_keys(sizes)
    return keys & keys.transpose(-1, -2)


def grouped(sizes: Sizes, group: Callable[[int], int]) -> Tensor:
    """[S, S]: rows whose segments are in one group see each other."""
    groups = torch.tensor([group(index) for index in ids_of(sizes)])
    return groups[:, None] == groups[None, :]
