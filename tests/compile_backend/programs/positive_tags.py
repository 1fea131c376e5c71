"""Where block structure comes from: each way of numbering the segments, under a boolean mask and SDPA."""

# mypy: disable-error-code="no-any-return"
# Any is what `**` and untyped functions of torch return.

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from . import claims, metadata
from .program import Adverse, Corpus, Sizes, packed

TAGS = Corpus()

MARKER = 7


def attend(q: Tensor, k: Tensor, v: Tensor, tags: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=tags[:, None] == tags[None, :])


def rows(q: Tensor) -> Tensor:
    return torch.arange(q.shape[-2], device=q.device)


# What a caller may do to boundaries. The masks that these make are well defined, and not blocks of the lengths.
def _changed(
    change: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.int32
) -> Callable[[Sizes, torch.Generator], Tensor]:
    return lambda sizes, generator: change(metadata.cu_seqlens(dtype)(sizes, generator))


def _short(cu: Tensor) -> Tensor:
    return torch.clamp(cu, max=int(cu[-1]) - 3)


def _late(cu: Tensor) -> Tensor:
    return torch.clamp(cu, min=2)


def _long(cu: Tensor) -> Tensor:
    return torch.cat([cu[:-1], cu[-1:] + 5])


def _unsorted(cu: Tensor) -> Tensor:
    return torch.cat([cu[:1], cu[1:-1].flip(0), cu[-1:]])


def _repeated(cu: Tensor) -> Tensor:
    return torch.cat([cu, cu[-1:].expand(3)])


BOUNDARIES = (
    Adverse(name="last boundary before the end", inputs=packed(_changed(_short))),
    Adverse(name="first boundary after the start", inputs=packed(_changed(_late))),
    Adverse(name="last boundary past the end", inputs=packed(_changed(_long)), invalid=True),
    Adverse(name="unsorted boundaries", inputs=packed(_changed(_unsorted)), invalid=True),
    Adverse(name="repeated last boundary", inputs=packed(_changed(_repeated))),
)


@TAGS(packed(metadata.cu_seqlens()), 1, claim=claims.blocks, adverse=BOUNDARIES)
def searchsorted_right(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(cu, rows(q), right=True))


@TAGS(
    packed(metadata.cu_seqlens(torch.int64)),
    1,
    claim=claims.blocks,
    adverse=(Adverse(name="short", inputs=packed(_changed(_short, torch.int64))),),
)
def searchsorted_int64_minus_one(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(cu, rows(q), right=True) - 1)


@TAGS(packed(metadata.cu_seqlens()), 1, claim=claims.blocks, adverse=BOUNDARIES)
def searchsorted_ends_of_cu(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = torch.searchsorted(cu[1:], rows(q), right=True, out_int32=True)
    return attend(q, k, v, tags)


@TAGS(packed(metadata.ends()), 1, claim=claims.blocks)
def searchsorted_without_leading_zero(q: Tensor, k: Tensor, v: Tensor, ends: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(ends.contiguous(), rows(q), right=True))


@TAGS(packed(metadata.cu_seqlens()), 1, claim=claims.blocks, adverse=BOUNDARIES)
def searchsorted_left_of_the_next_row(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(cu, torch.arange(1, q.shape[2] + 1, device=q.device)))


@TAGS(packed(metadata.cu_seqlens()), 1, claim=claims.blocks)
def bucketize_ends_right(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.bucketize(rows(q), cu[1:], right=True))


@TAGS(
    packed(metadata.cu_seqlens(torch.int64)),
    1,
    claim=claims.blocks,
    adverse=(
        Adverse(name="short", inputs=packed(_changed(_short, torch.int64))),
        Adverse(name="late", inputs=packed(_changed(_late, torch.int64))),
    ),
)
def bucketize_inner_boundaries(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.bucketize(rows(q), cu[1:-1], right=True))


@TAGS(packed(metadata.cu_seqlens()), 1, claim=claims.blocks)
def bucketize_int32_rows_clamped(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = torch.arange(q.size(2), dtype=torch.int32, device=q.device)
    return attend(q, k, v, (torch.bucketize(row, cu, right=True) - 1).clamp(min=0))


@TAGS(packed(metadata.lens()), 1, claim=claims.blocks)
def cumsum_of_lens_padded_in_front(q: Tensor, k: Tensor, v: Tensor, lens: Tensor) -> Tensor:
    cu = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
    return attend(q, k, v, torch.searchsorted(cu, rows(q), right=True))


@TAGS(packed(metadata.lens()), 1, claim=claims.blocks)
def cumsum_of_lens_after_a_zero(q: Tensor, k: Tensor, v: Tensor, lens: Tensor) -> Tensor:
    cu = torch.cat([torch.zeros(1, dtype=lens.dtype, device=lens.device), torch.cumsum(lens, dim=0)])
    return attend(q, k, v, torch.bucketize(rows(q), cu, right=True))


@TAGS(packed(metadata.lens(torch.int32)), 1, claim=claims.blocks)
def cumsum_of_lens_set_into_zeros(q: Tensor, k: Tensor, v: Tensor, lens: Tensor) -> Tensor:
    cu = lens.new_zeros(lens.numel() + 1)
    cu[1:] = lens.cumsum(0)
    return attend(q, k, v, torch.searchsorted(cu, rows(q), right=True))


def _other_total(sizes: Sizes, _: torch.Generator) -> Tensor:
    return torch.tensor([*sizes[:-1], sizes[-1] - 1, 1])


@TAGS(packed(metadata.lens()), 1, claim=claims.blocks, adverse=(Adverse(name="split", inputs=packed(_other_total)),))
def repeat_interleave_lens(q: Tensor, k: Tensor, v: Tensor, lens: Tensor) -> Tensor:
    index = torch.arange(lens.shape[0], device=lens.device)
    return attend(q, k, v, torch.repeat_interleave(index, lens, output_size=q.shape[2]))


@TAGS(packed(metadata.cu_seqlens()), 1, claim=claims.blocks)
def repeat_interleave_differences_of_cu(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    counts = cu[1:] - cu[:-1]
    index = torch.arange(len(counts), dtype=torch.int32, device=cu.device)
    return attend(q, k, v, index.repeat_interleave(counts, output_size=q.shape[2]))


@TAGS(packed(metadata.cu_seqlens(torch.int64)), 1, claim=claims.blocks)
def repeat_interleave_counts_only(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.repeat_interleave(torch.diff(cu), output_size=q.shape[2]))


@TAGS(packed(metadata.cu_seqlens()), 1, claim=claims.blocks)
def repeat_interleave_starts(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    # Empty segments share their start with the next one, and have no row.
    starts = torch.repeat_interleave(cu[:-1], cu.diff(), output_size=q.shape[2])
    return attend(q, k, v, starts)


@TAGS(
    packed(metadata.cu_seqlens()),
    1,
    claim=claims.blocks,
    adverse=(
        Adverse(name="first boundary after the start", inputs=packed(_changed(_late))),
        Adverse(name="last boundary before the end", inputs=packed(_changed(_short))),
        Adverse(name="unsorted boundaries", inputs=packed(_changed(_unsorted)), invalid=True),
    ),
)
def setitem_cumsum(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    flags = torch.zeros(q.shape[2] + 1, dtype=torch.int64, device=q.device)
    flags[cu.long()] = 1
    return attend(q, k, v, flags[:-1].cumsum(0))


@TAGS(packed(metadata.cu_seqlens(torch.int64)), 1, claim=claims.blocks)
def scatter_cumsum(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    flags = torch.zeros(q.shape[2] + 1, dtype=torch.int32, device=q.device)
    flags = flags.scatter(0, cu[1:], 1)[:-1]
    return attend(q, k, v, torch.cumsum(flags, 0))


@TAGS(packed(metadata.cu_seqlens(torch.int64)), 1, claim=claims.blocks)
def index_add_cumsum(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    flags = torch.zeros(q.shape[2] + 1, dtype=torch.int64, device=q.device)
    flags.index_add_(0, cu[1:-1], torch.ones_like(cu[1:-1]))
    return attend(q, k, v, flags[:-1].cumsum(-1))


@TAGS(packed(metadata.cu_seqlens(torch.int64)), 1, claim=claims.blocks)
def index_put_accumulate_cumsum(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    flags = torch.zeros(q.shape[2] + 1, dtype=torch.int64, device=q.device)
    one = torch.ones((), dtype=torch.int64, device=q.device)
    flags = flags.index_put((cu[:-1],), one, accumulate=True)[: q.shape[2]]
    return attend(q, k, v, flags.cumsum(0) - 1)


def _starting_late(sizes: Sizes, generator: torch.Generator) -> Tensor:
    return metadata.position_ids()(sizes, generator) + 3 * (torch.arange(sum(sizes)) < 2)


@TAGS(
    packed(metadata.position_ids()),
    1,
    claim=claims.blocks,
    adverse=(Adverse(name="no zero at the start", inputs=packed(_starting_late)),),
)
def cumsum_of_zero_positions(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    tags = (position_ids == 0).cumsum(-1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=tags[:, None, :, None] == tags[:, None, None, :])


@TAGS(packed(metadata.position_ids(torch.int32)), 1, claim=claims.blocks)
def cumsum_of_zero_positions_cast(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    tags = torch.cumsum(position_ids.flatten().eq(0).to(torch.int32), dim=0) - 1
    return attend(q, k, v, tags)


@TAGS(packed(metadata.tokens(MARKER, first=True)), 1, claim=claims.blocks)
def cumsum_of_first_tokens(q: Tensor, k: Tensor, v: Tensor, tokens: Tensor) -> Tensor:
    return attend(q, k, v, (tokens[0] == MARKER).cumsum(0))


@TAGS(packed(metadata.tokens(MARKER, first=False)), 1, claim=claims.blocks)
def shifted_cumsum_of_last_tokens(q: Tensor, k: Tensor, v: Tensor, tokens: Tensor) -> Tensor:
    ends = torch.where(tokens == MARKER, 1, 0).cumsum(dim=1)
    tags = torch.zeros_like(tokens, dtype=torch.int32)
    tags[:, 1:] = ends[:, :-1]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(tags[:, :, None] == tags[:, None, :])[:, None])


@TAGS(packed(metadata.tokens(MARKER, first=False)), None, claim=claims.blocks)
def exclusive_cumsum_of_last_tokens(q: Tensor, k: Tensor, v: Tensor, tokens: Tensor) -> Tensor:
    last = (tokens[0] == MARKER).long()
    return attend(q, k, v, last.cumsum(0) - last)


def _neighbours(position_ids: Tensor) -> Tensor:
    before_first = position_ids[:, :1] - 1
    step = torch.diff(position_ids, prepend=before_first, dim=-1)
    return (step != 1).cumsum(-1)


def _skipping(sizes: Sizes, generator: torch.Generator) -> Tensor:
    return metadata.position_ids()(sizes, generator) + (torch.arange(sum(sizes)) >= 2)


POSITIONS = (
    Adverse(name="a jump inside a segment", inputs=packed(_skipping)),
    Adverse(name="all zero", inputs=packed(lambda sizes, _: torch.zeros(1, sum(sizes), dtype=torch.int64))),
    Adverse(name="descending", inputs=packed(lambda sizes, _: torch.arange(sum(sizes)).flip(0)[None])),
)


@TAGS(packed(metadata.position_ids()), 1, claim=claims.causal(claims.blocks), adverse=POSITIONS)
def packed_positions_advanced_indexing(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    tags = _neighbours(position_ids)
    batch = torch.arange(q.shape[0], device=q.device)[:, None, None, None]
    query = rows(q)[None, None, :, None]
    key = rows(q)[None, None, None, :]
    mask = q.new_ones((), dtype=torch.bool) & (key <= query) & (tags[batch, query] == tags[batch, key])
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask.expand(q.shape[0], -1, -1, -1), dropout_p=0.0, scale=q.shape[-1] ** -0.5
    )


@TAGS(packed(metadata.position_ids()), 1, claim=claims.causal(claims.blocks), adverse=POSITIONS)
def packed_positions_compared(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    tags = _neighbours(position_ids)
    batch = torch.arange(q.shape[0], device=q.device)[:, None, None, None]
    query = rows(q)[None, None, :, None]
    key = rows(q)[None, None, None, :]
    # Positions step by one inside a segment, because the segments are where they do: their order is that of the rows.
    mask = (position_ids[batch, key] <= position_ids[batch, query]) & (tags[batch, query] == tags[batch, key])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=False)


@TAGS(packed(metadata.position_ids()), 1, claim=claims.causal(claims.blocks), adverse=POSITIONS)
def packed_positions_eager(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    tags = _neighbours(position_ids)
    batch = torch.arange(q.shape[0], device=q.device)[:, None, None, None]
    query = rows(q)[None, None, :, None]
    key = rows(q)[None, None, None, :]
    mask = (key <= query) & (tags[batch, query] == tags[batch, key])
    bias = torch.where(mask, torch.tensor(0.0, dtype=q.dtype, device=q.device), torch.finfo(q.dtype).min)
    weights = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5 + bias
    weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(F.dropout(weights, p=0.0, training=True), v)


def _shuffled(sizes: Sizes, generator: torch.Generator) -> Tensor:
    return metadata.ids()(sizes, generator)[torch.randperm(sum(sizes), generator=generator)]


def _apart(sizes: Sizes, generator: torch.Generator) -> Tensor:
    # The first document comes back at the end.
    made = metadata.ids()(sizes, generator)
    made[-2:] = made[0]
    return made


IDS = (
    Adverse(name="ids in any order", inputs=packed(_shuffled)),
    Adverse(name="a document in two parts", inputs=packed(_apart)),
    Adverse(name="descending ids", inputs=packed(lambda sizes, _: -metadata.ids()(sizes, _))),
    Adverse(name="one document", inputs=packed(lambda sizes, _: torch.full((sum(sizes),), -1))),
    Adverse(name="huge ids", inputs=packed(lambda sizes, _: metadata.ids()(sizes, _) * 2**61 - 2**62)),
)


@TAGS(packed(metadata.ids()), 1, claim=claims.blocks, runtime=True, adverse=IDS)
def document_ids(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return attend(q, k, v, ids)


TAGS.variant(document_ids, "document_ids_that_come_apart", inputs=packed(_apart), claim=None, adverse=())
TAGS.variant(document_ids, "document_ids_in_any_order", inputs=packed(_shuffled), claim=None, adverse=())


@TAGS(packed(metadata.ids(torch.int32, batch=True)), 1, claim=claims.causal(claims.blocks), runtime=True)
def document_ids_of_a_batch_of_one_causal(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    same = ids.unsqueeze(1) == ids.unsqueeze(2)
    causal = torch.tril(torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(same & causal).unsqueeze(1))


TAGS.variant(
    document_ids_of_a_batch_of_one_causal,
    "document_ids_in_any_order_causal",
    inputs=packed(lambda sizes, generator: _shuffled(sizes, generator)[None].int()),
    claim=None,
)


@TAGS(packed(metadata.cu_seqlens()), None, claim=claims.blocks, adverse=BOUNDARIES)
def count_of_passed_boundaries(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, (rows(q)[:, None] >= cu[None, 1:]).sum(-1))


@TAGS(packed(metadata.cu_seqlens()), None, claim=claims.blocks)
def searchsorted_side_right(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(cu, rows(q), side="right"))


@TAGS(packed(lambda sizes, _: torch.tensor([[1, size, 1] for size in sizes])), 1, claim=claims.blocks)
def boundaries_of_image_grids(q: Tensor, k: Tensor, v: Tensor, grid_thw: Tensor) -> Tensor:
    # The number of frames is a value: the graph breaks before the mask, which sees cu as its input.
    frames = torch.repeat_interleave(grid_thw[:, 1] * grid_thw[:, 2], grid_thw[:, 0])
    cu = F.pad(frames.cumsum(dim=0, dtype=torch.int32), (1, 0), value=0)
    return attend(q, k, v, torch.searchsorted(cu, rows(q), right=True))
