"""Numbers of rows that are not what they seem: under each, the mask is not blocks of the boundaries.

Most are still "same group" masks, which an attention over groups can execute; so any number of lowered sites is fine, as
long as the groups are those of the numbers.
"""

# mypy: disable-error-code="no-any-return"
# Any is what `**` and untyped functions of torch return.

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from . import claims, metadata
from .positive_forms import CU, rows, same_segment, sdpa, tags_of
from .positive_tags import attend
from .program import Claim, Corpus, Sizes, cross, packed, padded

WRONG_TAGS = Corpus()


def groups(group: Callable[[int], int]) -> Claim:
    return lambda sizes: claims.grouped(sizes, group)


# Off by one, and other boundaries than those at hand.


@WRONG_TAGS(CU, None, claim=claims.blocks, why="right=False: every segment begins one row late")
def searchsorted_left(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(cu, rows(q)))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="right=False: every segment begins one row late")
def bucketize_left(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.bucketize(rows(q), cu[1:]))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="rows counted from one: every segment begins one row early")
def searchsorted_rows_from_one(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(cu, rows(q) + 1, right=True))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="every second row only is searched for")
def searchsorted_of_doubled_rows(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(cu, torch.arange(0, 2 * q.shape[2], 2), right=True))


@WRONG_TAGS(CU, None, why="rows in descending order: tags descend too")
def searchsorted_of_flipped_rows(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(cu, rows(q).flip(0), right=True))


@WRONG_TAGS(
    packed(lambda sizes, generator: metadata.cu_seqlens()(sizes, generator).flip(0)),
    None,
    why="cu is descending; sorter puts it in order",
)
def searchsorted_with_sorter(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(cu, rows(q), right=True, sorter=torch.argsort(cu)))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="two boundaries of three are missing")
def searchsorted_of_every_third_boundary(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(cu[::3].contiguous(), rows(q), right=True))


@WRONG_TAGS(packed(metadata.lens()), None, claim=claims.blocks, why="lengths taken for boundaries, not sorted either")
def searchsorted_of_lengths(q: Tensor, k: Tensor, v: Tensor, lens: Tensor) -> Tensor:
    return attend(q, k, v, torch.searchsorted(lens, rows(q), right=True))


@WRONG_TAGS(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.tensor([0, 2, 7, sum(sizes)], dtype=torch.int32)),
    None,
    claim=claims.blocks,
    why="the keys are numbered by the boundaries of another stream",
)
def tags_of_two_streams(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, other: Tensor) -> Tensor:
    return sdpa(q, k, v, tags_of(q, cu)[:, None] == tags_of(q, other)[None, :])


@WRONG_TAGS(CU, None, claim=claims.blocks, why="where segments are empty, the two ways of numbering differ")
def tags_of_two_numberings(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    flags = torch.zeros(q.shape[2] + 1, dtype=torch.int64, device=q.device)
    flags[cu.long()] = 1
    return sdpa(q, k, v, tags_of(q, cu)[:, None] + 1 == flags[:-1].cumsum(0)[None, :] + 1 + (cu[0] == 0))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="the mask compares the rows with their neighbours' tags")
def tags_and_rolled_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, tags[:, None] == tags.roll(1)[None, :])


@WRONG_TAGS(CU, None, claim=claims.blocks, why="the keys' tags are read backwards")
def tags_and_flipped_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, tags[:, None] == tags.flip(0)[None, :])


@WRONG_TAGS(
    packed(metadata.cu_seqlens(), lambda sizes, generator: torch.randperm(sum(sizes), generator=generator)),
    None,
    claim=claims.blocks,
    why="the tags are permuted",
)
def tags_in_another_order(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, order: Tensor) -> Tensor:
    return attend(q, k, v, tags_of(q, cu)[order])


@WRONG_TAGS(
    packed(metadata.cu_seqlens(), lambda sizes, generator: torch.randperm(sum(sizes), generator=generator)),
    None,
    claim=claims.blocks,
    why="only the queries' tags are permuted",
)
def query_tags_in_another_order(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, order: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, tags[order][:, None] == tags[None, :])


@WRONG_TAGS(CU, None, why="tags in descending order")
def negated_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, -tags_of(q, cu))


# Arithmetic that lets segments collide.


@WRONG_TAGS(CU, None, claim=claims.blocks, why="segments two apart have one number")
def tags_modulo_two(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, tags_of(q, cu) % 2)


@WRONG_TAGS(CU, None, claim=claims.blocks, why="pairs of segments have one number")
def halved_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, (tags_of(q, cu) + 1) // 2)


@WRONG_TAGS(CU, None, claim=claims.blocks, why="all segments after the second have one number")
def clamped_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, tags_of(q, cu).clamp(max=2))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="the first and the third segment have one number")
def absolute_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, (tags_of(q, cu) - 2).abs())


@WRONG_TAGS(CU, None, claim=claims.blocks, why="all segments have the number True")
def tags_as_booleans(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, tags_of(q, cu).bool())


@WRONG_TAGS(CU, None, claim=claims.blocks, why="bits of the number only")
def tags_and_one(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, tags_of(q, cu) & 1)


@WRONG_TAGS(CU, None, claim=claims.blocks, why="one segment loses its number to another")
def replaced_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return attend(q, k, v, torch.where(tags == 3, 1, tags))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="times zero")
def tags_times_zero(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, tags_of(q, cu) * 0)


@WRONG_TAGS(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.tensor(0)), None, claim=claims.blocks, why="times a zero input"
)
def tags_times_an_input(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, factor: Tensor) -> Tensor:
    return attend(q, k, v, tags_of(q, cu) * factor)


@WRONG_TAGS(CU, None, claim=claims.blocks, why="the row's number is subtracted: groups of anti-diagonals")
def tags_minus_rows(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, 2 * tags_of(q, cu) - rows(q))


# 300 segments of one token: the first and the 257th get one number from 8 bits.
MANY: tuple[Sizes, ...] = ((1,) * 300, (2,) * 270)


@WRONG_TAGS(packed(metadata.position_ids()), None, claim=claims.blocks, sizes=MANY, why="uint8 wraps at 256")
def cumsum_in_uint8(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    return attend(q, k, v, (position_ids[0] == 0).cumsum(0, dtype=torch.uint8))


@WRONG_TAGS(packed(metadata.position_ids()), None, claim=claims.blocks, sizes=MANY, why="int8 wraps at 128, then meets")
def cumsum_in_int8(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    return attend(q, k, v, torch.cumsum((position_ids[0] == 0).to(torch.int8), 0, dtype=torch.int8))


@WRONG_TAGS(CU, None, claim=claims.blocks, sizes=MANY, why="uint8 wraps at 256")
def tags_cast_to_uint8(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, tags_of(q, cu).to(torch.uint8))


@WRONG_TAGS(packed(metadata.position_ids()), None, claim=claims.blocks, sizes=MANY, why="bfloat16 has 8 bits")
def cumsum_in_bfloat16(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    return attend(q, k, v, (position_ids[0] == 0).cumsum(0, dtype=torch.bfloat16))


@WRONG_TAGS(CU, None, claim=claims.blocks, sizes=MANY, why="bfloat16 has 8 bits")
def tags_cast_to_bfloat16(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, tags_of(q, cu).bfloat16())


@WRONG_TAGS(
    packed(metadata.position_ids(), heads=1, channels=2),
    None,
    claim=claims.blocks,
    sizes=((1,) * 2060, (1,) * 2075),
    why="float16 has 11 bits",
)
def cumsum_in_float16(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    return attend(q, k, v, (position_ids[0] == 0).half().cumsum(0))


@WRONG_TAGS(
    packed(lambda sizes, _: torch.tensor([2**31 - 2, *([2**31 - 1] * (len(sizes) - 1))]).int(), metadata.cu_seqlens()),
    None,
    why="the cumulative sum of int32 numbers wraps, if kept in int32",
)
def cumsum_of_large_numbers(q: Tensor, k: Tensor, v: Tensor, numbers: Tensor, cu: Tensor) -> Tensor:
    tags = numbers.cumsum(0, dtype=torch.int32)[tags_of(q, cu) - 1]
    return attend(q, k, v, tags)


# Sums that go down again.


@WRONG_TAGS(packed(lambda sizes, _: torch.tensor([1, -1]).repeat(sum(sizes))[: sum(sizes)]), None, why="negative terms")
def cumsum_of_signed_numbers(q: Tensor, k: Tensor, v: Tensor, numbers: Tensor) -> Tensor:
    return attend(q, k, v, numbers.cumsum(0))


@WRONG_TAGS(packed(metadata.ids()), None, claim=claims.blocks, why="differences of ids that come back are negative")
def cumsum_of_differences(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    back = torch.where(ids == ids[-1], 0, ids)
    return attend(q, k, v, torch.diff(back, prepend=back[:1]).cumsum(0))


@WRONG_TAGS(packed(metadata.position_ids()), None, claim=claims.blocks, why="cumsum minus twice its term")
def cumsum_minus_flags(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    flags = (position_ids[0] == 0).long()
    return attend(q, k, v, flags.cumsum(0) - 2 * flags)


@WRONG_TAGS(packed(metadata.position_ids()), None, claim=claims.blocks, why="a sum from the end counts down")
def cumsum_from_the_end(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    return attend(q, k, v, (position_ids[0] == 0).long().flip(0).cumsum(0).flip(0))


def _ids_of_samples(sizes: Sizes, generator: torch.Generator) -> Tensor:
    return torch.randint(0, 2, (len(sizes), max(sizes)), generator=generator)


@WRONG_TAGS(padded(_ids_of_samples), None, why="summed over the samples, not the rows")
def cumsum_over_the_batch(q: Tensor, k: Tensor, v: Tensor, flags: Tensor) -> Tensor:
    tags = flags.cumsum(0)
    return sdpa(q, k, v, (tags[:, :, None] == tags[:, None, :])[:, None])


@WRONG_TAGS(
    packed(lambda sizes, _: torch.tensor([1, 0, 1, 2, 1, 0])[: len(sizes)], metadata.lens()),
    None,
    claim=claims.blocks,
    why="the repeated numbers are not sorted: segments 0 and 2 share one",
)
def repeat_interleave_of_any_numbers(q: Tensor, k: Tensor, v: Tensor, numbers: Tensor, lens: Tensor) -> Tensor:
    return attend(q, k, v, torch.repeat_interleave(numbers, lens, output_size=q.shape[2]))


@WRONG_TAGS(packed(metadata.lens()), None, claim=claims.blocks, why="arange modulo")
def repeat_interleave_of_parity(q: Tensor, k: Tensor, v: Tensor, lens: Tensor) -> Tensor:
    index = torch.arange(lens.numel(), device=q.device) % 2
    return attend(q, k, v, torch.repeat_interleave(index, lens, output_size=q.shape[2]))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="positions, not segments, are compared")
def positions_compared_for_equality(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, rows(q) - cu[tags_of(q, cu) - 1])


@WRONG_TAGS(packed(metadata.position_ids()), None, claim=claims.blocks, why="flags without their sum")
def flags_without_cumsum(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    return attend(q, k, v, (position_ids[0] == 0).long())


@WRONG_TAGS(packed(metadata.position_ids()), None, claim=claims.blocks, why="every row that is not a first one counts")
def cumsum_of_nonzero_positions(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    return attend(q, k, v, (position_ids[0] != 0).cumsum(0))


# Arithmetic on rows alone: blocks of equal length.


@WRONG_TAGS(CU, None, claim=claims.blocks, why="blocks of four rows, whatever cu says")
def rows_divided(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, rows(q) // 4)


@WRONG_TAGS(CU, None, claim=claims.blocks, why="chunks inside the segments")
def segments_and_chunks(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    chunk = rows(q) // 3
    mask = same_segment(q, cu) & (chunk[:, None] == chunk[None, :]) & (rows(q)[:, None] >= rows(q)[None, :])
    return sdpa(q, k, v, mask)


@WRONG_TAGS(CU, None, claim=claims.blocks, why="every fourth row, a comb")
def rows_modulo(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, rows(q) % 4)


# Values and types that equality treats in its own way.


@WRONG_TAGS(CU, None, why="numbers that depend on the data")
def tags_from_argmax(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, k[0].sum(0).argmax(-1))


@WRONG_TAGS(CU, None, why="random numbers")
def random_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, torch.randint(0, 3, (q.shape[2],), device=q.device))


@WRONG_TAGS(CU, None, why="queries and keys draw their own random numbers")
def random_tags_drawn_twice(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    first = torch.randint(0, 3, (q.shape[2],), device=q.device)
    second = torch.randint(0, 3, (q.shape[2],), device=q.device)
    return sdpa(q, k, v, first[:, None] == second[None, :])


def _with_nan(sizes: Sizes, generator: torch.Generator) -> Tensor:
    made = metadata.ids(torch.float32)(sizes, generator)
    made[1::4] = float("nan")
    return made


@WRONG_TAGS(packed(metadata.ids(torch.float32)), None, why="float ids may be NaN")
def float_ids(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return attend(q, k, v, ids)


WRONG_TAGS.variant(
    float_ids, "nan_ids", inputs=packed(_with_nan), claim=claims.blocks, why="NaN equals nothing, not even itself"
)
WRONG_TAGS.variant(
    float_ids,
    "signed_zeros_as_ids",
    inputs=packed(lambda sizes, _: torch.tensor([0.0, -0.0, 1.0]).repeat(sum(sizes))[: sum(sizes)]),
    why="0.0 equals -0.0",
)


@WRONG_TAGS(packed(metadata.position_ids()), None, why="0/0 is NaN, which equals nothing")
def divided_tags(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    return attend(q, k, v, position_ids[0] / position_ids[0])


@WRONG_TAGS(CU, None, claim=claims.blocks, why="rounded: int64 numbers beyond 2**25 in float32 meet")
def tags_rounded_to_float32(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return attend(q, k, v, (tags_of(q, cu) + 2**25).float())


@WRONG_TAGS(CU, None, claim=claims.blocks, why="isclose, not eq: neighbours are close")
def close_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu).float()
    return sdpa(q, k, v, torch.isclose(tags[:, None], tags[None, :], atol=1.5))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="differs by at most one: neighbours too")
def neighbouring_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, (tags[:, None] - tags[None, :]).abs() <= 1)


# In-place changes, before and after the mask is made.


@WRONG_TAGS(CU, None, claim=claims.blocks, why="the tags are changed before the mask is made")
def tags_changed_before(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    tags[3:9] = 1
    return attend(q, k, v, tags)


@WRONG_TAGS(CU, None, claim=claims.blocks, why="a view of the tags is changed before the mask is made")
def view_of_tags_changed_before(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    tags[-4:].fill_(1)
    return attend(q, k, v, tags)


@WRONG_TAGS(CU, None, claim=groups(lambda _: 0), why="the tags are changed after the mask is made: it stays")
def tags_changed_after(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    mask = tags[:, None] == tags[None, :]
    tags.zero_()
    return sdpa(q, k, v, mask)


@WRONG_TAGS(CU, None, claim=groups(lambda _: 0), why="the boundaries are changed after the tags are made")
def boundaries_changed_after(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    cu = cu.clone()
    mask = same_segment(q, cu)
    cu.zero_()
    return sdpa(q, k, v, mask) + cu.sum()


@WRONG_TAGS(CU, None, claim=groups(lambda _: 0), why="a view of the boundaries is changed after the tags are made")
def view_of_boundaries_changed_after(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    cu = cu.clone()
    ends = cu[1:]
    mask = same_segment(q, cu)
    ends.fill_(q.shape[2])
    return sdpa(q, k, v, mask) + ends.sum()


@WRONG_TAGS(CU, None, why="the boundaries, an input, are changed between mask and attention")
def input_boundaries_changed_after(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    cu.sub_(1)
    return sdpa(q, k, v, mask)


@WRONG_TAGS(CU, None, why="the boundaries, an input, are changed before")
def input_boundaries_changed_before(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    cu[1:-1].sub_(1)
    return attend(q, k, v, tags_of(q, cu))


@WRONG_TAGS(packed(metadata.lens()), None, why="the lengths are changed after the tags are made")
def lengths_changed_after(q: Tensor, k: Tensor, v: Tensor, lens: Tensor) -> Tensor:
    index = torch.arange(lens.numel(), device=q.device)
    tags = torch.repeat_interleave(index, lens, output_size=q.shape[2])
    lens += 1
    index += 1
    return attend(q, k, v, tags)


@WRONG_TAGS(packed(metadata.ids()), None, why="the ids, an input, are changed after the mask is made")
def input_ids_changed_after(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = ids[:, None] == ids[None, :]
    ids.copy_(ids.flip(0) % 2)
    return sdpa(q, k, v, mask)


@WRONG_TAGS(
    packed(metadata.position_ids()), None, claim=claims.blocks, why="positions are changed before they are compared"
)
def positions_changed_before(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    positions = position_ids[0].clone()
    positions[4:].add_(1)
    return attend(q, k, v, (positions == 0).cumsum(0))


@WRONG_TAGS(
    packed(metadata.cu_seqlens(torch.int64), lambda sizes, _: torch.tensor([1, sum(sizes) - 2])),
    None,
    claim=claims.blocks,
    why="more flags are set between scatter and cumsum",
)
def flags_set_twice(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, more: Tensor) -> Tensor:
    flags = torch.zeros(q.shape[2] + 1, dtype=torch.int64, device=q.device)
    flags[cu] = 1
    flags[more] = 1
    return attend(q, k, v, flags[:-1].cumsum(0))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="some flags are removed between scatter and cumsum")
def flags_removed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    flags = torch.zeros(q.shape[2] + 1, dtype=torch.int64, device=q.device)
    flags[cu.long()] = 1
    flags[: q.shape[2] // 2] = 0
    return attend(q, k, v, flags[:-1].cumsum(0))


@WRONG_TAGS(CU, None, claim=claims.blocks, why="the flags of the boundaries are negative")
def negative_flags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    flags = torch.ones(q.shape[2] + 1, dtype=torch.int64, device=q.device)
    flags[cu.long()] = -1
    return attend(q, k, v, flags[:-1].cumsum(0))


# Batches.


@WRONG_TAGS(padded(_ids_of_samples), None, why="the samples of a batch are laid one after another; their ids are not")
def batch_flattened_with_its_ids(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    q, k, v = (x.transpose(0, 1).flatten(1, 2)[None] for x in (q, k, v))
    return attend(q, k, v, ids.flatten())


@WRONG_TAGS(padded(_ids_of_samples), None, why="the ids of the first sample are used for all")
def ids_of_the_first_sample(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return attend(q, k, v, ids[0])


@WRONG_TAGS(padded(_ids_of_samples), None, why="each sample is compared with the next sample's ids")
def ids_of_the_next_sample(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return sdpa(q, k, v, (ids[:, :, None] == ids.roll(1, 0)[:, None, :])[:, None])


@WRONG_TAGS(padded(_ids_of_samples, square=True), None, why="samples by rows, not rows by rows; as many of each")
def ids_compared_across_samples(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return sdpa(q, k, v, ids == ids.T)


@WRONG_TAGS(padded(metadata.key_mask(), square=True), None, why="[B, L] broadcast as [Sq, Sk], because B equals L")
def key_mask_as_a_square(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    return sdpa(q, k, v, valid)


@WRONG_TAGS(
    cross(metadata.cu_seqlens(), keys=lambda sizes: sizes),
    None,
    why="only the tags of the last row: a mask of keys alone",
)
def tags_of_the_last_row(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, (tags == tags[-1])[None, :])


@WRONG_TAGS(CU, None, claim=claims.blocks, why="only queries are masked")
def tags_of_the_last_row_for_queries(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, (tags == tags[-1])[:, None].expand(-1, k.shape[2]))


# Causal by positions that are not the order of the rows.


def _backwards(sizes: Sizes, _: torch.Generator) -> Tensor:
    return torch.tensor([[row for size in sizes for row in reversed(range(size))]])


@WRONG_TAGS(
    packed(metadata.cu_seqlens(), _backwards),
    None,
    claim=claims.causal(claims.blocks),
    why="positions count down in each segment: a key that is not later stands behind",
)
def causal_by_other_positions(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, position_ids: Tensor) -> Tensor:
    position = position_ids[0]
    return sdpa(q, k, v, same_segment(q, cu) & (position[None, :] <= position[:, None]))


def _zero_then_down(sizes: Sizes, _: torch.Generator) -> Tensor:
    return torch.tensor([[row and size - row for size in sizes for row in range(size)]])


@WRONG_TAGS(
    packed(_zero_then_down),
    None,
    claim=claims.causal(claims.blocks),
    why="a zero begins a segment, but nothing says that the others count up",
)
def causal_by_positions_from_zero(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    tags = (position_ids[0] == 0).cumsum(0)
    position = position_ids[0]
    return sdpa(q, k, v, (tags[:, None] == tags[None, :]) & (position[None, :] <= position[:, None]))


@WRONG_TAGS(
    packed(metadata.position_ids()), None, claim=claims.causal(claims.blocks), why="causal by positions, in no segments"
)
def positions_compared_alone(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    mask = position_ids[:, None, None, :] <= position_ids[:, None, :, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@WRONG_TAGS(CU, None, claim=claims.causal(claims.blocks), why="tags compared with le: all earlier segments too")
def tags_compared_for_order(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    return sdpa(q, k, v, tags[:, None] >= tags[None, :])
