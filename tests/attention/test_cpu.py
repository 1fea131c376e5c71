"""The CPU kernel computes what the definition says, whatever the layout; within memory; and refuses what it must."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from shapecheck import ContractError
from shapecheck._attention._call import Call
from shapecheck._attention.kernels import kernel_for
from shapecheck._attention.kernels.cpu_plan import plan_for

from .layouts import OPERATOR, Layout, layouts, order

PROPERTIES = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# Largest errors against float64 on N(0, 1): of the result, and of gradients.
BOUNDS = {
    torch.float64: (1e-13, 1e-11),
    torch.float32: (2e-6, 4e-5),
    torch.bfloat16: (2e-2, 2e-1),
    torch.float16: (2e-3, 2e-2),
}


def errors(layout: Layout, q: Tensor, k: Tensor, v: Tensor) -> tuple[float, float, float]:
    """Largest errors of the result, the log-sum-exp and the gradients."""
    out, lse = layout.run(q, k, v)
    exact = [one.detach().double().requires_grad_() for one in (q, k, v)]
    expected, expected_lse = layout.expect(*exact)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out.dtype)
    gradients = torch.autograd.grad(out, (q, k, v), grad)
    expected_gradients = torch.autograd.grad((expected * grad.double()).sum(), exact)
    assert out.is_contiguous()
    assert lse.is_contiguous()
    assert all(one.is_contiguous() for one in gradients)
    sees = expected_lse > -torch.inf
    assert torch.equal(lse > -torch.inf, sees)
    return (
        _largest(out - expected),
        _largest((lse - expected_lse)[sees]),
        max(_largest(one - other) for one, other in zip(gradients, expected_gradients, strict=True)),
    )


def _largest(difference: Tensor) -> float:
    return difference.detach().abs().max().item() if difference.numel() else 0.0


@settings(PROPERTIES, max_examples=1600)
@given(layout=layouts(), dtype=st.sampled_from([torch.float32, torch.float32, torch.float64]), seed=st.integers(0, 9))
def test_computes_what_the_definition_says(layout, dtype, seed):
    of_out, of_lse, of_gradients = errors(layout, *layout.tensors(dtype, seed))
    bound, bound_gradients = BOUNDS[dtype]
    assert of_out <= bound
    assert of_lse <= 5 * bound
    assert of_gradients <= bound_gradients


@settings(PROPERTIES, max_examples=400)
@given(layout=layouts(), dtype=st.sampled_from([torch.bfloat16, torch.float16]))
def test_half_precision_is_as_close_as_it_can_be(layout, dtype):
    of_out, of_lse, of_gradients = errors(layout, *layout.tensors(dtype))
    bound, bound_gradients = BOUNDS[dtype]
    assert of_out <= bound
    assert of_lse <= 1e-3
    assert of_gradients <= bound_gradients


@settings(PROPERTIES, max_examples=200)
@given(layout=layouts(), axes=st.sampled_from([(1, 0, 2), (2, 1, 0), (0, 2, 1)]))
def test_any_strides(layout, axes):
    tensors = layout.tensors(torch.float32)
    strided = [one.detach().permute(axes).contiguous().permute([axes.index(i) for i in range(3)]) for one in tensors]
    out, lse = layout.run(*tensors)
    again, lse_again = layout.run(*strided)
    torch.testing.assert_close(again, out, rtol=0, atol=2e-6)
    torch.testing.assert_close(lse_again, lse, rtol=0, atol=1e-5)


@settings(PROPERTIES, max_examples=100)
@given(layout=layouts())
def test_rows_of_no_segment_are_never_read(layout):
    """They may be garbage that some allocator left there."""
    q, k, v = (one.detach() for one in layout.tensors(torch.float32))
    out, _ = layout.run(q, k, v)
    for tensors, cu_seqlens, rows in (
        ((q,), layout.cu_seqlens_q, layout.order_q),
        ((k, v), layout.cu_seqlens_k, layout.order_k),
    ):
        used = torch.zeros(tensors[0].shape[0], dtype=torch.bool)
        packed = torch.arange(int(cu_seqlens[0]), int(cu_seqlens[-1]))
        used[packed if rows is None else rows[packed]] = True
        for tensor in tensors:
            tensor[~used] = torch.nan
    again, _ = layout.run(q, k, v)
    assert torch.equal(again, out)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("lengths_q", "lengths_k"),
    [
        ([700, 1, 300], None),
        ([600], [1500]),
        ([1100], [400]),
        ([300] * 2, [500] * 2),
        ([4] * 256, None),
        ([5] * 130, [3] * 130),
        ([1] * 1000, None),
        ([1] * 5, [900, 0, 1, 33, 600]),
    ],
)
def test_accuracy_on_sizes_of_models(lengths_q, lengths_k, causal):
    layout = Layout.of(lengths_q, lengths_k, causal=causal, heads_q=4, heads_k=2, width=64, width_v=64, scale=0.125)
    of_out, _, of_gradients = errors(layout, *layout.tensors(torch.float32))
    assert of_out <= 2e-6
    assert of_gradients <= 1e-5


@pytest.mark.parametrize("window", [(64, 0), (400, -1), (-1, 300), (100, 100), (2000, 2000)])
@pytest.mark.parametrize("ordered", [False, True])
def test_windows_in_long_segments(window, ordered):
    layout = Layout.of([700, 30, 700], window=window, heads_q=2, heads_k=1, width=16, width_v=16)
    if ordered:
        rows = order(layout.cu_seqlens_q, layout.rows_q, seed=0)
        layout = replace(layout, order_q=rows, order_k=rows)
    of_out, _, of_gradients = errors(layout, *layout.tensors(torch.float32))
    assert of_out <= 4e-6
    assert of_gradients <= 5e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("lengths", [[300, 7, 200], [64] * 8, [3, 5, 1, 9, 4] * 12])
@pytest.mark.parametrize("shared", [1, 4])
def test_half_precision_is_no_worse_than_a_call_for_each_segment(dtype, lengths, shared):
    layout = Layout.of(lengths, heads_q=4, heads_k=4 // shared, width=64, width_v=64, scale=0.125)
    q, k, v = layout.tensors(dtype)
    grad = torch.randn(q.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    parts = [one.split(lengths) for one in (q, k, v)]
    looped = torch.cat(
        [
            scaled_dot_product_attention(*(one.transpose(0, 1)[None] for one in part), scale=0.125, enable_gqa=True)[
                0
            ].transpose(0, 1)
            for part in zip(*parts, strict=True)
        ]
    )
    exact = [one.detach().double().requires_grad_() for one in (q, k, v)]
    expected, _ = layout.expect(*exact)
    out, _ = layout.run(q, k, v)
    assert _largest(out - expected) <= 1.2 * _largest(looped - expected)
    for ours, theirs, right in zip(
        torch.autograd.grad(out, (q, k, v), grad),
        torch.autograd.grad(looped, (q, k, v), grad),
        torch.autograd.grad(expected, exact, grad.double()),
        strict=True,
    ):
        assert _largest(ours - right) <= 1.2 * _largest(theirs - right)


class LargestTensor(TorchDispatchMode):
    """Notes the most numbers that one tensor held."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for one in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(one, Tensor):
                self.numbers = max(self.numbers, one.untyped_storage().nbytes() // one.itemsize)
        return result


@pytest.mark.parametrize(
    ("lengths_q", "lengths_k", "options"),
    [
        ([8192], None, {"causal": True}),
        ([4096, 4096], None, {"window": (512, 0)}),
        ([2048], [8192], {"causal": True}),
        ([8192], None, {"causal": True, "window": (100, -1), "scattered": True}),
    ],
)
def test_no_tensor_of_all_queries_times_all_keys(lengths_q, lengths_k, options):
    scattered = options.pop("scattered", False)
    layout = Layout.of(lengths_q, lengths_k, heads_q=1, heads_k=1, width=4, width_v=4, **options)
    if scattered:
        layout = replace(
            layout,
            rows_q=layout.rows_q + 1,
            rows_k=layout.rows_k + 1,
            order_q=torch.arange(1, layout.rows_q + 2).remainder(layout.rows_q + 1),
            order_k=torch.cat([torch.arange(5), torch.arange(6, layout.rows_k + 1), torch.tensor([5])]),
        )
    q, k, v = (one.detach() for one in layout.tensors(torch.float32))
    call = Call(*layout.rest[:4], layout.causal, layout.window, layout.scale, True, layout.order_q, layout.order_k)
    kernel = kernel_for("cpu")
    with LargestTensor() as largest:
        out, lse = kernel.forward(q, k, v, call)
        kernel.backward(out, q, k, v, out, lse, call)
    assert largest.numbers <= 1 << 21
    assert largest.numbers <= layout.rows_q * layout.rows_k / 8


@pytest.mark.slow
def test_peak_memory_at_32k_rows():
    """The dense mask alone would be 4 GB in float32, 1 GB in bool."""
    program = (
        "import resource, torch, shapecheck._attention\n"
        "operator = torch.ops.shapecheck.varlen_attention\n"
        "def run(rows):\n"
        "    q = torch.randn(rows, 1, 16)\n"
        "    cu = torch.tensor([0, rows // 4, rows])\n"
        "    operator(q, q, q, cu, cu, rows, rows, True, 4000, -1, 0.25, True)\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "small = run(64)\n"
        "print(run(32768) - small)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 150_000  # kB


def plan(lengths_q: list[int], lengths_k: list[int] | None = None, **options: object):
    layout = Layout.of(lengths_q, lengths_k, **options)
    call = Call(*layout.rest[:4], layout.causal, layout.window, 1.0, True, layout.order_q, layout.order_k)
    return plan_for(call, layout.rows_q, layout.rows_k)


@pytest.mark.parametrize(
    ("lengths", "calls"),
    [
        ([], 0),
        ([0, 0, 0], 0),
        ([500], 1),
        ([500, 400], 2),
        ([64] * 50, 1),
        ([64, 100] * 20, 2),
        ([4] * 1024, 1),
        ([20] * 64, 1),
        ([3, 1, 4, 1, 5, 9, 2, 6] * 128, 1),
        ([3, 0, 4] * 4 + [0] * 500, 1),
    ],
)
def test_few_calls_for_many_segments(lengths, calls):
    assert len(plan(lengths).pieces) == calls


def test_layers_of_one_forward_share_a_plan():
    assert plan([3, 4, 50]) is plan([3, 4, 50])
    assert plan([3, 4, 50]) is not plan([3, 4, 51])
    assert plan([3, 4, 50]) is not plan([3, 4, 50], causal=True)


def test_a_plan_follows_boundaries_that_change_in_place():
    q = torch.randn(8, 1, 4)
    cu_seqlens = torch.tensor([0, 4, 8])
    first, _ = OPERATOR(q, q, q, cu_seqlens, cu_seqlens, 8, 8, False, -1, -1, 0.5, True)
    cu_seqlens[1] = 2
    second, _ = OPERATOR(q, q, q, cu_seqlens, cu_seqlens, 8, 8, False, -1, -1, 0.5, True)
    assert not torch.allclose(first, second)


def test_a_default_device_of_the_caller_does_not_matter():
    layout = Layout.of([3, 5, 2] * 4 + [50])
    q, k, v = layout.tensors()
    with torch.device("meta"):
        out, _ = layout.run(q, k, v)
    torch.testing.assert_close(out, layout.expect(q, k, v)[0])


@pytest.mark.parametrize(
    ("cu_seqlens", "says"),
    [
        ([-1, 4, 8], r"cu_seqlens_q\[0\] is -1, expected at least 0"),
        ([0, 5, 4], r"cu_seqlens_q\[2\] is 4, expected at least 5: boundaries must not decrease"),
        ([0, 5, 9], r"cu_seqlens_q\[-1\] is 9, expected at most 8, the rows of q"),
    ],
)
def test_boundaries_out_of_bounds(cu_seqlens, says):
    q, right = torch.randn(8, 1, 4), torch.tensor([0, 4, 8])
    with pytest.raises(ContractError, match=f"{says}[\\s\\S]*fix: ") as caught:
        OPERATOR(q, q, q, torch.tensor(cu_seqlens), right, 8, 8, False, -1, -1, 0.5, True)
    assert caught.value.argument == "cu_seqlens_q"
    with pytest.raises(ContractError, match=says.replace("_q", "_k").replace("of q", "of k")):
        OPERATOR(q, q, q, right, torch.tensor(cu_seqlens), 8, 8, False, -1, -1, 0.5, True)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([0, 1, 2, 8], "holds 8, expected rows 0..3 of q"),
        ([-1, 1, 2, 3], "holds -1, expected rows 0..3 of q"),
        ([1, 0, 2, 3], "does not increase inside a segment"),
        ([0, 1, 1, 2], "names a row twice"),
    ],
)
def test_orders_that_are_none(wrong, says):
    q, cu_seqlens = torch.randn(4, 1, 4), torch.tensor([0, 2, 4])
    rest = (cu_seqlens, cu_seqlens, 2, 2, False, -1, -1, 0.5, True)
    with pytest.raises(ContractError, match=f"order_q {says}") as caught:
        OPERATOR(q, q, q, *rest, torch.tensor(wrong), torch.arange(4))
    assert caught.value.argument == "order_q"


def test_what_the_kernel_refuses():
    q = torch.randn(4, 1, 4)
    call = Call(*Layout.of([4]).rest[:4], causal=False, window=(-1, -1), scale=1.0, zero_tail=True)
    kernel = kernel_for("cpu")
    assert kernel.refuses(q, q, q, call) is None
    assert "k is on meta" in kernel.refuses(q, q.to("meta"), q, call)
    assert "float8_e4m3fn" in kernel.refuses(q.to(torch.float8_e4m3fn), q, q, call)
