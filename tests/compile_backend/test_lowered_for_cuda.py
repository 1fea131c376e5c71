"""What a lowered attention computes on CUDA, without a GPU: on tensors without values, by the kernel's real decisions."""

import pytest
import torch
from shapecheck.compile_backend import lower, rewrite
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from shapecheck._attention._call import Call
from shapecheck._attention.kernels import cuda, flex

ROWS = 300
WAITING = {"_local_scalar_dense", "item", "nonzero", "masked_select", "_unique2", "unique_consecutive", "equal"}


@pytest.fixture(autouse=True)
def for_cuda(monkeypatch):
    monkeypatch.setattr(lower, "kernel_for", lambda device: cuda.KERNEL)
    monkeypatch.setattr(lower, "on_host", lambda graph, before, known: known)
    monkeypatch.setattr(flex, "compiled", lambda function: shapes_of_flex)


def shapes_of_flex(q, k, v, return_aux, **rest):
    lse = q.new_empty(q.shape[:3], dtype=torch.float32)
    return q.new_empty((*q.shape[:3], v.shape[3])), type("Aux", (), {"lse": lse})


class OnCuda(TorchDispatchMode):
    """Fails where the host would need a value, and runs the CUDA kernel where the operator is called."""

    def __init__(self):
        super().__init__()
        self.taken_by = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.shapecheck.varlen_attention.default:
            q, k, v, cu_q, cu_k, max_q, max_k, causal, left, right, scale, zero_tail, *orders = args
            call = Call(cu_q, cu_k, max_q, max_k, causal, (left, right), scale, zero_tail, *orders)
            assert cuda.KERNEL.refuses(q, k, v, call) is None
            self.taken_by.append("flex" if cuda.uses_flex(q, k, call) else "varlen")
            with self:
                return cuda.KERNEL.forward(q, k, v, call)
        assert func._schema.name.removeprefix("aten::") not in WAITING, f"{func} waits for the device"
        assert str(kwargs.get("device")) != "cpu", f"{func} copies to the host"
        return func(*args, **kwargs)


def causal(q, mask):
    row = torch.arange(q.shape[2], device=q.device)
    return mask & (row[:, None] >= row[None, :])


def documents(q, cu):
    ids = torch.searchsorted(cu, torch.arange(q.shape[2], device=q.device), right=True)
    return ids[:, None] == ids[None, :]


def documents_causal(q, cu):
    return causal(q, documents(q, cu))


def starts(q, begins):
    ids = begins.cumsum(0)
    return causal(q, ids[:, None] == ids[None, :])


def any_ids(q, ids):
    return ids[:, None] == ids[None, :]


def any_ids_causal(q, ids):
    return causal(q, ids[:, None] == ids[None, :])


def kept_keys(q, keep):
    return keep.expand(q.shape[2], -1)


def kept_keys_causal(q, keep):
    return causal(q, keep)


CU = torch.zeros(9, dtype=torch.int64, device="meta")
IDS = torch.zeros(ROWS, dtype=torch.int64, device="meta")
FLAGS = torch.ones(ROWS, dtype=torch.bool, device="meta")


@pytest.mark.parametrize(
    ("mask_of", "metadata", "dtype", "taken_by"),
    [
        (documents, CU, torch.bfloat16, "varlen"),
        (documents_causal, CU, torch.bfloat16, "varlen"),
        (documents_causal, CU, torch.float32, "flex"),
        (starts, FLAGS, torch.bfloat16, "flex"),  # as many groups as rows, for all that can be known
        (any_ids, IDS, torch.bfloat16, "flex"),
        (any_ids_causal, IDS, torch.float16, "flex"),
        (any_ids_causal, IDS, torch.float32, "flex"),
        (kept_keys, FLAGS, torch.bfloat16, "varlen"),
        (kept_keys_causal, FLAGS, torch.bfloat16, "flex"),
    ],
)
def test_is_lowered_without_a_wait(mask_of, metadata, dtype, taken_by):
    (site,), calls = compiled(mask_of, metadata, 32, dtype, dynamic=True)
    assert site.lowered, site.reason
    assert site.kernel == cuda.KERNEL.name
    assert calls == [taken_by]


@pytest.mark.parametrize(
    ("width", "dtype", "reason"),
    [(264, torch.bfloat16, "head dim 264 on axis 2, expected at most 256"), (32, torch.float64, "q is torch.float64")],
)
def test_what_the_kernel_refuses_is_left_alone(width, dtype, reason):
    (site,), taken_by = compiled(documents, CU, width, dtype, dynamic=False)
    assert not site.lowered
    assert reason in site.reason
    assert taken_by == []


def compiled(mask_of, metadata, width, dtype, dynamic):
    """Sites of attention under a mask, and which code of the kernel takes the calls that were written for them."""
    sites, device = [], OnCuda()

    def attend(q, k, v, metadata):
        return scaled_dot_product_attention(q, k, v, attn_mask=mask_of(q, metadata))

    def backend(gm, examples):
        gm, report = rewrite(gm)
        sites.extend(report.sites)

        def run(*arguments):
            with device:
                return gm(*arguments)

        return run

    q, k, v = (torch.empty(1, 4, ROWS, width, dtype=dtype, device="meta") for _ in range(3))
    for one in (q, k, v):
        torch._dynamo.mark_static(one, [1, 3])  # as where the weights of a model tell the heads
    torch._dynamo.reset()
    out = torch.compile(attend, backend=backend, dynamic=dynamic, fullgraph=True)(q, k, v, metadata)
    assert out.shape == q.shape
    return sites, device.taken_by
