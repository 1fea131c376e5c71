"""Heads that were repeated for grouped queries: the kernel reads them as they were, however they were repeated."""

import pytest
import torch
from shapecheck.compile_backend import rewrite
from torch.nn.functional import scaled_dot_product_attention as sdpa

HEADS, ROWS, WIDTH = 4, 12, 8


def expanded_and_merged(x):  # as transformers' repeat_kv
    samples, heads = x.shape[:2]
    share = HEADS // heads
    return x[:, :, None].expand(samples, heads, share, ROWS, WIDTH).reshape(samples, HEADS, ROWS, WIDTH)


def interleaved(x):
    return x.repeat_interleave(HEADS // x.shape[1], dim=1)


def expanded(x):
    return x.expand(-1, HEADS, -1, -1)


def other_order(x):
    return x.repeat(1, HEADS // x.shape[1], 1, 1)


def run(repeat, samples, heads):
    """The shapes of the queries, keys and values that the lowered attention gets."""
    shapes = []

    def attend(q, k, v, cu_seqlens):
        segment = torch.searchsorted(cu_seqlens, torch.arange(q.shape[2]), right=True)
        return sdpa(q, repeat(k), repeat(v), attn_mask=segment[:, None] == segment[None, :])

    class Watch(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            if "shapecheck.varlen_attention" in str(target):
                shapes.extend(tuple(one.shape) for one in args[:3])
            return super().call_function(target, args, kwargs)

    generator = torch.Generator().manual_seed(0)
    q = torch.randn(samples, HEADS, ROWS, WIDTH, generator=generator)
    k, v = torch.randn(2, samples, heads, ROWS, WIDTH, generator=generator)
    given = (q, k, v, torch.tensor([0, 4, 4, ROWS]))
    torch._dynamo.reset()
    compiled = torch.compile(attend, backend=lambda gm, _: Watch(rewrite(gm)[0]).run, fullgraph=True, dynamic=False)
    torch.testing.assert_close(compiled(*given), attend(*given))
    return shapes


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(
    ("repeat", "heads"),
    [(expanded_and_merged, 2), (expanded_and_merged, 1), (interleaved, 2), (interleaved, 1), (expanded, 1)],
)
def test_the_kernel_reads_the_heads_as_they_were(repeat, heads, samples):
    rows = samples * ROWS
    assert run(repeat, samples, heads) == [(rows, HEADS, WIDTH), (rows, heads, WIDTH), (rows, heads, WIDTH)]


def test_another_order_of_the_copies_is_kept():
    assert run(other_order, 1, 2) == [(ROWS, HEADS, WIDTH)] * 3


def test_one_sample_for_all_queries_is_not_taken_for_heads():
    assert run(lambda x: x[:1].expand(2, HEADS, -1, -1), 2, 1) == [(2 * ROWS, HEADS, WIDTH)] * 3
