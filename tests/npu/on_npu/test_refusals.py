"""Every constraint of Ascend's operators, broken once: an error that names it, and no operator is called."""

from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from shapecheck import ContractError
from shapecheck._attention._call import Call
from shapecheck._attention.kernels import kernel_for

from ..cases import Case, bounds, packed, tensors
from ..simulator import attention as operators


def cross(lengths_q, lengths_k, **rest) -> Case:
    made = tensors(sum(lengths_q), sum(lengths_k), (2, 2), (8, 8), torch.float32)
    return Case(*made, bounds(lengths_q), bounds(lengths_k), **rest)


def shaped(heads=(2, 2), dims=(8, 8), dtype=torch.float32, **rest) -> Case:
    return packed([2, 1], heads=heads, dims=dims, dtype=dtype, **rest)


ORDER = torch.tensor([0, 2, 1])


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (shaped(dtype=torch.float64), r"q is torch.float64, .* takes float16, bfloat16 and float32: cast"),
        (shaped(heads=(257, 1)), r"q has 257 heads on axis 1, .* takes 1 to 256: split"),
        (shaped(dims=(769, 8)), r"q has head dim 769 on axis 2, .* takes 1 to 768: use more and smaller heads"),
        (shaped(dims=(8, 769)), r"v has head dim 769 on axis 2"),
        (shaped(window=(1, 0), order_q=ORDER, order_k=ORDER), r"window is \(1, 0\) with order_q, .* sort the rows"),
        (shaped(causal=True, order_q=ORDER, order_k=ORDER.clone()), r"causal with order_q and order_k .* pass one"),
    ],
)
def test_refused_by_shapes(case, message):
    operators.calls.clear()
    with pytest.raises(NotImplementedError, match=message):
        case.run(case.q.npu(), case.k.npu(), case.v.npu())
    assert operators.calls == []


def test_refuses_reads_no_values():
    """The backend asks with fake tensors."""
    with FakeTensorMode():
        q = torch.empty(5, 2, 8, device="npu")
        cu = torch.empty(3, dtype=torch.int32, device="npu")
        call = Call(cu, cu, 5, 5, causal=True, window=(-1, -1), scale=1.0, zero_tail=True)
        order = torch.empty(5, dtype=torch.int64, device="npu")
        kernel = kernel_for("npu")
        assert kernel.refuses(q, q, q, call) is None
        assert kernel.refuses(q, q, q, replace(call, order_q=order, order_k=order)) is None
        other = torch.empty(5, dtype=torch.int64, device="npu")
        assert "two tensors" in (kernel.refuses(q, q, q, replace(call, order_q=order, order_k=other)) or "")
        assert "float64" in (kernel.refuses(q.double(), q, q, call) or "")


@pytest.mark.parametrize(
    ("case", "argument", "message"),
    [
        (cross([2, 3], [2, 0]), "cu_seqlens_k", r"segment 1 has 3 query rows and 0 key rows: .* drop the query rows"),
        (cross([0, 3], [2, 4]), "cu_seqlens_q", r"segment 0 has 0 query rows and 2 key rows: .* drop the key rows"),
        (cross([4], [2], causal=True), "cu_seqlens_k", r"segment 0 .* its first 2 query rows see no key"),
        (cross([1, 5], [1, 2], window=(-1, 1)), "cu_seqlens_k", r"segment 1 .* its first 2 query rows see no key"),
        (replace(packed([3]), cu_q=torch.tensor([0, 4])), "cu_seqlens_q", r"\[-1\] is 4, but q has 3 rows; derive"),
        (replace(packed([3]), cu_k=torch.tensor([-1, 3])), "cu_seqlens_k", r"\[0\] is -1, but k has 3 rows"),
        (
            replace(packed([3]), cu_q=torch.tensor([0, 2, 1]), cu_k=torch.tensor([0, 2, 3])),
            "cu_seqlens_q",
            r"decreases",
        ),
        (
            Case(
                *tensors(3, 3, (1, 1), (8, 8), torch.float32),
                bounds([1, 2]),
                bounds([2, 1]),
                causal=True,
                order_q=ORDER,
                order_k=ORDER,
            ),
            "cu_seqlens_k",
            r"differs from cu_seqlens_q in a causal call with orders",
        ),
    ],
)
def test_refused_by_boundaries(case, argument, message):
    operators.calls.clear()
    with pytest.raises(ContractError, match=message) as caught:
        case.run(case.q.npu(), case.k.npu(), case.v.npu())
    assert str(caught.value).startswith(f"varlen_attention on npu: {argument} ")
    assert caught.value.argument == argument
    assert caught.value.hint
    assert operators.calls == []
