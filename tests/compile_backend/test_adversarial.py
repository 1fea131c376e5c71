"""Programs made to be lowered wrongly: whatever the backend does with them, values and gradients are those of eager."""

import pytest
import torch
from shapecheck.compile_backend import rewrite
from torch import Tensor
from torch._dynamo.backends.registry import lookup_backend
from torch.nn.functional import scaled_dot_product_attention as sdpa

ROWS, HEADS, WIDTH = 12, 2, 8
IDS = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2])
MIXED = torch.tensor([5, 3, 3, 5, 9, 9, 1, 1, 5, 3, 9, 0])
POSITIONS = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3]])


def qkv(samples: int = 1, keys: int = ROWS, heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = ((samples, HEADS, ROWS, WIDTH), (samples, heads, keys, WIDTH), (samples, heads, keys, WIDTH))
    q, k, v = (torch.randn(size, generator=generator) for size in sizes)
    return q, k, v


def call(function, given, training):
    given = [
        one.clone().requires_grad_(training and one.is_floating_point()) if isinstance(one, Tensor) else one
        for one in given
    ]
    out = function(*given)
    leaves = [one for one in given if isinstance(one, Tensor) and one.requires_grad]
    weights = torch.linspace(-1, 1, out.numel()).view(out.shape)
    gradients = torch.autograd.grad(out, leaves, weights, allow_unused=True, materialize_grads=True) if leaves else ()
    return [out.detach(), *gradients], [one.detach() for one in given if isinstance(one, Tensor)], out.stride()


def lowered(function, *calls, dynamic=False, training=False):
    """Whether each attention was lowered; asserts that every call gives what eager gives."""
    sites = []

    def backend(module, inputs):
        module, report = rewrite(module)
        assert not report.failure
        sites.extend(report.sites)
        return lookup_backend("aot_eager" if training else "eager")(module, inputs)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, dynamic=dynamic)
    for given in calls:
        actual, expected = call(compiled, given, training), call(function, given, training)
        torch.testing.assert_close(actual[:2], expected[:2], atol=5e-5, rtol=5e-5, equal_nan=True)
        assert actual[2] == expected[2]
    return [site.lowered for site in sites]


def scores(q, k):
    return q @ k.transpose(-1, -2) / WIDTH**0.5


# Fewer queries than keys, or other ones ------------------------------------------------------------------------------


def first_queries(q, k, v, ids):
    return sdpa(q[:, :, :7], k, v, attn_mask=ids[:7, None] == ids[None, :])


def first_keys(q, k, v, ids):
    weights = scores(q, k[:, :, :7]).masked_fill(ids[:, None] != ids[None, :7], -1e30).softmax(-1)
    return weights @ v[:, :, :7]


def counted_first_queries(q, k, v, ids):
    segment = torch.searchsorted(torch.arange(0, ROWS + 1, 4), torch.arange(ROWS), right=True)
    return sdpa(q[:, :, :7], k, v, attn_mask=segment[:7, None] == segment[None, :])


@pytest.mark.parametrize("function", [first_queries, first_keys, counted_first_queries])
def test_some_rows_of_one_stream(function):
    lowered(function, (*qkv(), MIXED), (*qkv(), IDS), dynamic=True)


def segments(cu_seqlens, rows):
    return torch.searchsorted(cu_seqlens, torch.arange(rows), right=True)


def test_two_pairs_of_counts():
    def attend(q, k, v, a, b, c, d):
        i, j = q.shape[2], k.shape[2]
        first = segments(a, i)[:, None] == segments(b, j)[None]
        return sdpa(q, k, v, attn_mask=first & (segments(c, i)[:, None] == segments(d, j)[None]))

    cus = map(torch.tensor, ([0, 3, 3, 8], [0, 4, 9, 12], [0, 2, 5, 5], [0, 5, 5, 11]))
    lowered(attend, (*qkv(keys=15), *cus))


def test_causal_by_number_across_streams():
    def attend(q, k, v, a, b):
        same = segments(a, ROWS)[:, None] == segments(b, ROWS)[None]
        return sdpa(q, k, v, attn_mask=same & torch.ones(ROWS, ROWS, dtype=torch.bool).tril())

    lowered(attend, (*qkv(), torch.tensor([0, 3, 8, ROWS]), torch.tensor([0, 5, 6, ROWS])))


# Numbers that do not fit ---------------------------------------------------------------------------------------------

LEAST, MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("condition", "values", "dtype"),
    [
        (lambda m: m > 0, [1, 2, 0, 1, 3, 255, 0, 1, 1, 0, 0, 2], torch.uint8),
        (lambda m: m >= -100, [1, 2, 0, -101, -128, 127, 0, 1, 1, -100, -99, 2], torch.int8),
        (lambda m: m <= 5, [1, 2, 0, -101, LEAST, MOST, 0, 1, 1, -100, -99, 2], torch.int64),
        (lambda m: m < 1e20, [1, 2, 0, -101, LEAST, MOST, 0, 1, 1, -100, -99, 2], torch.int64),
        (lambda m: m == 16777216.0, [16777216, 16777217, 0] * 4, torch.int64),
    ],
)
def test_keys_by_a_number(condition, values, dtype):
    def attend(q, k, v, m):
        return sdpa(q, k, v, attn_mask=condition(m)[:, None, None, :])

    lowered(attend, (*qkv(), torch.tensor([values], dtype=dtype)))


def test_ids_cut_to_fewer_bits():
    def attend(q, k, v, ids):
        tag = ids.to(torch.int32)
        return sdpa(q, k, v, attn_mask=tag[:, None] == tag[None])

    assert lowered(attend, (*qkv(), torch.tensor([2**32 + 1, 1, 1, 5, 5, 2**33 + 5] * 2))) == [True]


def test_slice_that_begins_before_the_first():
    def attend(q, k, v, ids):
        rows = torch.arange(ROWS)[-100:]
        return sdpa(q, k, v, attn_mask=(rows[:, None] <= torch.arange(ROWS)) & (ids[:, None] == ids[None]))

    assert lowered(attend, (*qkv(), IDS)) == [True]


def test_narrow_from_the_end():
    def attend(q, k, v, ids):
        rows = torch.arange(20).narrow(0, -14, ROWS)
        return sdpa(q, k, v, attn_mask=(rows[:, None] >= torch.arange(ROWS) + 6) & (ids[:, None] == ids[None]))

    assert lowered(attend, (*qkv(), IDS)) == [True]


# Memory --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of_difference", [True, False])
def test_positions_whose_steps_are_written(of_difference):
    def attend(q, k, v, positions):
        step = torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1)
        if of_difference:
            step[:, 3] = 1
        begins = step != 1
        if not of_difference:
            begins[:, 3] = False
        tag = begins.cumsum(-1)
        causal = positions[:, :, None] >= positions[:, None, :]
        return sdpa(q, k, v, attn_mask=((tag[:, :, None] == tag[:, None, :]) & causal)[:, None])

    assert lowered(attend, (*qkv(), POSITIONS), dynamic=True) == [False]


def values_written(q, k, v, ids):
    held = v.clone()
    held[:, :, 2:4].zero_()
    return scores(q, k).masked_fill(ids[:, None] != ids[None], -1e30).softmax(-1) @ held


def copy_of_values_written(q, k, v, ids):
    held = v.clone()
    held[:, :, 2:4].zero_()
    held = held.clone()
    return scores(q, k).masked_fill(ids[:, None] != ids[None], -1e30).softmax(-1) @ held


def queries_written_later(q, k, v, ids):
    q = q * 1
    logits = scores(q, k)
    q.zero_()
    return logits.masked_fill(ids[:, None] != ids[None], -1e30).softmax(-1) @ v


@pytest.mark.parametrize("function", [values_written, copy_of_values_written, queries_written_later])
def test_operands_written_in_place(function):
    lowered(function, (*qkv(), IDS))


# Scores and operands that are not what they look like ---------------------------------------------------------------


def test_transposed_scores():
    def attend(q, k, v, ids):
        return scores(q, k).masked_fill(ids[:, None] != ids[None], -1e30).transpose(-1, -2).softmax(-1) @ v

    assert lowered(attend, (*qkv(), IDS)) == [False]


@pytest.mark.parametrize("axis", [1, 2])
def test_part_of_repeated_keys(axis):
    def attend(q, k, v, ids):
        def some(x):
            samples, heads, rows, width = x.shape
            x = x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(samples, 2 * heads, rows, width)
            return x[:, :, :ROWS] if axis == 2 else x[:, :HEADS]

        return sdpa(q, some(k), some(v), attn_mask=ids[:, None] == ids[None])

    lowered(attend, (*qkv(keys=20 if axis == 2 else ROWS, heads=1 if axis == 2 else 2), IDS))


@pytest.mark.parametrize("fill", [-1e4, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("scaled_later", [True, False])
def test_gradients_where_rows_see_no_key(fill, scaled_later):
    def attend(q, k, v, valid):
        logits = q @ k.transpose(-1, -2)
        bias = torch.zeros(1, 1, ROWS, ROWS).masked_fill(~(valid[:, None, :, None] & valid[:, None, None, :]), fill)
        logits = (logits + bias) / WIDTH**0.5 if scaled_later else logits / WIDTH**0.5 + bias
        return logits.softmax(-1) @ v

    lowered(attend, (*qkv(), IDS[None] != 1), training=True)


def test_factor_of_baddbmm_that_varies():
    def attend(q, k, v, ids, alpha):
        q, k, v = (one.flatten(0, 1) for one in (q, k, v))
        logits = torch.baddbmm(torch.empty(HEADS, ROWS, ROWS), q, k.transpose(-1, -2), beta=0, alpha=alpha)
        return logits.masked_fill(ids[:, None] != ids[None], -1e30).softmax(-1) @ v

    lowered(attend, *((*qkv(), IDS, alpha) for alpha in (0.5, 1.7, 0.25)), dynamic=True)


# Regions, sizes, tags ------------------------------------------------------------------------------------------------


def test_sizes_that_are_all_equal():
    def attend(q, k, v, ids):
        return sdpa(q, k, v, attn_mask=(ids[:, :, None] == ids[:, None, :])[:, None])

    generator = torch.Generator().manual_seed(0)
    for size in (1, 4):
        given = torch.randn(3, size, size, size, size, generator=generator)
        # One row sees itself: there is nothing to lower.
        assert lowered(attend, (*given, torch.arange(size * size).view(size, size) % 3), dynamic=True) == [size > 1]


def test_float_tags_that_may_be_nan():
    def attend(q, k, v, ids):
        return sdpa(q, k, v, attn_mask=ids[:, None] == ids[None])

    ids = IDS.float()
    ids[4:6] = float("nan")
    assert lowered(attend, (*qkv(), ids)) == [False]


def test_mask_that_learns():
    def attend(q, k, v, ids, bias):
        mask = torch.zeros(ROWS, ROWS).masked_fill(ids[:, None] != ids[None], -1e30)
        return sdpa(q, k, v, attn_mask=mask + bias)

    assert lowered(attend, (*qkv(), IDS, torch.randn(ROWS, ROWS)), training=True) == [False]


def test_output_used_twice_and_viewed():
    def attend(q, k, v, ids):
        out = sdpa(q, k, v, attn_mask=ids[:, None] == ids[None])
        return out.view(HEADS, ROWS, WIDTH) + out[0].relu()

    assert lowered(attend, (*qkv(), IDS), training=True) == [True]


def test_part_without_gradients():
    def attend(q, k, v, ids):
        mask = ids[:, None] == ids[None]
        with torch.no_grad():
            first = sdpa(q, k, v, attn_mask=mask)
        return first + sdpa(q, k, v, attn_mask=mask)

    lowered(attend, (*qkv(), IDS), training=True)


def test_autocast():
    def attend(q, k, v, ids):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = scores(q, k)
        return logits.float().masked_fill(ids[:, None] != ids[None], -1e30).softmax(-1) @ v

    lowered(attend, (*qkv(), IDS))


def test_gradient_by_functorch():
    def attend(q, k, v, ids):
        return torch.func.grad(lambda q: sdpa(q, k, v, attn_mask=ids[:, None] == ids[None]).square().sum())(q)

    lowered(attend, (*qkv(), IDS))


def test_vmap_over_samples():
    def attend(q, k, v, ids):
        return torch.func.vmap(lambda q, k, v: sdpa(q, k, v, attn_mask=ids[:, None] == ids[None]))(q, k, v)

    lowered(attend, (*qkv(samples=2), IDS))


def test_vmap_over_nothing():
    def attend(q, k, v, ids):
        nothing = torch.func.vmap(lambda row: row * 2)(q[:0])  # as associative_scan does at its ends
        return sdpa(q, k, v, attn_mask=ids[:, None] == ids[None]) + nothing.sum()

    assert lowered(attend, (*qkv(), IDS)) == [True]


def test_export_is_as_it_was():
    class Attend(torch.nn.Module):
        def forward(self, q, k, v, ids):
            return sdpa(q, k, v, attn_mask=ids[:, None] == ids[None])

    exported = torch.export.export(Attend(), (*qkv(), IDS))
    assert "shapecheck" not in str(exported.graph)
    assert "scaled_dot_product_attention" in str(exported.graph)
