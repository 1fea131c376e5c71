"""The CUDA kernel without a GPU: PyTorch's operators are replaced by strict doubles (cuda_doubles.py)."""

import pytest
import torch
import torch.nn.attention.varlen as torch_varlen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from shapecheck._attention import _op
from shapecheck._attention._call import Call
from shapecheck._attention.kernels import cuda, flex

from .cuda_doubles import VarlenOperators, call_of, dense_flex
from .reference import attention, visible

PROPERTIES = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def varlen(monkeypatch):
    operators = VarlenOperators()
    monkeypatch.setattr(torch.ops.torch_attn, "_varlen_attn", operators.forward)
    monkeypatch.setattr(torch.ops.torch_attn, "_varlen_attn_backward", operators.backward)
    return operators


@pytest.fixture
def no_flex(monkeypatch):
    def refuse(function):
        pytest.fail("went to flex")

    monkeypatch.setattr(flex, "compiled", refuse)


@pytest.fixture
def plain_flex(monkeypatch):
    monkeypatch.setattr(flex, "compiled", lambda function: dense_flex)


def rows(count, heads, width, dtype=torch.bfloat16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, heads, width, generator=generator).to(dtype)


def qkv(rows_q, rows_k, heads=(2, 2), width=(16, 16), dtype=torch.bfloat16, seed=0):
    q = rows(rows_q, heads[0], width[0], dtype, seed)
    return q, rows(rows_k, heads[1], width[0], dtype, seed + 1), rows(rows_k, heads[1], width[1], dtype, seed + 2)


def boundaries(lengths, dtype=torch.int32):
    return torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0).to(dtype)


def mask_of(q, k, call):
    return visible(
        q.shape[0],
        k.shape[0],
        call.cu_seqlens_q,
        call.cu_seqlens_k,
        causal=call.causal,
        window=call.window,
        order_q=call.order_q,
        order_k=call.order_k,
    )


def check(q, k, v, call, atol=2e-2):
    """Forward and backward against float64 from the definition; returns the result."""
    mask = mask_of(q, k, call)
    leaves = [one.detach().double().requires_grad_() for one in (q, k, v)]
    expected, expected_lse = attention(*leaves, mask, call.scale)
    out, lse = cuda.KERNEL.forward(q, k, v, call)
    sees = mask.any(1)
    assert out.dtype == q.dtype
    assert lse.dtype == torch.float32
    assert out.is_contiguous()
    assert lse.is_contiguous()
    compared = torch.ones_like(sees) if call.zero_tail else sees
    torch.testing.assert_close(out[compared].double(), expected[compared], atol=atol, rtol=atol)
    torch.testing.assert_close(lse[:, compared].double(), expected_lse[:, compared], atol=1e-3, rtol=1e-3)
    grad_out = rows(q.shape[0], q.shape[1], v.shape[2], q.dtype, seed=9)
    gradients = cuda.KERNEL.backward(grad_out, q, k, v, out, lse, call)
    wanted = (
        torch.autograd.grad(expected, leaves, grad_out.double())
        if expected.requires_grad
        else map(torch.zeros_like, leaves)
    )
    for name, one, like, right in zip("qkv", gradients, (q, k, v), wanted, strict=True):
        assert (one.shape, one.dtype) == (like.shape, like.dtype), name
        assert one.is_contiguous(), name
        torch.testing.assert_close(
            one.double(), right, atol=4 * atol, rtol=4 * atol, msg=lambda m, name=name: f"d{name}: {m}"
        )
    return out


lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)
windows = st.tuples(st.integers(-1, 5), st.integers(-1, 5))


@PROPERTIES
@given(
    lengths_q=lengths,
    lengths_k=lengths,
    same=st.booleans(),
    tail=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    causal=st.booleans(),
    window=windows,
    heads=st.sampled_from([(2, 2), (4, 2), (3, 1)]),
    width=st.sampled_from([(16, 16), (8, 16), (24, 8), (5, 7), (16, 3)]),
    dtype=st.sampled_from([torch.bfloat16, torch.float16]),
    index=st.sampled_from([torch.int32, torch.int64]),
    zero_tail=st.booleans(),
    dead_lse=st.sampled_from([torch.inf, -torch.inf]),
)
def test_any_layout(
    varlen, no_flex, lengths_q, lengths_k, same, tail, causal, window, heads, width, dtype, index, zero_tail, dead_lse
):
    count = min(len(lengths_q), len(lengths_k))
    cu_q = boundaries(lengths_q[:count], index)
    cu_k = cu_q if same else boundaries(lengths_k[:count], index)
    varlen.dead_lse = dead_lse
    q, k, v = qkv(int(cu_q[-1]) + tail[0], int(cu_k[-1]) + tail[1], heads, width, dtype)
    call = call_of(cu_q, cu_k, width[0] ** -0.5, causal=causal, window=window, zero_tail=zero_tail)
    check(q, k, v, call)


@PROPERTIES
@given(
    groups_q=st.lists(st.integers(-1, 4), min_size=1, max_size=24),
    groups_k=st.lists(st.integers(-1, 4), min_size=1, max_size=24),
    same=st.booleans(),
    causal=st.booleans(),
    window=st.one_of(st.just((-1, -1)), windows),
    dtype=st.sampled_from([torch.bfloat16, torch.float32]),
    heads=st.sampled_from([(2, 2), (4, 2)]),
)
def test_any_groups(varlen, plain_flex, groups_q, groups_k, same, causal, window, dtype, heads):
    """Orders: whatever code takes the call, the mask is same group, causal and window by rows. -1: in no segment."""
    order_q, cu_q = grouped(groups_q)
    order_k, cu_k = (order_q, cu_q) if same else grouped(groups_k)
    q, k, v = qkv(order_q.shape[0], order_k.shape[0], heads, dtype=dtype)
    call = call_of(cu_q, cu_k, 0.25, causal=causal, window=window, order_q=order_q, order_k=order_k)
    varlen.calls.clear()
    check(q, k, v, call, atol=2e-2 if dtype == torch.bfloat16 else 1e-5)
    by_varlen = dtype == torch.bfloat16 and window == (-1, -1) and (same or not causal)
    assert bool(varlen.calls) == by_varlen


def grouped(groups, count=5):
    """Orders and boundaries of rows in groups 0 to count - 1; rows of group -1 come last."""
    groups = torch.tensor(groups)
    order = torch.where(groups < 0, count, groups).argsort(stable=True)
    return order, boundaries([int((groups == one).sum()) for one in range(count)], torch.int64)


def test_float32_goes_to_flex(plain_flex):
    cu = boundaries([3, 0, 5])
    check(*qkv(9, 9, dtype=torch.float32), call_of(cu, cu, 0.25, causal=True), atol=1e-5)


def test_causal_with_equal_but_distinct_boundaries_goes_to_flex(varlen, plain_flex):
    order, cu = grouped([0, 1, 0, 1, 1])
    call = call_of(cu, cu.clone(), 0.25, causal=True, order_q=order, order_k=order)
    check(*qkv(5, 5), call)
    assert not varlen.calls


def test_boundaries_padded_to_one_segment_for_each_row_go_to_flex(varlen, plain_flex):
    cu = boundaries([30, 70, *[0] * 198])
    call = call_of(cu, cu, 0.25, max_seqlen_q=100, max_seqlen_k=100)
    check(*qkv(100, 100), call)
    assert not varlen.calls


def test_one_query_for_each_of_many_segments_stays_with_varlen(varlen, no_flex):
    cu_q, cu_k = boundaries([1] * 80), boundaries([4] * 80)
    check(*qkv(80, 320), call_of(cu_q, cu_k, 0.25, causal=True))
    assert len(varlen.calls) == 1


def test_grouped_heads_with_one_row_segments_and_empty_ones(varlen, no_flex):
    """max_seqlen_q = 1 would take FlashAttention's path for decoding, which wants one row in every segment."""
    cu_q, cu_k = boundaries([1, 0, 1, 0]), boundaries([3, 2, 2, 0])
    check(*qkv(3, 7, heads=(4, 2)), call_of(cu_q, cu_k, 0.25))


@pytest.mark.parametrize("cu", [[0], [0, 0], [0, 0, 0]])
@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (3, 3)])
def test_nothing_to_attend(varlen, plain_flex, cu, sizes):
    cu = torch.tensor(cu)
    q, k, v = qkv(*sizes)
    out, lse = cuda.KERNEL.forward(q, k, v, call_of(cu, cu, 0.25))
    assert out.shape == q.shape
    assert not out.any()
    assert torch.isneginf(lse).all()
    for one in cuda.KERNEL.backward(torch.ones_like(out), q, k, v, out, lse, call_of(cu, cu, 0.25)):
        assert not one.any()


def test_boundaries_that_start_behind_the_first_row(varlen, no_flex):
    cu = torch.tensor([2, 4, 7])
    check(*qkv(8, 8), call_of(cu, cu, 0.25, causal=True))
    check(*qkv(8, 8), call_of(cu, cu.clone(), 0.25, causal=True))


@pytest.mark.parametrize("padded", [False, True])
def test_strided_inputs(varlen, no_flex, padded):
    """Slices of one projection are taken as they are where 16-byte loads stay aligned, else copied."""
    cu = boundaries([4, 5])
    fused = rows(9, 6, 16 + padded)[..., padded:]
    q, k, v = fused[:, :2], fused[:, 2:4], fused[:, 4:]
    check(q, k, v, call_of(cu, cu, 0.25))
    taken = varlen.calls[0][0]
    assert (taken.data_ptr() == q.data_ptr()) != padded
    transposed = [one.transpose(0, 1).contiguous().transpose(0, 1) for one in (q, k, v)]
    check(*transposed, call_of(cu, cu, 0.25))


def test_a_huge_window_is_no_window(varlen, plain_flex):
    cu = boundaries([4, 5])
    for dtype in (torch.bfloat16, torch.float32):
        check(*qkv(9, 9, dtype=dtype), call_of(cu, cu, 0.25, window=(2**40, 2**40)))


def test_enable_gqa_is_passed_only_where_known(varlen, no_flex, monkeypatch):
    monkeypatch.setattr(cuda, "_TAKES_ENABLE_GQA", False)
    varlen.wants_enable_gqa = True
    cu = boundaries([4])
    with pytest.raises(AssertionError, match="enable_gqa"):
        cuda.KERNEL.forward(*qkv(4, 4, heads=(4, 2)), call_of(cu, cu, 0.25))
    cuda.KERNEL.forward(*qkv(4, 4), call_of(cu, cu, 0.25))
    varlen.wants_enable_gqa = False
    cuda.KERNEL.forward(*qkv(4, 4, heads=(4, 2)), call_of(cu, cu, 0.25))


def test_block_lists_are_contiguous_with_several_blocks_on_both_sides(plain_flex):
    """One list is that of the transposed map: the double wants the strides that FlexAttention's kernels assume."""
    cu_q, cu_k = boundaries([200, 150]), boundaries([100, 500])
    check(*qkv(350, 600, dtype=torch.float32), call_of(cu_q, cu_k, 0.25), atol=1e-5)


@pytest.mark.parametrize(
    ("width", "dtype", "message"),
    [
        ((264, 264), torch.bfloat16, "q has head dim 264 on axis 2, expected at most 256"),
        ((64, 300), torch.float32, "v has head dim 300 on axis 2, expected at most 256"),
        ((64, 64), torch.float64, "q is torch.float64, expected float16, bfloat16 or float32: cast q, k and v"),
        ((64, 64), torch.float8_e4m3fn, "q is torch.float8_e4m3fn, expected float16"),
    ],
)
def test_refusals_name_the_fix(width, dtype, message):
    cu = boundaries([2])
    call = call_of(cu, cu, 1.0)
    with FakeTensorMode():
        q, k, v = (torch.empty(2, 1, one, dtype=dtype, device="cuda") for one in (width[0], *width))
        assert cuda.KERNEL.refuses(q, k, v, call).startswith(message)
        q, k, v = (torch.empty(2, 1, 64, dtype=torch.float16, device="cuda") for _ in range(3))
        assert cuda.KERNEL.refuses(q, k, v, call) is None


def test_gpus_without_flash_attention_are_refused(monkeypatch):
    cu = boundaries([2])
    call = call_of(cu, cu, 1.0)
    with FakeTensorMode():
        q, k, v = (torch.empty(2, 1, 64, dtype=torch.float16, device="cuda") for _ in range(3))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for capability, refused in (((7, 5), True), ((8, 0), False), ((12, 0), False)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, it=capability: it)
        reason = cuda.KERNEL.refuses(q, k, v, call)
        assert (reason is not None) == refused
        assert reason is None or reason.startswith("q is on a GPU of compute capability 7.5, expected at least 8.0")


def test_the_operators_exist_with_the_arguments_we_pass():
    """Against the real schema of the installed torch."""
    forward = torch.ops.torch_attn._varlen_attn.default._schema.arguments
    names = [one.name for one in forward]
    start = ["query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k", "is_causal", "scale", "window_size"]
    assert names[:10] == start
    assert ("enable_gqa" in names) == cuda._TAKES_ENABLE_GQA
    backward = [one.name for one in torch.ops.torch_attn._varlen_attn_backward.default._schema.arguments]
    assert backward == [
        *("grad_out", "query", "key", "value", "out", "lse", "cu_seq_q", "cu_seq_k", "max_q", "max_k"),
        *("is_causal", "rng_state", "scale", "window_size"),
    ]
    assert torch_varlen.varlen_attn.__kwdefaults__["window_size"] == (-1, -1)


class NoWaiting(TorchDispatchMode):
    """Fails at every operator after which the host needs a value from the device."""

    WAITING = frozenset(
        {
            "_local_scalar_dense",
            "item",
            "nonzero",
            "masked_select",
            "unique_dim",
            "_unique2",
            "unique_consecutive",
            "equal",
        }
    )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        assert name not in self.WAITING, f"{func} waits for the device"
        kwargs = kwargs or {}
        assert str(kwargs.get("device", "cuda")).startswith(("cuda", "meta")), f"{func} to {kwargs['device']}"
        indices = args[1] if name in {"index", "index_put_"} else ()
        assert all(one is None or one.dtype != torch.bool for one in indices), f"{func} with a mask waits"
        return func(*args, **kwargs)


def flex_of_shapes(q, k, v, block_mask, return_aux, **rest):
    out = q.new_empty((*q.shape[:3], v.shape[3]))
    lse = q.new_empty(q.shape[:3], dtype=torch.float32)
    return (out + q.sum() + k.sum() + v.sum()), type("Aux", (), {"lse": lse})


@pytest.mark.parametrize("orders", ["none", "same", "two"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shared", [False, True])
def test_the_host_never_waits(monkeypatch, orders, causal, dtype, shared):
    """Real operators on tensors without values: whoever asks for one fails."""
    monkeypatch.setattr(flex, "compiled", lambda function: flex_of_shapes)
    with FakeTensorMode():
        q = torch.randn(300, 4, 20, dtype=dtype, device="meta")
        k, v = (torch.randn(300, 2, width, dtype=dtype, device="meta") for width in (20, 24))
        cu_q = torch.zeros(5, dtype=torch.int64, device="meta")
        cu_k = cu_q if shared else cu_q.clone()
        order_q = None if orders == "none" else torch.arange(300, device="meta")
        order_k = order_q.clone() if orders == "two" else order_q
        call = Call(cu_q, cu_k, 300, 300, causal, (-1, -1), 0.2, True, order_q, order_k)
        with NoWaiting():
            out, lse = cuda.KERNEL.forward(q, k, v, call)
            gradients = cuda.KERNEL.backward(torch.empty_like(out), q, k, v, out, lse, call)
        assert (out.shape, lse.shape) == ((300, 4, 24), (4, 300))
        assert [one.shape for one in gradients] == [q.shape, k.shape, v.shape]


def test_the_operator_trains_through_it(varlen, plain_flex, monkeypatch):
    """Under PyTorch's dispatcher and autograd: boundaries and orders arrive as the objects that were passed."""
    monkeypatch.setattr(_op, "kernel_for", lambda device: cuda.KERNEL)
    order, cu = grouped([0, 1, 0, 2, 1, 2, 2])
    for dtype, by_varlen in ((torch.bfloat16, True), (torch.float32, False)):
        varlen.calls.clear()
        q, k, v = (one.requires_grad_() for one in qkv(7, 7, dtype=dtype))
        call = call_of(cu, cu, 0.25, causal=True, order_q=order, order_k=order)
        arguments = (cu, cu, 3, 3, True, -1, -1, 0.25, True, order, order)
        out, _ = torch.ops.shapecheck.varlen_attention(q, k, v, *arguments)
        leaves = [one.detach().double().requires_grad_() for one in (q, k, v)]
        expected, _ = attention(*leaves, mask_of(q, k, call), 0.25)
        torch.testing.assert_close(out.double(), expected, atol=2e-2, rtol=2e-2)
        gradients = torch.autograd.grad(out.sum(), (q, k, v))
        for one, right in zip(gradients, torch.autograd.grad(expected.sum(), leaves), strict=True):
            torch.testing.assert_close(one.double(), right, atol=5e-2, rtol=5e-2)
        assert bool(varlen.calls) == by_varlen


def test_inside_a_compiled_graph(plain_flex, monkeypatch):
    """AOTAutograd runs the first call of a graph under a dispatch mode, where vmap inside an operator fails."""
    monkeypatch.setattr(_op, "kernel_for", lambda device: cuda.KERNEL)
    cu = boundaries([30, 0, 70])

    def attend(q, k, v):
        return torch.ops.shapecheck.varlen_attention(q * 1, k, v, cu, cu, 70, 70, True, -1, -1, 0.25, True)[0]

    q, k, v = (one.requires_grad_() for one in qkv(100, 100, dtype=torch.float32))
    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    leaves = [one.detach().double().requires_grad_() for one in (q, k, v)]
    expected, _ = attention(*leaves, mask_of(q, k, call_of(cu, cu, 0.25, causal=True)), 0.25)
    out = compiled(q, k, v)
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)
    gradients = torch.autograd.grad(out.sum(), (q, k, v))
    for one, right in zip(gradients, torch.autograd.grad(expected.sum(), leaves), strict=True):
        torch.testing.assert_close(one.double(), right, atol=1e-5, rtol=1e-5)
