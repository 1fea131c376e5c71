"""Models that call the operator, compiled on the simulated device: forward, backward, and what they copy to the host."""

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

import shapecheck._attention  # noqa: F401  registers the operators

from ..cases import bounds, close
from ..simulator import attention as operators
from ..simulator import host_copies

HEADS, HEAD_DIM, WIDTH = 4, 8, 16


class Layer(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.qkv = nn.Linear(WIDTH, 3 * HEADS * HEAD_DIM)
        self.out = nn.Linear(HEADS * HEAD_DIM, WIDTH)

    def forward(self, x: Tensor, cu_seqlens: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(1, (3, HEADS, HEAD_DIM)).unbind(1)
        attended, _ = torch.ops.shapecheck.varlen_attention(
            q, k, v, cu_seqlens, cu_seqlens, x.shape[0], x.shape[0], self.causal, -1, -1, HEAD_DIM**-0.5, True
        )
        return x + self.out(attended.flatten(1))


class Model(nn.Module):
    """Four layers that share one copy of the boundaries."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(causal) for causal in (False, True, False, True))

    def forward(self, x: Tensor, cu_seqlens: Tensor) -> Tensor:
        on_host = cu_seqlens.cpu()
        for layer in self.layers:
            x = layer(x, on_host)
        return x


@pytest.fixture
def models():
    torch.manual_seed(0)
    here, there = Model(), Model()
    there.load_state_dict(here.state_dict())
    torch._dynamo.reset()
    return here, there.to("npu")


LENGTHS = ([3, 5, 4], [6, 1, 0, 2, 4], [2, 2], [9, 1, 3, 1, 7, 2])


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_training_equals_the_cpu(models, mode):
    here, there = models
    counter = CompileCounterWithBackend("aot_eager")
    run = torch.compile(there, backend=counter, fullgraph=True, dynamic=True) if mode == "compiled" else there
    for lengths in LENGTHS:
        x, cu = torch.randn(sum(lengths), WIDTH), bounds(lengths)
        expected = here(x, cu)
        expected.square().sum().backward()
        with host_copies() as copies:
            out = run(x.npu(), cu.npu())
            out.square().sum().backward()
        assert copies == [((len(cu),), torch.int32)]
        close(out, expected, 1e-4)
        for (name, one), other in zip(there.named_parameters(), here.parameters(), strict=True):
            assert one.grad is not None, name
            close(one.grad, other.grad, 1e-3)
        here.zero_grad()
        there.zero_grad()
    if mode == "compiled":
        assert counter.frame_count == 1


def test_inference_in_a_compiled_model_takes_the_training_operator_for_small_heads(models):
    here, there = models
    run = torch.compile(there, backend="aot_eager", fullgraph=True, dynamic=True)
    x, cu = torch.randn(12, WIDTH), bounds([5, 7])
    operators.calls.clear()
    with torch.inference_mode():
        close(run(x.npu(), cu.npu()), here(x, cu), 1e-4)
    assert operators.calls == ["npu_fusion_attention_v3"] * 4


def test_inference_mode_is_seen_inside_of_a_compiled_graph():
    def attend(q: Tensor, cu: Tensor) -> Tensor:
        return torch.ops.shapecheck.varlen_attention(q, q, q, cu, cu, 9, 9, True, -1, -1, 0.1, True)[0]

    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    q, cu = torch.randn(9, 2, 128, dtype=torch.bfloat16), bounds([4, 5])
    operators.calls.clear()
    with torch.inference_mode():
        close(compiled(q.npu(), cu), attend(q, cu), 4e-2)
    compiled(q.npu().requires_grad_(), cu).sum().backward()
    assert operators.calls == [
        "npu_fused_infer_attention_score_v2",
        "npu_fusion_attention_v3",
        "npu_fusion_attention_grad_v3",
    ]


def test_autocast():
    q = torch.randn(5, 2, 16)
    there = q.npu().requires_grad_()
    cu = bounds([2, 3])
    with torch.autocast("npu", dtype=torch.bfloat16):
        out, _ = torch.ops.shapecheck.varlen_attention(there, there, there, cu, cu, 3, 3, False, -1, -1, 0.25, True)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert there.grad.dtype == torch.float32
