"""How a mask is written and applied: boolean, additive, explicit softmax; its shapes; what is and-ed to it."""

# mypy: disable-error-code="no-any-return"
# Any is what `**` and untyped functions of torch return.

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import claims, metadata
from .program import Corpus, packed

FORMS = Corpus()

CU = packed(metadata.cu_seqlens())
INF = float("-inf")


def rows(q: Tensor) -> Tensor:
    return torch.arange(q.shape[-2], device=q.device)


def tags_of(q: Tensor, cu: Tensor) -> Tensor:
    return torch.searchsorted(cu, rows(q), right=True)


def same_segment(q: Tensor, cu: Tensor) -> Tensor:
    """[S, S]."""
    tags = tags_of(q, cu)
    return tags[:, None] == tags[None, :]


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


# Equality, in the ways of writing it.


@FORMS(CU, 1, claim=claims.blocks)
def equal_unsqueezed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, torch.eq(tags.unsqueeze(-1), tags.unsqueeze(0)))


@FORMS(CU, 1, claim=claims.blocks)
def equal_views(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu).int()
    return sdpa(q, k, v, tags.view(-1, 1).eq(tags.view(1, -1)))


@FORMS(CU, 1, claim=claims.blocks)
def equal_transposed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = tags_of(q, cu)[None]
    return sdpa(q, k, v, row == row.T)


@FORMS(CU, 1, claim=claims.blocks)
def not_different(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, ~(tags[:, None] != tags[None, :]))


@FORMS(CU, 1, claim=claims.blocks)
def logical_not_of_different(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, torch.logical_not(tags[:, None].ne(tags[None, :])))


@FORMS(CU, None, claim=claims.blocks)
def difference_is_zero(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, (tags[:, None] - tags[None, :]) == 0)


@FORMS(CU, 1, claim=claims.blocks)
def expanded_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    length = q.shape[2]
    tags = tags_of(q, cu)
    return sdpa(q, k, v, tags[:, None].expand(length, length) == tags[None].expand(length, length))


# Shapes.


@FORMS(CU, 1, claim=claims.blocks)
def mask_of_3_dimensions(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu)[None])


@FORMS(CU, 1, claim=claims.blocks)
def mask_of_4_dimensions(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu).unsqueeze(0).unsqueeze(0))


@FORMS(CU, 1, claim=claims.blocks)
def mask_expanded_to_heads(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu)[None, None].expand(q.shape[0], q.shape[1], -1, -1))


@FORMS(CU, 1, claim=claims.blocks)
def mask_viewed_and_repeated(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu).view(1, 1, q.shape[2], q.shape[2]).repeat(1, q.shape[1], 1, 1)
    return sdpa(q, k, v, mask.contiguous())


@FORMS(CU, 1, claim=claims.blocks)
def attention_of_3_dimensions(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q[0], k[0], v[0], same_segment(q, cu)[None])[None]


@FORMS(CU, 1)
def attention_of_tokens_first(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    # [S, H, D], as the towers of vision models keep them.
    q, k, v = (x[0].transpose(0, 1).contiguous() for x in (q, k, v))
    tags = torch.searchsorted(cu, torch.arange(q.shape[0], device=q.device), right=True)
    mask = (tags[:, None] == tags[None, :]).unsqueeze(0)
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    out = sdpa(q, k, v, mask)
    return out.squeeze(0).transpose(0, 1).reshape(q.shape[2], -1)


# Additive masks.


@FORMS(CU, 1, claim=claims.blocks)
def additive_where_inf(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, torch.where(same_segment(q, cu), 0.0, INF).to(q.dtype))


@FORMS(CU, 1, claim=claims.blocks)
def additive_where_finfo_min(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    zero = torch.zeros((), dtype=q.dtype, device=q.device)
    return sdpa(q, k, v, torch.where(same_segment(q, cu), zero, torch.finfo(q.dtype).min))


@FORMS(CU, 1, claim=claims.blocks)
def additive_where_different(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    fill = torch.full((), INF, dtype=q.dtype, device=q.device)
    return sdpa(q, k, v, torch.where(tags[:, None] != tags[None, :], fill, torch.zeros_like(fill)))


@FORMS(CU, 1, claim=claims.blocks)
def additive_masked_fill_inf(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    return sdpa(q, k, v, torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, INF))


@FORMS(CU, 1, claim=claims.blocks)
def additive_masked_fill_in_place(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    bias = torch.zeros(q.shape[2], q.shape[2], dtype=q.dtype, device=q.device)
    bias.masked_fill_(same_segment(q, cu).logical_not(), INF)
    return sdpa(q, k, v, bias)


@FORMS(CU, 1, claim=claims.blocks)
def additive_full_then_zeroed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    bias = torch.full((q.shape[2], q.shape[2]), torch.finfo(q.dtype).min, dtype=q.dtype, device=q.device)
    return sdpa(q, k, v, bias.masked_fill(same_segment(q, cu), 0.0)[None, None])


@FORMS(CU, 1, claim=claims.blocks)
def additive_one_minus_mask(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)[None, None].to(q.dtype)
    return sdpa(q, k, v, (1.0 - mask) * torch.finfo(q.dtype).min)


@FORMS(CU, 1, claim=claims.blocks)
def additive_one_minus_mask_filled(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    inverted = 1.0 - same_segment(q, cu).to(q.dtype)
    return sdpa(q, k, v, inverted.masked_fill(inverted.bool(), torch.finfo(q.dtype).min))


@FORMS(CU, 1, claim=claims.blocks)
def additive_times_minus_1e9(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, (~same_segment(q, cu)).to(q.dtype) * -1e9)


@FORMS(CU, None, claim=claims.blocks)
def additive_one_minus_mask_1e4(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, (1.0 - same_segment(q, cu).float()) * -10000.0)


@FORMS(CU, None, claim=claims.blocks)
def additive_log_of_mask(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu).to(q.dtype).log())


@FORMS(CU, None, claim=claims.causal(claims.blocks))
def additive_sum_of_two(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    length, low = q.shape[2], torch.finfo(q.dtype).min
    future = torch.full((length, length), low, dtype=q.dtype, device=q.device).triu(1)
    segments = torch.zeros_like(future).masked_fill(~same_segment(q, cu), low)
    return sdpa(q, k, v, future + segments)


# Explicit softmax.


@FORMS(CU, 1, claim=claims.blocks)
def explicit_matmul_where(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    scores = torch.where(same_segment(q, cu), scores, INF)
    return torch.matmul(torch.softmax(scores, dim=-1), v)


@FORMS(CU, 1, claim=claims.blocks)
def explicit_operators_masked_fill(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@FORMS(CU, 1, claim=claims.blocks)
def explicit_masked_fill_finfo_min(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(same_segment(q, cu).logical_not()[None, None], torch.finfo(scores.dtype).min)
    return F.softmax(scores, dim=-1) @ v


@FORMS(CU, 1, claim=claims.blocks)
def explicit_additive_bias(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    bias = torch.zeros(q.shape[2], q.shape[2], dtype=q.dtype, device=q.device)
    bias = bias.masked_fill(~same_segment(q, cu), INF)
    return F.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias, dim=-1) @ v


@FORMS(CU, 1, claim=claims.blocks)
def explicit_query_scaled_first(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    bias = torch.where(same_segment(q, cu), 0.0, torch.finfo(q.dtype).min)
    return torch.softmax(scores + bias, -1) @ v


@FORMS(CU, 1, claim=claims.blocks)
def explicit_query_and_key_scaled(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scale = 1.0 / math.sqrt(math.sqrt(q.shape[-1]))
    scores = torch.einsum("bhqd,bhkd->bhqk", q * scale, k * scale)
    weights = torch.softmax(scores.float().masked_fill(~same_segment(q, cu), INF), dim=-1).type(scores.dtype)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


@FORMS(CU, 1, claim=claims.blocks)
def explicit_einsum(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = torch.einsum("b h q d, b h k d -> b h q k", q, k) / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~same_segment(q, cu), INF).softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


@FORMS(CU, 1)
def explicit_einsum_heads_last(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    weights = torch.softmax(scores + torch.where(mask, 0.0, INF), dim=-1)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)


@FORMS(CU, 1)
def explicit_baddbmm(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    bias = torch.where(same_segment(q, cu), 0.0, torch.finfo(q.dtype).min).to(q.dtype)
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    scores = torch.baddbmm(
        bias.expand(q.shape[0], -1, -1), q, k.transpose(-1, -2), beta=1.0, alpha=1.0 / math.sqrt(q.shape[-1])
    )
    return torch.bmm(scores.softmax(dim=-1), v)


@FORMS(CU, 1)
def explicit_baddbmm_of_nothing(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    empty = torch.empty(q.shape[0], q.shape[1], k.shape[1], dtype=q.dtype, device=q.device)
    scores = torch.baddbmm(empty, q, k.transpose(-1, -2), beta=0, alpha=q.shape[-1] ** -0.5)
    return torch.bmm(scores.masked_fill(~mask, INF).softmax(dim=-1), v)


@FORMS(CU, 1, claim=claims.blocks)
def explicit_float32_softmax(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5
    scores = scores + torch.where(same_segment(q, cu), 0.0, torch.finfo(q.dtype).min)[None, None]
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(F.dropout(weights, p=0.1, training=False), v)


@FORMS(CU, 1, claim=claims.blocks)
def explicit_in_place(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2)
    scores *= q.shape[-1] ** -0.5
    scores.masked_fill_(~same_segment(q, cu), INF)
    return scores.softmax(-1) @ v


@FORMS(CU, 1, claim=claims.blocks)
def explicit_mask_before_scale(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).masked_fill(~same_segment(q, cu), INF)
    return (scores / math.sqrt(q.shape[-1])).softmax(-1) @ v


@FORMS(CU, 1, claim=claims.blocks, tolerance=3e-2)
def explicit_in_bfloat16(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    half_q, half_k, half_v = (x.bfloat16() for x in (q, k, v))
    scores = half_q @ half_k.transpose(-1, -2) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~same_segment(q, cu), torch.finfo(scores.dtype).min)
    return (scores.softmax(-1, dtype=torch.float32).to(torch.bfloat16) @ half_v).to(q.dtype)


class Softmax(nn.Module):
    """Explicit attention out of modules; evaluation switches its dropout off."""

    def __init__(self) -> None:
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
        scores = torch.matmul(q, k.transpose(-1, -2)).div(math.sqrt(q.size(-1)))
        scores = scores.masked_fill(same_segment(q, cu) == 0, -1e9)
        return torch.matmul(self.dropout(self.softmax(scores)), v)


_softmax = Softmax().eval()


@FORMS(CU, 1, claim=claims.blocks)
def explicit_modules(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return _softmax(q, k, v, cu)


@FORMS(CU, None, claim=claims.blocks)
def explicit_renormalized(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    weights = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) * same_segment(q, cu)
    return (weights / weights.sum(-1, keepdim=True)) @ v


# And-ed.


@FORMS(CU, 1, claim=claims.causal(claims.blocks))
def causal_tril_of_ones(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    causal = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).tril(diagonal=0)
    return sdpa(q, k, v, same_segment(q, cu) & causal)


@FORMS(CU, 1, claim=claims.causal(claims.blocks))
def causal_tril_of_mask(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, v, same_segment(q, cu).tril()[None, None])


@FORMS(CU, 1, claim=claims.causal(claims.blocks))
def causal_rows_compared(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = rows(q)
    return sdpa(q, k, v, torch.logical_and(same_segment(q, cu), row[:, None] >= row[None, :]))


@FORMS(CU, 1, claim=claims.causal(claims.blocks))
def causal_not_triu(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    future = torch.triu(torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device), diagonal=1)
    return sdpa(q, k, v, same_segment(q, cu).masked_fill(future, False))


@FORMS(CU, 1, claim=claims.causal(claims.blocks))
def causal_where(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = rows(q)
    return sdpa(q, k, v, torch.where(row[None, :] <= row[:, None], same_segment(q, cu), False))


@FORMS(CU, 1, claim=claims.causal(claims.blocks))
def causal_product(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    ones = torch.ones(q.shape[2], q.shape[2], device=q.device)
    return sdpa(q, k, v, (same_segment(q, cu) * torch.tril(ones)).bool())


@FORMS(CU, 1, claim=claims.causal(claims.blocks))
def causal_explicit_two_fills(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    scores = scores.masked_fill(future, INF).masked_fill(~same_segment(q, cu), INF)
    return scores.softmax(-1) @ v


@FORMS(packed(metadata.position_ids()), 1, claim=claims.causal(claims.blocks))
def causal_zero_positions(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    tags = position_ids[0].eq(0).cumsum(0)
    row = rows(q)
    return sdpa(q, k, v, (tags[:, None] == tags[None, :]) & (row[:, None] >= row[None, :]))


@FORMS(CU, None, claim=claims.causal(claims.blocks))
def causal_positions_from_boundaries(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = rows(q)
    tags = torch.searchsorted(cu[1:], row, right=True)
    position = row - cu[tags]
    return sdpa(q, k, v, (tags[:, None] == tags[None, :]) & (position[:, None] >= position[None, :]))


@FORMS(CU, 1, claim=claims.window(claims.blocks, 2, 0))
def window_causal_difference(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    distance = rows(q)[:, None] - rows(q)[None, :]
    return sdpa(q, k, v, same_segment(q, cu) & (distance >= 0) & (distance < 3))


@FORMS(CU, 1, claim=claims.window(claims.blocks, 2, 0))
def window_causal_compared(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    query, key = rows(q)[:, None], rows(q)[None, :]
    return sdpa(q, k, v, (key > query - 3) & (key <= query) & same_segment(q, cu))


@FORMS(CU, 1, claim=claims.window(claims.blocks, 2, 0))
def window_causal_triangles(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    ones = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device)
    return sdpa(q, k, v, same_segment(q, cu) & ones.tril() & ones.triu(-2))


@FORMS(CU, 1, claim=claims.window(claims.blocks, 2, 2))
def window_absolute_distance(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    distance = (rows(q)[:, None] - rows(q)[None, :]).abs()
    return sdpa(q, k, v, (same_segment(q, cu) & (distance <= 2))[None, None])


@FORMS(CU, 1, claim=claims.window(claims.blocks, 2, 2))
def window_additive(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    low = torch.finfo(q.dtype).min
    bias = torch.zeros(q.shape[2], q.shape[2], dtype=q.dtype, device=q.device)
    bias = bias.masked_fill(~same_segment(q, cu), low)
    row = rows(q).unsqueeze(0)
    near = torch.abs(row - row.T) <= 2
    return sdpa(q, k, v, bias.masked_fill(near.logical_not(), low))


@FORMS(CU, 1, claim=claims.window(claims.blocks, 2, 0))
def window_from_an_argument(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return _windowed(q, k, v, cu, window=3)


def _windowed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, *, window: int) -> Tensor:
    query, key = rows(q).view(-1, 1), rows(q).view(1, -1)
    near = (query - key).lt(window) & key.le(query)
    return sdpa(q, k, v, same_segment(q, cu) & near)
