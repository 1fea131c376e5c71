"""The simulated operators refuse what the real ones document, and lay their statistics out as those do."""

import pytest
import torch

from ..simulator import attention  # noqa: F401  registers the operators

TRIANGLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def train(*, dims=(16, 16), heads=(2, 2), dtype=torch.float32, rows=(5, 5), ends=((2, 5), (2, 5)), **rest):
    random = torch.Generator().manual_seed(0)
    q = torch.randn(rows[0], heads[0], dims[0], generator=random).to(dtype).npu()
    k, v = (torch.randn(rows[1], heads[1], dim, generator=random).to(dtype).npu() for dim in dims)
    ends = {f"actual_seq_{side}len": torch.tensor(one) for side, one in zip(("q", "kv"), ends, strict=True)}
    return torch.ops.npu.npu_fusion_attention_v3(
        q, k, v, **({"head_num": heads[0], "input_layout": "TND"} | ends | rest)
    )


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"dtype": torch.float64}, "float16, bfloat16 or float32"),
        ({"dims": (16, 8)}, "one shape"),
        ({"dims": (769, 769)}, "1 to 768"),
        ({"heads": (257, 1)}, "1 to 256"),
        ({"heads": (3, 2)}, "multiple of Nkv"),
        ({"head_num": 1}, "head_num"),
        ({"ends": ((2, 5), (5,))}, "should be equal"),
        ({"ends": ((2, 6), (2, 5))}, "but T is 5"),
        ({"ends": ((3, 2), (2, 5))}, "must not decrease"),
        ({"ends": ((2, 5), (5, 5))}, "one side only"),
        ({"ends": ((5,) * 1025, (5,) * 1025)}, "at most 1K"),
        ({"actual_seq_qlen": None}, "is required"),
        ({"actual_seq_qlen": torch.tensor([2, 5]).npu()}, "must be on CPU"),
        ({"actual_seq_qlen": torch.tensor([2, 5], dtype=torch.int32)}, "int64"),
        ({"sparse_mode": 3}, "atten_mask is needed"),
        ({"sparse_mode": 3, "atten_mask": (~TRIANGLE).npu()}, "True where masked"),
        ({"sparse_mode": 3, "atten_mask": TRIANGLE[:5, :5].npu()}, "2048, 2048"),
        ({"sparse_mode": 3, "atten_mask": TRIANGLE.npu(), "rows": (5, 3), "ends": ((2, 5), (2, 3))}, "whole row"),
        ({"softmax_layout": "SBH"}, "softmax_layout=TND"),
    ],
)
def test_training_operator_refuses(broken, message):
    with pytest.raises(RuntimeError, match=message):
        train(**broken)


def test_statistics_lie_head_by_head_unless_asked():
    """By default `[T, N, 8]` is laid out `[N, S, 8]` in each segment."""
    asked = train(softmax_layout="TND")[1].cpu()
    default = train()[1].cpu()
    assert not torch.equal(asked, default)
    first = default.reshape(-1, 8)[:4].reshape(2, 2, 8).transpose(0, 1)
    assert torch.equal(first, asked[:2])


def infer(*, dims=(128, 128), heads=(2, 2), dtype=torch.bfloat16, ends=((2, 5), (2, 5)), **rest):
    q = torch.randn(5, heads[0], dims[0]).to(dtype).npu()
    k, v = (torch.randn(5, heads[1], dim).to(dtype).npu() for dim in dims)
    numbers = {"num_query_heads": heads[0], "num_key_value_heads": heads[1], "input_layout": "TND"}
    lists = {"actual_seq_qlen": ends[0], "actual_seq_kvlen": ends[1]}
    return torch.ops.npu.npu_fused_infer_attention_score_v2(q, k, v, **(numbers | lists | rest))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"dtype": torch.float16}, "bfloat16"),
        ({"dims": (64, 64)}, "head dims"),
        ({"heads": (65, 1)}, "at most 64"),
        ({"ends": ((2, 4), (2, 5))}, "queryT must be equal to the last element"),
        ({"ends": ((2, 5), (2, 4))}, "keyT must be equal to the last element"),
        ({"ends": ((5,) * 4097, (5,) * 4097)}, "at most 4096"),
        ({"sparse_mode": 3, "atten_mask": TRIANGLE.npu(), "ends": ((3, 5), (2, 5))}, "more queries than keys"),
        ({"sparse_mode": 4, "atten_mask": TRIANGLE.npu(), "pre_tokens": -1, "next_tokens": 0}, "negative"),
    ],
)
def test_inference_operator_refuses(broken, message):
    with pytest.raises(RuntimeError, match=message):
        infer(**broken)
