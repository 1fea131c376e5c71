"""The backend makes Dynamo capture no more graphs than it captures anyway."""

import pytest
import torch
from shapecheck.compile_backend import rewrite
from torch.nn.functional import scaled_dot_product_attention as sdpa

BATCHES = ((3, 4), (5, 1, 2), (7,), (2, 2, 2, 2), (9, 3), (1, 6, 8), (4, 4, 4, 1, 1))


def attend(q, k, v, cu_seqlens):
    segment = torch.searchsorted(cu_seqlens, torch.arange(q.shape[2]), right=True)
    return sdpa(q, k, v, attn_mask=segment[:, None] == segment[None, :])


def captured(dynamic, lower):
    graphs = []

    def backend(module, _):
        graphs.append(rewrite(module)[1].lowered if lower else 0)
        return module.forward

    torch._dynamo.reset()
    compiled = torch.compile(attend, backend=backend, dynamic=dynamic)
    for lengths in BATCHES:
        q, k, v = torch.randn(3, 1, 2, sum(lengths), 8)
        cu_seqlens = torch.tensor([0, *lengths]).cumsum(0)
        torch.testing.assert_close(compiled(q, k, v, cu_seqlens), attend(q, k, v, cu_seqlens))
    return graphs


@pytest.mark.parametrize("dynamic", [None, True])
def test_batches_of_varying_sizes(dynamic):
    ours = captured(dynamic, lower=True)
    assert len(ours) == len(captured(dynamic, lower=False))
    assert all(ours)
