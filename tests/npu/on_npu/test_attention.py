"""The kernel's values and gradients on the simulated device, against float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ..cases import Case, bounds, close, packed, tensors
from ..simulator import attention as operators
from ..simulator import host_copies

PROPERTIES = settings(max_examples=120, deadline=None)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any layout that the operators take: empty segments, tails, cross attention, GQA, windows, head dims, dtypes."""
    causal = draw(st.booleans())
    window = draw(st.sampled_from([(-1, -1), (0, -1), (2, -1), (3, 0), (1, 2), (-1, 1), (-1, 0)]))
    pairs = draw(
        st.lists(
            st.one_of(
                st.just((0, 0)),
                # As many keys as queries, or more: else a causal query would see none.
                st.tuples(st.integers(1, 7), st.integers(0, 3)).map(lambda pair: (pair[0], sum(pair))),
            ),
            max_size=7,
        )
    )
    lengths_q, lengths_k = [one for one, _ in pairs], [other for _, other in pairs]
    before = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    tail = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    heads = draw(st.sampled_from([(1, 1), (2, 2), (4, 2), (6, 1)]))
    dims = draw(st.sampled_from([(16, 16), (8, 8), (5, 5), (16, 8), (8, 24), (72, 72)]))
    index = draw(st.sampled_from([torch.int32, torch.int64]))
    made = tensors(
        before[0] + sum(lengths_q) + tail[0],
        before[1] + sum(lengths_k) + tail[1],
        heads,
        dims,
        draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float16])),
    )
    return Case(*made, bounds(lengths_q, before[0], index), bounds(lengths_k, before[1], index), causal, window)


@PROPERTIES
@given(cases())
def test_any_layout(case):
    case.check()


@PROPERTIES
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.booleans(), st.randoms(use_true_random=False))
def test_rows_of_a_segment_anywhere(lengths, causal, random):
    """Orders: rows of one segment need not lie together, and the last rows are in none."""
    rows = sum(lengths) + 2
    places = list(range(rows))
    random.shuffle(places)
    cu = bounds(lengths)
    parts = [sorted(places[start:end]) for start, end in zip(cu.tolist(), cu.tolist()[1:], strict=False)]
    order = torch.tensor([*(row for part in parts for row in part), *places[int(cu[-1]) :]])
    Case(*tensors(rows, rows, (2, 1), (8, 8), torch.float32), cu, cu, causal, order_q=order, order_k=order).check()


def test_orders_of_two_streams():
    order_q, order_k = torch.tensor([3, 4, 0, 1, 2]), torch.tensor([1, 3, 0, 2])
    Case(
        *tensors(5, 4, (2, 2), (8, 8), torch.float32),
        bounds([2, 3]),
        bounds([2, 2]),
        order_q=order_q,
        order_k=order_k,
    ).check()


def test_more_segments_than_one_call_takes():
    operators.calls.clear()
    packed([1, 2] * 700, heads=(1, 1), dims=(4, 4)).check()
    assert operators.calls == ["npu_fusion_attention_v3"] * 2 + ["npu_fusion_attention_grad_v3"] * 2


def test_hundreds_of_empty_segments_at_the_end():
    packed([3, 4, *[0] * 900, 0, 5, *[0] * 400]).check()


def test_nothing_at_all():
    packed([]).check()
    packed([0, 0]).check()


def test_rows_of_no_segment_are_zeros():
    case = packed([3, 2])
    case = Case(case.q, case.k, case.v, case.cu_q[:2], case.cu_k[:2])
    out, lse = case.run(case.q.npu(), case.k.npu(), case.v.npu())
    assert out.cpu()[3:].count_nonzero() == 0
    assert bool((lse.cpu()[:, 3:] == -torch.inf).all())


def test_strided_inputs():
    case = packed([3, 4])
    qkv = torch.stack([case.q, case.k, case.v], dim=1).npu().requires_grad_()
    out, _ = case.run(*qkv.unbind(1))
    expected, _ = case.reference(case.q, case.k, case.v)
    close(out, expected, 2e-5)
    out.sum().backward()
    assert bool(qkv.grad.cpu().isfinite().all())


def test_lists_where_v3_is_missing(monkeypatch):
    from shapecheck._attention.kernels import npu_training

    old = torch.ops.npu
    lists = npu_training._Operators(old.npu_fusion_attention, old.npu_fusion_attention_grad, Tensor.tolist)
    monkeypatch.setattr(npu_training, "_operators", lambda: lists)
    operators.calls.clear()
    packed([3, 4], causal=True, heads=(4, 2)).check()
    packed([3, 4], window=(1, 0)).check()
    assert set(operators.calls) == {"npu_fusion_attention", "npu_fusion_attention_grad"}


INFERENCE = "npu_fused_infer_attention_score_v2"
TRAINING = "npu_fusion_attention_v3"


@pytest.mark.parametrize(
    ("case", "operator"),
    [
        (packed([3, 4, 0, 1], dims=(128, 128), dtype=torch.bfloat16), INFERENCE),
        (packed([3, 4], dims=(80, 80), dtype=torch.bfloat16, causal=True), INFERENCE),
        (packed([3, 4], dims=(192, 128), dtype=torch.bfloat16, window=(1, 0)), INFERENCE),
        (packed([3, 4], dims=(192, 192), dtype=torch.bfloat16, heads=(64, 1)), INFERENCE),
        (packed([1, 1], dims=(128, 128), dtype=torch.bfloat16, causal=True), INFERENCE),
        (packed([3, 4], dims=(64, 64), dtype=torch.bfloat16), TRAINING),
        (packed([3, 4], dims=(256, 256), dtype=torch.bfloat16), TRAINING),
        (packed([3, 4], dims=(128, 128), dtype=torch.float16), TRAINING),
        (packed([3, 4], dims=(128, 128), dtype=torch.bfloat16, heads=(65, 1)), TRAINING),
    ],
)
def test_inference(case, operator):
    operators.calls.clear()
    expected, expected_lse = case.reference(case.q, case.k, case.v)
    with torch.inference_mode():
        out, lse = case.run(case.q.npu(), case.k.npu(), case.v.npu())
        close(out, expected, 4e-2)
        close(lse, expected_lse, 4e-2)
    assert operators.calls == [operator]


def test_inference_of_single_queries_keeps_the_window():
    """The inference operator ignores masks where every query segment has one row."""
    cu_q, cu_k = bounds([1, 1]), bounds([4, 5])
    case = Case(*tensors(2, 9, (2, 2), (128, 128), torch.bfloat16), cu_q, cu_k, window=(1, 0))
    expected, _ = case.reference(case.q, case.k, case.v)
    operators.calls.clear()
    with torch.inference_mode():
        close(case.run(case.q.npu(), case.k.npu(), case.v.npu())[0], expected, 4e-2)
    assert operators.calls == [TRAINING]


def test_inference_then_training():
    """Nothing that inference mode made and kept meets autograd."""
    case = packed([6, 3], dims=(128, 128), dtype=torch.bfloat16, window=(2, 0))
    with torch.inference_mode():
        case.run(case.q.npu(), case.k.npu(), case.v.npu())
    case.check()


def test_no_grad_takes_the_training_operator():
    case = packed([3, 4], dims=(128, 128), dtype=torch.bfloat16)
    operators.calls.clear()
    with torch.no_grad():
        case.run(case.q.npu(), case.k.npu(), case.v.npu())
    assert operators.calls == [TRAINING]


def test_host_copies():
    case = packed([3, 4])
    there = [one.npu() for one in (case.q, case.k, case.v)]
    with host_copies() as copies:
        case.run(*there)
    assert copies == []
    case.cu_q = case.cu_k = case.cu_q.npu()
    with host_copies() as copies:
        torch.ops.shapecheck.varlen_attention(*there, case.cu_q, case.cu_q, 4, 4, False, -1, -1, case.scale, True)
    assert copies == [((3,), torch.int32)]
