"""`torch.compile(model, backend="shapecheck")` on the simulated device."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import shapecheck

from ..cases import bounds, close
from ..simulator import attention as operators
from ..simulator import host_copies

HEADS, HEAD_DIM, WIDTH = 4, 8, 16


class Model(nn.Module):
    """Three layers that attend under one mask, as authors write it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * HEADS * HEAD_DIM) for _ in range(3))
        self.out = nn.ModuleList(nn.Linear(HEADS * HEAD_DIM, WIDTH) for _ in range(3))

    def forward(self, x: Tensor, cu_seqlens: Tensor) -> Tensor:
        rows = torch.arange(x.shape[0], device=x.device)
        segments = torch.searchsorted(cu_seqlens, rows, right=True)
        mask = (segments[:, None] == segments) & (rows[:, None] >= rows)
        for qkv, out in zip(self.qkv, self.out, strict=True):
            q, k, v = qkv(x).unflatten(1, (3, HEADS, HEAD_DIM)).permute(1, 2, 0, 3)[:, None]
            attended = scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = x + out(attended[0].transpose(0, 1).flatten(1))
        return x


@pytest.fixture
def models():
    torch.manual_seed(0)
    here, there = Model(), Model()
    there.load_state_dict(here.state_dict())
    torch._dynamo.reset()
    return here, there.to("npu")


def test_training_equals_the_cpu_with_one_copy_of_the_boundaries(models):
    here, there = models
    run = torch.compile(there, backend="shapecheck", fullgraph=True, dynamic=True)
    for lengths in ([3, 5, 4], [6, 1, 0, 2, 4], [9, 1, 3, 1, 7, 2]):
        x, cu = torch.randn(sum(lengths), WIDTH), bounds(lengths)
        expected = here(x, cu)
        expected.square().sum().backward()
        operators.calls.clear()
        with host_copies() as copies:
            out = run(x.npu(), cu.npu())
            out.square().sum().backward()
        assert len(copies) == 1
        assert operators.calls == ["npu_fusion_attention_v3"] * 3 + ["npu_fusion_attention_grad_v3"] * 3
        close(out, expected, 1e-4)
        for one, other in zip(there.parameters(), here.parameters(), strict=True):
            close(one.grad, other.grad, 1e-3)
        here.zero_grad()
        there.zero_grad()


def test_explain_names_the_simulated_kernel(models):
    _, there = models
    report = shapecheck.explain(there, torch.randn(12, WIDTH).npu(), bounds([5, 7]).npu())
    kernels = {one.site.kernel for one in report.sites}
    assert kernels == {"npu: npu_fusion_attention (simulated)"}


def test_what_the_operators_cannot_take_stays_as_it_was():
    def attend(q: Tensor, segments: Tensor) -> Tensor:
        return scaled_dot_product_attention(q, q, q, attn_mask=segments[:, None] == segments)

    q = torch.randn(1, 2, 9, 800)  # wider than the operators' limit
    segments = torch.tensor([0] * 4 + [1] * 5)
    operators.calls.clear()
    out = torch.compile(attend, backend="shapecheck", fullgraph=True)(q.npu(), segments.npu())
    close(out, attend(q, segments), 1e-4)
    assert operators.calls == []
