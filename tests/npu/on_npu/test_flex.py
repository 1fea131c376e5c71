"""FlexAttention, which itself knows no such device, on the simulated device."""

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

from ..cases import close
from ..simulator import attention as operators

# Dynamo itself makes one, whenever it captures a mask_mod.
pytestmark = pytest.mark.filterwarnings("ignore:.* should not be instantiated:DeprecationWarning")


def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def attend(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    def same(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return ids[i] == ids[j]

    mask = create_block_mask(and_masks(same, causal), None, None, q.shape[2], k.shape[2], device=q.device.type)
    return flex_attention(q, k, v, block_mask=mask)


def test_documents_in_training():
    torch._dynamo.reset()
    here = [torch.randn(1, 2, 200, 16, requires_grad=True) for _ in range(3)]
    there = [one.detach().to("npu").requires_grad_() for one in here]
    ids = torch.arange(200) // 60
    rows = torch.arange(200)
    expected = sdpa(*here, attn_mask=(ids[:, None] == ids) & (rows[:, None] >= rows))
    operators.calls.clear()
    out = torch.compile(attend, backend="shapecheck", fullgraph=True)(*there, ids.to("npu"))
    close(out, expected, 1e-4)
    expected.square().sum().backward()
    out.square().sum().backward()
    assert operators.calls == ["npu_fusion_attention_v3", "npu_fusion_attention_grad_v3"]
    for one, other in zip(there, here, strict=True):
        close(one.grad, other.grad, 1e-3)


def test_without_the_backend_torch_refuses():
    torch._dynamo.reset()
    q = torch.randn(1, 2, 200, 16).to("npu")
    with pytest.raises(ValueError, match="FlexAttention is only supported on"):
        torch.compile(attend, backend="eager")(q, q, q, (torch.arange(200) // 60).to("npu"))
