"""The operator as PyTorch sees it: schema, gradients, autocast, transforms, FLOPs, compilation."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from shapecheck import ContractError
from shapecheck._attention.kernels import kernel_for

from .layouts import OPERATOR, Layout, boundaries, order

BACKWARD = torch.ops.shapecheck.varlen_attention_backward
CU = boundaries([3, 0, 5, 2])

LAYOUTS = {
    "full": Layout.of([3, 0, 5, 2]),
    "causal, grouped": Layout.of([3, 0, 5, 2], causal=True, heads_q=4, heads_k=2),
    "cross, empty on one side": Layout.of([3, 0, 5, 2], [2, 4, 0, 6], causal=True, width_v=5),
    "window": Layout.of([3, 9], window=(2, 1)),
    "tail": Layout(CU, CU, 14, 12),
    "ordered": replace(Layout.of([3, 4, 5]), order_q=order(boundaries([3, 4, 5]), 12, 0), order_k=torch.arange(12)),
    "nothing": Layout.of([0, 0]),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_opcheck(layout):
    torch.library.opcheck(OPERATOR, (*layout.tensors(), *layout.rest))


@pytest.mark.parametrize("layout", [LAYOUTS["ordered"], LAYOUTS["nothing"]])
def test_opcheck_without_gradients_and_of_the_backward(layout):
    q, k, v = (one.detach() for one in layout.tensors(torch.float32))
    torch.library.opcheck(OPERATOR, (q, k, v, *layout.rest))
    out, lse = layout.run(q, k, v)
    torch.library.opcheck(BACKWARD, (torch.randn_like(out), q, k, v, out, lse, *layout.rest))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_gradients(layout):
    layout = replace(layout, width=3, width_v=2)
    assert torch.autograd.gradcheck(lambda q, k, v: layout.run(q, k, v)[0], layout.tensors())


def test_the_log_sum_exp_is_not_differentiable():
    layout = LAYOUTS["full"]
    out, lse = layout.run(*layout.tensors())
    assert out.requires_grad
    assert not lse.requires_grad


def test_no_second_derivative():
    layout = LAYOUTS["full"]
    q, k, v = layout.tensors()
    (grad,) = torch.autograd.grad(layout.run(q, k, v)[0].sin().sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivative: use torch.nn.functional"):
        grad.sum().backward()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_computes_in_the_dtype_that_was_asked_for(dtype):
    layout = LAYOUTS["causal, grouped"]
    q, k, v = layout.tensors(torch.float32)
    with torch.autocast("cpu", dtype):
        out, lse = layout.run(q, k, v)
    assert (out.dtype, lse.dtype) == (dtype, torch.float32)
    assert torch.equal(out, layout.run(*(one.to(dtype) for one in (q, k, v)))[0])
    (grad,) = torch.autograd.grad(out.sum(), q)
    assert grad.dtype == torch.float32


def test_autocast_leaves_float64_and_other_devices_alone():
    layout = LAYOUTS["full"]
    with torch.autocast("cpu", torch.bfloat16):
        assert layout.run(*layout.tensors())[0].dtype == torch.float64
    with torch.autocast("cpu", torch.bfloat16, enabled=False):
        assert layout.run(*layout.tensors(torch.float32))[0].dtype == torch.float32


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_autocast_in_a_compiled_region(backend):
    layout = LAYOUTS["full"]

    def attend(q, k, v):
        with torch.autocast("cpu", torch.bfloat16):
            return layout.run(q, k, v)[0]

    tensors = layout.tensors(torch.float32)
    compiled = torch.compile(attend, backend=backend, fullgraph=True)(*tensors)
    assert compiled.dtype == torch.bfloat16
    assert torch.equal(compiled, attend(*tensors))


def test_vmap_says_what_to_do():
    layout = LAYOUTS["full"]
    q, k, v = (one.detach() for one in layout.tensors())
    with pytest.raises(NotImplementedError, match="pack the samples instead"):
        torch.vmap(lambda q: layout.run(q, k, v)[0])(q.expand(2, *q.shape))


def test_flops_are_those_of_the_segments():
    layout = Layout.of([3, 0, 5], [2, 4, 6], heads_q=4, heads_k=2, width=8, width_v=5)
    q, k, v = layout.tensors(torch.float32)
    with FlopCounterMode(display=False) as forward:
        out, _ = layout.run(q, k, v)
    scores = 4 * (3 * 2 + 5 * 6)
    assert forward.get_total_flops() == 2 * scores * (8 + 5)
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    assert backward.get_total_flops() == 2 * scores * (3 * 8 + 2 * 5)


def test_flops_equal_those_of_pytorchs_attention_on_one_sequence():
    layout = Layout.of([16], causal=True)
    q, k, v = layout.tensors(torch.float32)
    with FlopCounterMode(display=False) as ours:
        layout.run(q, k, v)[0].sum().backward()
    dense = [one.detach().transpose(0, 1)[None].to("meta").requires_grad_() for one in (q, k, v)]
    with FlopCounterMode(display=False) as theirs:
        torch.nn.functional.scaled_dot_product_attention(*dense, is_causal=True).sum().backward()
    forward = 2 * 2 * 2 * 16 * 16 * 8
    # The dense math path keeps the scores, which ours computes again.
    assert ours.get_total_flops() - theirs.get_total_flops() == forward // 2


def test_flops_without_values_are_an_upper_bound():
    layout = Layout.of([3, 5])
    q, k, v = (one.detach() for one in layout.tensors())
    with torch._subclasses.FakeTensorMode() as mode, FlopCounterMode(display=False) as counter:
        fakes = [mode.from_tensor(one) for one in (q, k, v, layout.cu_seqlens_q)]
        OPERATOR(*fakes, fakes[-1], 5, 5, False, -1, -1, 1.0, True)
    assert counter.get_total_flops() == 2 * 2 * (2 * 5 * 5) * (8 + 8)


def test_devices_without_a_kernel():
    with pytest.raises(NotImplementedError, match="no kernel for device type 'xpu', only for cpu, cuda, npu"):
        kernel_for("xpu")


def call(**changes):
    plain = torch.ones(10, 2, 8)
    boundaries = {"cu_seqlens_q": CU, "cu_seqlens_k": CU, "max_seqlen_q": 5, "max_seqlen_k": 5}
    numbers = {"causal": False, "window_left": -1, "window_right": -1, "scale": 0.3, "zero_tail": True}
    orders = {"order_q": None, "order_k": None}
    return OPERATOR(**{"q": plain, "k": plain, "v": plain, **boundaries, **numbers, **orders, **changes})


@pytest.mark.parametrize(
    ("changes", "argument", "says"),
    [
        ({"q": torch.randn(10, 16)}, "q", "has 2 axes, expected 3"),
        ({"k": torch.randn(10, 2, 8).double()}, "k", "is torch.float64, expected torch.float32 as q is"),
        ({"k": torch.randn(10, 2, 9)}, "k", "has head dim 9, expected 8 as q has"),
        ({"v": torch.randn(9, 2, 8)}, "v", "has 9 rows, expected 10 as k has"),
        ({"v": torch.randn(10, 1, 8)}, "v", "has 1 heads, expected 2 as k has"),
        ({"q": torch.randn(10, 3, 8)}, "q", "has 3 heads, expected a multiple of the 2 heads of k"),
        ({"cu_seqlens_q": CU.float()}, "cu_seqlens_q", "is torch.float32, expected torch.int32 or torch.int64"),
        ({"cu_seqlens_q": CU[None]}, "cu_seqlens_q", "has 2 axes, expected 1"),
        ({"cu_seqlens_k": CU[:0]}, "cu_seqlens_k", "is empty"),
        ({"cu_seqlens_k": CU[1:]}, "cu_seqlens_k", "has 4 boundaries, expected 5 as cu_seqlens_q has"),
        ({"window_left": -2}, "window", "is -2 to the left, expected a number of rows, or -1: no limit"),
        ({"order_q": torch.arange(10)}, "order_k", "is None, expected both orders or none"),
        ({"order_q": torch.arange(9), "order_k": torch.arange(10)}, "order_q", "has 9 entries, expected 10"),
        ({"order_q": torch.arange(10).int(), "order_k": torch.arange(10)}, "order_q", "is torch.int32"),
    ],
)
def test_arguments_that_do_not_fit(changes, argument, says):
    with pytest.raises(ContractError, match=f"varlen_attention: {argument} {says}") as caught:
        call(**changes)
    assert caught.value.argument == argument


def test_a_compiled_graph_lets_the_error_through():
    compiled = torch.compile(lambda q: call(q=q)[0], backend="aot_eager", fullgraph=True)
    with pytest.raises(ContractError, match="has 3 heads, expected a multiple"):
        compiled(torch.randn(10, 3, 8))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_training_equals_eager(backend, dynamic):
    def attend(q, k, v, cu_seqlens):
        # Transposed, as models have them: Inductor hands on whatever strides it likes.
        q, k, v = (one.transpose(0, 1).contiguous().sin().transpose(0, 1) for one in (q, k, v))
        longest = q.shape[0]
        out, lse = OPERATOR(q, k, v, cu_seqlens, cu_seqlens, longest, longest, True, -1, -1, 0.3, True)
        return out * 2 + lse.clamp(min=-100).t()[..., None]

    compiled = torch.compile(attend, backend=backend, dynamic=dynamic, fullgraph=True)
    for lengths in ([3, 0, 5], [40], [1, 2, 3, 4, 5, 6]):
        layout = Layout.of(lengths, heads_q=4, heads_k=2)
        tensors = layout.tensors(torch.float32)
        expected, out = attend(*tensors, layout.cu_seqlens_q), compiled(*tensors, layout.cu_seqlens_q)
        torch.testing.assert_close(out, expected)
        gradients = torch.autograd.grad(out.sin().sum(), tensors)
        torch.testing.assert_close(gradients, torch.autograd.grad(expected.sin().sum(), tensors))


def test_compiled_with_sizes_that_are_not_known():
    def attend(q, cu_seqlens):
        return OPERATOR(q, q, q, cu_seqlens, cu_seqlens, 64, 64, True, -1, -1, 0.3, True)[0]

    graphs = []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(attend, backend=counting, fullgraph=True)
    for lengths in ([3, 5], [0, 40], [1, 2, 3, 4], [1]):
        q, cu_seqlens = Layout.of(lengths).tensors(torch.float32)[0].detach(), boundaries(lengths)
        torch._dynamo.decorators.mark_unbacked(q, 0)
        torch._dynamo.decorators.mark_unbacked(cu_seqlens, 0)
        torch.testing.assert_close(compiled(q, cu_seqlens), attend(q, cu_seqlens))
    assert len(graphs) == 1
