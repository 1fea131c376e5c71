"""Masks that resemble blocks and are none: fills that leak, inversions, unions, orders, changes in place."""

# mypy: disable-error-code="no-any-return"
# Any is what `**` and untyped functions of torch return.

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import claims, metadata
from .positive_batches import KEYS
from .positive_forms import CU, INF, rows, same_segment, sdpa, tags_of
from .program import Corpus, Sizes, cross, packed, padded

WRONG_MASKS = Corpus()

CAUSAL = claims.causal(claims.blocks)
# Scores of magnitude 20 and more: what a fill of -20 does to them can be seen.
LOUD = 8.0


# Fills.


@WRONG_MASKS(CU, 0, why="-100 is not minus infinity", claim=claims.blocks)
def fill_of_minus_100(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (LOUD * q) @ (LOUD * k).transpose(-1, -2)
    return scores.masked_fill(~same_segment(q, cu), -100.0).softmax(-1) @ v


@WRONG_MASKS(CU, 0, why="-20 is not minus infinity", claim=claims.blocks)
def additive_minus_20(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(LOUD * q, k, v, torch.where(same_segment(q, cu), 0.0, -20.0))


@WRONG_MASKS(CU, 0, why="-1 is not minus infinity", claim=claims.blocks)
def additive_minus_1(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu).to(q.dtype) - 1)


@WRONG_MASKS(CU, 0, why="zero is a score like others", claim=claims.blocks)
def fill_of_zero(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.where(same_segment(q, cu), scores, 0.0).softmax(-1) @ v


@WRONG_MASKS(CU, 0, why="a product with the mask makes zeros, not minus infinities", claim=claims.blocks)
def scores_times_mask(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return (scores * same_segment(q, cu)).softmax(-1) @ v


@WRONG_MASKS(CU, 0, why="a float mask of ones and zeros is added", claim=claims.blocks)
def float_mask(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu).to(q.dtype))


@WRONG_MASKS(CU, 0, why="finfo.tiny, not finfo.min", claim=claims.blocks)
def fill_of_finfo_tiny(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, torch.where(same_segment(q, cu), 0.0, -torch.finfo(q.dtype).tiny))


@WRONG_MASKS(CU, None, why="finfo.max, the wrong sign: all but the segment", claim=claims.blocks)
def fill_of_finfo_max(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, torch.where(same_segment(q, cu), 0.0, 1e9))


@WRONG_MASKS(CU, None, why="1e9 where the segment is, and the other rows lose", claim=claims.nothing_else)
def fill_of_plus_1e9_inside(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    # Scores drown in 1e9: inside the segment all keys are equal in float32.
    scores = q @ k.transpose(-1, -2)
    return (scores + same_segment(q, cu) * 1e9).softmax(-1) @ v


@WRONG_MASKS(CU, 0, why="the smallest score is not minus infinity", claim=claims.blocks)
def fill_of_the_smallest_score(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.where(same_segment(q, cu), scores, scores.min()).softmax(-1) @ v


@WRONG_MASKS(
    packed(metadata.cu_seqlens(), lambda *_: torch.tensor(-2.0)), 0, why="an input is filled in", claim=claims.blocks
)
def fill_of_an_input(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, fill: Tensor) -> Tensor:
    return sdpa(q, k, v, torch.where(same_segment(q, cu), 0.0, fill))


@WRONG_MASKS(CU, 0, why="-1000 times the scale is -8", claim=claims.blocks)
def bias_scaled_with_the_scores(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    bias = torch.where(same_segment(q, cu), 0.0, -1000.0)
    return ((LOUD * q @ k.transpose(-1, -2) + bias) * 0.008).softmax(-1) @ v


@WRONG_MASKS(CU, 0, why="scores scaled after -100 was filled in", claim=claims.blocks)
def scores_scaled_after_a_fill(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).masked_fill(~same_segment(q, cu), -100.0)
    return (scores * 0.05).softmax(-1) @ v


@WRONG_MASKS(CU, 0, why="a temperature of 1e6 brings -1e9 back", claim=claims.blocks)
def temperature_after_a_large_fill(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).masked_fill(~same_segment(q, cu), -1e9)
    return (scores / 1e9).softmax(-1) @ v


@WRONG_MASKS(CU, 0, why="times a negative number, the fill is the largest score", claim=claims.blocks)
def negated_after_a_fill(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).masked_fill(~same_segment(q, cu), -1e9)
    return (scores * -0.3).softmax(-1) @ v


@WRONG_MASKS(CU, 0, why="zero times infinity is NaN", claim=claims.blocks)
def one_minus_mask_times_infinity(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, (1.0 - same_segment(q, cu).to(q.dtype)) * INF)


@WRONG_MASKS(
    CU, None, why="one, not zero, is in the bias where the mask is; fills are different", claim=claims.nothing_else
)
def bias_of_a_constant(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, torch.where(same_segment(q, cu), 1.0, INF))


@WRONG_MASKS(CU, 0, why="clamped after the fill", claim=claims.blocks)
def clamped_after_a_fill(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~same_segment(q, cu), INF)
    return scores.clamp(min=-2.0).softmax(-1) @ v


@WRONG_MASKS(CU, 0, why="nan_to_num takes the minus infinities away", claim=claims.blocks)
def infinities_replaced(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    bias = torch.where(same_segment(q, cu), 0.0, INF)
    return sdpa(q, k, v, torch.nan_to_num(bias, neginf=-1.0))


@WRONG_MASKS(CU, 0, why="the bias goes through float16 and back, clamped", claim=claims.blocks)
def bias_times_small_number(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, torch.where(same_segment(q, cu), 0.0, torch.finfo(q.dtype).min) * 1e-38)


# Rows without a key.


@WRONG_MASKS(CU, None, why="the first row of each segment sees nothing: the mean of all values", claim=CAUSAL)
def strict_triangle_finfo_min(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu).tril(-1)
    return sdpa(q, k, v, torch.where(mask, 0.0, torch.finfo(q.dtype).min))


@WRONG_MASKS(CU, None, why="the first row of each segment sees nothing: NaN", claim=CAUSAL)
def strict_triangle_explicit_inf(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.masked_fill(~same_segment(q, cu).tril(-1), INF).softmax(-1) @ v


@WRONG_MASKS(CU, None, why="no row sees itself", claim=CAUSAL)
def strict_triangle(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = rows(q)
    return sdpa(q, k, v, same_segment(q, cu) & (row[:, None] > row[None, :]))


@WRONG_MASKS(CU, None, why="no row sees itself", claim=claims.blocks)
def diagonal_removed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    eye = torch.eye(q.shape[2], dtype=torch.bool, device=q.device)
    return sdpa(q, k, v, same_segment(q, cu) & ~eye)


@WRONG_MASKS(KEYS, None, why="the queries of the padding see nothing: the mean of all values", claim=claims.real_pairs)
def pairs_finfo_min(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    pairs = (valid[:, None, :] & valid[:, :, None])[:, None]
    return sdpa(q, k, v, torch.zeros_like(pairs, dtype=q.dtype).masked_fill(~pairs, torch.finfo(q.dtype).min))


@WRONG_MASKS(KEYS, None, why="the queries of the padding see nothing: NaN", claim=claims.real_pairs)
def pairs_explicit_inf(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    pairs = (valid[:, None, :] & valid[:, :, None])[:, None]
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.masked_fill(~pairs, INF).softmax(-1) @ v


@WRONG_MASKS(KEYS, None, why="the padding is masked as queries, not as keys", claim=claims.real_keys)
def key_mask_on_queries(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    return sdpa(q, k, v, valid[:, None, :, None].expand(-1, 1, -1, k.shape[2]))


@WRONG_MASKS(KEYS, None, why="the padding is masked as queries, with minus infinity", claim=claims.real_keys)
def key_bias_on_queries(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return (scores + torch.where(valid, 0.0, torch.finfo(q.dtype).min)[:, None, :, None]).softmax(-1) @ v


@WRONG_MASKS(padded(metadata.key_mask()), None, why="True was meant to be padding", claim=claims.real_keys)
def key_mask_inverted(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    return sdpa(q, k, v, ~valid[:, None, None, :])


@WRONG_MASKS(
    cross(
        metadata.cu_seqlens(), metadata.cu_seqlens_k(lambda sizes: (0, *sizes[1:])), keys=lambda sizes: (0, *sizes[1:])
    ),
    None,
    why="the first segment has no keys: the mean of all values",
)
def queries_without_keys_finfo_min(q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor) -> Tensor:
    mask = tags_of(q, cu_q)[:, None] == tags_of(k, cu_k)[None, :]
    return sdpa(q, k, v, torch.where(mask, 0.0, torch.finfo(q.dtype).min))


@WRONG_MASKS(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.arange(sum(sizes)) >= sizes[0]),
    None,
    why="no key of the first segment is valid: the mean of all values",
    claim=claims.blocks,
)
def segments_and_keys_finfo_min(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, valid: Tensor) -> Tensor:
    mask = same_segment(q, cu) & valid[None, :]
    return sdpa(q, k, v, torch.where(mask, 0.0, torch.finfo(q.dtype).min))


@WRONG_MASKS(
    CU,
    None,
    why="the window lies wholly before the row; first rows see nothing",
    claim=claims.window(claims.blocks, 2, 0),
)
def window_without_the_row(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    distance = rows(q)[:, None] - rows(q)[None, :]
    mask = same_segment(q, cu) & (distance > 0) & (distance <= 2)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.masked_fill(~mask, torch.finfo(q.dtype).min).softmax(-1) @ v


# Other relations.


@WRONG_MASKS(CU, None, why="ne, not eq", claim=claims.blocks)
def different_segment(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, tags[:, None] != tags[None, :])


@WRONG_MASKS(CU, None, why="True means attend; the author meant the opposite", claim=claims.blocks)
def mask_inverted(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, ~same_segment(q, cu))


@WRONG_MASKS(CU, None, why="the segment is filled, not the others", claim=claims.blocks)
def fill_inverted(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.masked_fill(same_segment(q, cu), -1e9).softmax(-1) @ v


@WRONG_MASKS(CU, None, why="where has its branches swapped", claim=claims.blocks)
def where_swapped(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, torch.where(same_segment(q, cu), torch.finfo(q.dtype).min, 0.0))


@WRONG_MASKS(CU, 0, why="or, not and", claim=CAUSAL)
def segment_or_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    causal = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).tril()
    return sdpa(q, k, v, same_segment(q, cu) | causal)


@WRONG_MASKS(CU, 0, why="a sum of booleans is an or", claim=CAUSAL)
def segment_plus_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    causal = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).tril()
    return sdpa(q, k, v, same_segment(q, cu) + causal)


@WRONG_MASKS(CU, 0, why="exclusive or", claim=CAUSAL)
def segment_xor_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    causal = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).tril()
    return sdpa(q, k, v, same_segment(q, cu) ^ causal)


@WRONG_MASKS(CU, 0, why="all see the first token too", claim=claims.blocks)
def segment_or_first_token(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu) | (rows(q) == 0)[None, :])


@WRONG_MASKS(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.arange(sum(sizes)) % 4 == 1),
    0,
    claim=claims.blocks,
    why="global tokens are seen by all",
)
def segment_or_global_tokens(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, seen: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu) | seen[None, :] | seen[:, None])


@WRONG_MASKS(CU, 0, why="causal, and a prefix that is not", claim=CAUSAL)
def causal_with_a_prefix(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = rows(q)
    causal = (row[:, None] >= row[None, :]) | (row[None, :] < 3)
    return sdpa(q, k, v, same_segment(q, cu) & causal)


@WRONG_MASKS(CU, None, why="the triangle looks the other way", claim=CAUSAL)
def anti_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu).triu())


@WRONG_MASKS(CU, None, why="the causal mask is transposed", claim=CAUSAL)
def causal_transposed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu).tril().transpose(-1, -2))


@WRONG_MASKS(CU, None, why="one row ahead is seen", claim=CAUSAL)
def triangle_one_ahead(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu).tril(1))


@WRONG_MASKS(CU, None, why="not causal: what causal leaves out", claim=CAUSAL)
def not_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    causal = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).tril()
    return sdpa(q, k, v, same_segment(q, cu) & ~causal)


@WRONG_MASKS(CU, None, why="the window looks forward", claim=claims.window(claims.blocks, 2, 0))
def window_forward(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    distance = rows(q)[None, :] - rows(q)[:, None]
    return sdpa(q, k, v, same_segment(q, cu) & (distance >= 0) & (distance <= 2))


@WRONG_MASKS(CU, None, why="only the far rows are seen", claim=claims.window(claims.blocks, 2, 0))
def window_inverted(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    distance = rows(q)[:, None] - rows(q)[None, :]
    return sdpa(q, k, v, same_segment(q, cu) & (distance >= 2))


@WRONG_MASKS(CU, 0, why="every second row", claim=claims.window(claims.blocks, 4, 4))
def window_dilated(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    distance = (rows(q)[:, None] - rows(q)[None, :]).abs()
    return sdpa(q, k, v, same_segment(q, cu) & (distance <= 4) & (distance % 2 == 0))


@WRONG_MASKS(CU, 0, why="the distance is doubled before it is compared", claim=claims.window(claims.blocks, 2, 2))
def window_of_doubled_rows(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    distance = (2 * rows(q)[:, None] - rows(q)[None, :]).abs()
    return sdpa(q, k, v, same_segment(q, cu) & (distance <= 2) | same_segment(q, cu).tril().triu())


@WRONG_MASKS(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.arange(sum(sizes)) % 3),
    None,
    claim=claims.window(claims.blocks, 2, 2),
    why="each row has its own window",
)
def window_of_each_row(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, width: Tensor) -> Tensor:
    distance = (rows(q)[:, None] - rows(q)[None, :]).abs()
    return sdpa(q, k, v, same_segment(q, cu) & (distance <= width[:, None]))


@WRONG_MASKS(
    packed(metadata.cu_seqlens(), lambda *_: torch.tensor(1)),
    None,
    claim=claims.window(claims.blocks, 2, 2),
    why="the window is an input",
)
def window_of_an_input(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, width: Tensor) -> Tensor:
    distance = (rows(q)[:, None] - rows(q)[None, :]).abs()
    return sdpa(q, k, v, same_segment(q, cu) & (distance <= width))


@WRONG_MASKS(CU, None, why="rows counted from the end, for the keys only", claim=CAUSAL)
def causal_by_flipped_rows(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = rows(q)
    eye = torch.eye(q.shape[2], dtype=torch.bool, device=q.device)
    return sdpa(q, k, v, same_segment(q, cu) & ((row[:, None] >= row.flip(0)[None, :]) | eye))


@WRONG_MASKS(CU, None, why="rows halved: a stair of two", claim=CAUSAL)
def causal_by_halved_rows(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = rows(q) // 2
    return sdpa(q, k, v, same_segment(q, cu) & (row[:, None] >= row[None, :]))


@WRONG_MASKS(CU, 0, why="queries shifted by three", claim=CAUSAL)
def causal_shifted(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = rows(q)
    return sdpa(q, k, v, same_segment(q, cu) & ((row[:, None] - 3 >= row[None, :]) | (row[:, None] == row[None, :])))


# Biases and masks of single heads.


@WRONG_MASKS(CU, 0, why="ALiBi", claim=claims.blocks)
def alibi(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    slopes = torch.tensor([0.5, 0.25], device=q.device)[None, :, None, None]
    distance = (rows(q)[None, :] - rows(q)[:, None]).abs()
    return sdpa(q, k, v, torch.where(same_segment(q, cu), -slopes * distance, INF))


@WRONG_MASKS(
    packed(metadata.cu_seqlens(), lambda _, generator: torch.randn(2, 41, generator=generator)),
    0,
    claim=claims.blocks,
    why="a learned bias of relative positions",
)
def relative_bias(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, table: Tensor) -> Tensor:
    distance = (rows(q)[None, :] - rows(q)[:, None]).clamp(-20, 20) + 20
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + table[:, distance]
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@WRONG_MASKS(
    packed(metadata.cu_seqlens(), lambda sizes, generator: torch.randn(sum(sizes), generator=generator)),
    0,
    claim=claims.blocks,
    why="each key has a bias",
)
def bias_of_keys(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, bias: Tensor) -> Tensor:
    return sdpa(q, k, v, torch.where(same_segment(q, cu), bias[None, :], INF))


@WRONG_MASKS(
    packed(metadata.cu_seqlens(), lambda *_: torch.tensor([True, False])),
    0,
    claim=claims.blocks,
    why="each head has its mask: one is dense",
)
def mask_of_some_heads(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, local: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu) | ~local[None, :, None, None])


@WRONG_MASKS(CU, 0, why="each head has its mask: one is causal", claim=claims.blocks)
def masks_stacked_over_heads(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    return sdpa(q, k, v, torch.stack([mask, mask.tril()])[None])


@WRONG_MASKS(
    packed(
        metadata.cu_seqlens(), lambda sizes, generator: torch.rand(sum(sizes), sum(sizes), generator=generator) > 0.3
    ),
    0,
    claim=claims.blocks,
    why="and any other mask",
)
def segment_and_an_input(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, mask: Tensor) -> Tensor:
    eye = torch.eye(q.shape[2], dtype=torch.bool, device=q.device)
    return sdpa(q, k, v, same_segment(q, cu) & (mask | eye))


class Buffer(nn.Module):
    """A triangle that is kept, as older language models do: its values are not in the graph."""

    triangle: Tensor

    def __init__(self) -> None:
        super().__init__()
        triangle = torch.ones(64, 64, dtype=torch.bool).tril()
        triangle[1::3] = True
        self.register_buffer("triangle", triangle)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
        length = q.shape[2]
        return sdpa(q, k, v, same_segment(q, cu) & self.triangle[:length, :length])


_buffer = Buffer()


@WRONG_MASKS(CU, 0, why="a buffer named as a triangle has other values", claim=CAUSAL)
def mask_from_a_buffer(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return _buffer(q, k, v, cu)


def _mask(sizes: Sizes, _: torch.Generator) -> Tensor:
    return claims.blocks(sizes)


@WRONG_MASKS(packed(_mask), 0, why="the mask is an input: nothing is known of it")
def mask_as_input(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return sdpa(q, k, v, mask)


# Changes in place.


@WRONG_MASKS(CU, 0, why="the first column is set", claim=claims.blocks)
def mask_set_before_use(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    mask[:, 0] = True
    return sdpa(q, k, v, mask)


@WRONG_MASKS(CU, 0, why="a view of the mask is filled", claim=claims.blocks)
def view_of_mask_changed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    mask.view(-1)[::3].fill_(True)
    return sdpa(q, k, v, mask[None, None])


@WRONG_MASKS(CU, 0, why="the mask is changed through the tensor that it is a view of", claim=claims.blocks)
def base_of_mask_changed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    base = same_segment(q, cu)
    mask = base[None, None]
    base |= torch.ones_like(base).triu(3)
    return sdpa(q, k, v, mask)


@WRONG_MASKS(CU, 0, why="logical_or_ in place", claim=claims.blocks)
def mask_or_in_place(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    mask.logical_or_(rows(q)[None, :] == 1)
    return sdpa(q, k, v, mask)


@WRONG_MASKS(CU, 0, why="the bias is changed after it was filled", claim=claims.blocks)
def bias_changed_in_place(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    bias = torch.zeros(q.shape[2], q.shape[2], device=q.device).masked_fill(~same_segment(q, cu), INF)
    bias[:, :2] = 0.5
    return sdpa(q, k, v, bias)


@WRONG_MASKS(CU, None, why="fill_diagonal_ in place: no row sees itself", claim=claims.blocks)
def diagonal_cleared_in_place(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    mask.fill_diagonal_(False)
    return sdpa(q, k, v, mask)


@WRONG_MASKS(CU, None, why="tril_ in place is seen; the mask is causal afterwards", claim=claims.blocks)
def triangle_in_place(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    mask.tril_()
    return sdpa(q, k, v, mask)


@WRONG_MASKS(CU, None, why="and in place is seen", claim=claims.blocks)
def mask_and_in_place(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    mask &= rows(q)[:, None] >= rows(q)[None, :]
    return sdpa(q, k, v, mask)


@WRONG_MASKS(CU, None, why="another mask is copied over this one", claim=claims.blocks)
def mask_overwritten(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    mask.copy_(torch.ones_like(mask).tril())
    return sdpa(q, k, v, mask)


@WRONG_MASKS(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.ones(sum(sizes), sum(sizes), dtype=torch.bool)),
    None,
    why="the mask is written into an input, which the caller reads",
)
def mask_written_into_an_input(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, out: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    torch.eq(tags[:, None], tags[None, :], out=out)
    return sdpa(q, k, v, out)


@WRONG_MASKS(CU, 0, why="blocks written one by one, then another", claim=claims.blocks)
def mask_of_slices(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    mask[2:5, 2:5] = True
    mask[5:, :1] = True
    return sdpa(q, k, v, mask)


# Used elsewhere.


@WRONG_MASKS(CU, None, why="the mask is returned")
def mask_returned(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> tuple[Tensor, Tensor]:
    mask = same_segment(q, cu)
    return sdpa(q, k, v, mask), mask


@WRONG_MASKS(CU, None, why="the mask is used in arithmetic too")
def mask_in_arithmetic(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    return sdpa(q, k, v, mask) / mask.sum(-1)[None, None, :, None]


@WRONG_MASKS(CU, None, why="the bias is returned, and changed after the attention", training=False)
def bias_returned_changed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> tuple[Tensor, Tensor]:
    bias = torch.zeros(q.shape[2], q.shape[2], device=q.device).masked_fill(~same_segment(q, cu), -1e9)
    out = sdpa(q, k, v, bias)
    bias += 1
    return out, bias


@WRONG_MASKS(
    packed(metadata.cu_seqlens(), lambda sizes, generator: torch.randn(sum(sizes), sum(sizes), generator=generator)),
    0,
    claim=claims.blocks,
    why="the values inside the blocks are a bias",
)
def bias_inside_the_blocks(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, bias: Tensor) -> Tensor:
    return sdpa(q, k, v, bias.masked_fill(~same_segment(q, cu), INF))


@WRONG_MASKS(CU, None, why="two masks, the second one over all", claim=claims.blocks)
def mask_of_another_call(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.any(0, keepdim=True).expand_as(mask))
