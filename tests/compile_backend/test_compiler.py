"""The entry point: another backend compiles the rewritten graph, with its caches and no graph more than without."""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch._dynamo.backends.registry import list_backends
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.functional import scaled_dot_product_attention as sdpa


def packed(q, cu):
    tags = torch.searchsorted(cu, torch.arange(q.shape[2], device=q.device), right=True)
    return sdpa(q, q, q, attn_mask=tags[:, None] == tags)


def inputs(*lengths, requires_grad=False):
    cu = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    q = torch.randn(1, 2, int(cu[-1]), 8, requires_grad=requires_grad)
    return q, cu


def operators(module):
    return [str(node.target) for node in module.graph.nodes if node.op == "call_function"]


def test_it_is_found_without_an_import():
    assert "shapecheck" in list_backends()


def test_the_inner_backend_gets_the_rewritten_graph():
    graphs = []

    def inner(gm, example_inputs):
        graphs.append(operators(gm))
        return gm.forward

    q, cu = inputs(3, 5)
    out = torch.compile(packed, backend="shapecheck", options={"inner": inner})(q, cu)
    torch.testing.assert_close(out, packed(q, cu))
    (names,) = graphs
    assert any("shapecheck.varlen_attention" in name for name in names)
    assert not any("scaled_dot_product_attention" in name for name in names)


@pytest.mark.parametrize("inner", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("training", [False, True])
def test_inner_backends_by_name(inner, training):
    q, cu = inputs(3, 0, 5, 1, requires_grad=training)
    out = torch.compile(packed, backend="shapecheck", options={"inner": inner}, fullgraph=True)(q, cu)
    expected = packed(q, cu)
    torch.testing.assert_close(out, expected)
    if training:
        (one,), (other,) = (torch.autograd.grad(held.sin().sum(), q) for held in (out, expected))
        torch.testing.assert_close(one, other)


def test_an_unknown_inner_backend_is_an_error():
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="InvalidBackend"):
        torch.compile(packed, backend="shapecheck", options={"inner": "no_such"})(*inputs(2, 2))


@pytest.mark.parametrize("dynamic", [None, True])
def test_no_graph_more_than_stock_over_seven_batches(dynamic):
    batches = [inputs(*lengths) for lengths in ((3, 5), (4, 4, 9), (7,), (1, 2, 3, 4), (12, 1), (5, 5, 5), (2, 30))]

    def graphs(backend, **options):
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("eager")
        inner = counter if backend is None else backend
        compiled = torch.compile(
            packed, backend=inner, dynamic=dynamic, fullgraph=True, options=(options and {"inner": counter}) or None
        )
        for q, cu in batches:
            torch.testing.assert_close(compiled(q, cu), packed(q, cu))
        return counter.frame_count

    assert graphs("shapecheck", inner=True) == graphs(None)


SECOND_PROCESS = """
import json, torch
from torch._dynamo.utils import counters
from torch.nn.functional import scaled_dot_product_attention as sdpa

def packed(q, cu):
    tags = torch.searchsorted(cu, torch.arange(q.shape[2]), right=True)
    return sdpa(q, q, q, attn_mask=tags[:, None] == tags)

torch.manual_seed(0)
q = torch.randn(1, 2, 8, 8, requires_grad=True)
cu = torch.tensor([0, 3, 8], dtype=torch.int32)
torch.compile(packed, backend="shapecheck")(q, cu).sum().backward()
print(json.dumps({**counters["aot_autograd"], **counters["inductor"], "gradient": q.grad.abs().sum().item()}))
"""


@pytest.mark.slow
def test_both_caches_of_inductor_hit_in_the_second_process(tmp_path):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    runs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-P", "-c", SECOND_PROCESS], env=environment, capture_output=True, text=True, check=True
        )
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    first, second = runs
    assert first.get("autograd_cache_hit", 0) == 0
    assert second["autograd_cache_hit"] == 1
    assert second["fxgraph_cache_hit"] >= 1
    assert second["gradient"] == pytest.approx(first["gradient"])


def test_where_nothing_is_lowered_the_graph_is_the_same_to_the_letter():
    seen = []

    def record(gm, example_inputs):
        seen.append((gm.code, str(gm.graph)))
        return gm.forward

    def biased(q, cu):
        tags = torch.searchsorted(cu, torch.arange(q.shape[2]), right=True)
        bias = torch.where(tags[:, None] == tags, 0.0, -20.0)  # something leaks
        return sdpa(q, q, q, attn_mask=bias)

    q, cu = inputs(3, 5)
    torch.compile(biased, backend=record)(q, cu)
    torch._dynamo.reset()
    torch.compile(biased, backend="shapecheck", options={"inner": record})(q, cu)
    assert seen[0] == seen[1]
