"""The examples of docs/backend.md: each mask there is lowered, and gives what it gave before."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from shapecheck.compile_backend import rewrite
from shapecheck.compile_backend.settings import parse

from shapecheck import explain

TEXT = (Path(__file__).parents[2] / "docs" / "backend.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
PREAMBLE, *EXAMPLES = (block for block in BLOCKS if block.startswith(("import torch", "def ")))


def function(source):
    scope = {}
    exec(PREAMBLE + source, scope)
    return next(held for name, held in scope.items() if inspect.isfunction(held) and name != "sdpa")


def arguments(names, requires_grad=False):
    generator = torch.Generator().manual_seed(0)
    batch = 2 if "attention_mask" in names else 1
    q, k, v = (torch.randn(batch, 2, 12, 8, generator=generator).requires_grad_(requires_grad) for _ in range(3))
    held = {
        "q": q,
        "k": k,
        "v": v,
        "cu_seqlens": torch.tensor([0, 4, 5, 12], dtype=torch.int32),
        "cu_seqlens_k": torch.tensor([0, 2, 9, 12], dtype=torch.int32),
        "lengths": torch.tensor([4, 1, 7]),
        "position_ids": torch.tensor([[0, 1, 2, 3, 0, 0, 1, 2, 3, 4, 5, 6]]),
        "document_ids": torch.tensor([5, 5, 2, 5, 2, 2, 9, 9, 5, 9, 9, 9]),
        "attention_mask": torch.tensor([[1] * 12, [1] * 7 + [0] * 5]),
    }
    return [held[name] for name in names]


def test_there_are_examples():
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize("source", EXAMPLES, ids=lambda source: source[4 : source.index("(")])
def test_each_mask_is_lowered(source):
    dynamic = EXAMPLES.index(source) % 2 == 0
    reports = []

    def backend(gm, example_inputs):
        gm, report = rewrite(gm)
        reports.append(report)
        return gm.forward

    example = function(source)
    given = arguments(inspect.signature(example).parameters, requires_grad=True)
    torch._dynamo.reset()
    out = torch.compile(example, backend=backend, fullgraph=True, dynamic=dynamic)(*given)
    (report,) = reports
    assert [(site.lowered, site.reason) for site in report.sites] == [(True, "")]
    expected = example(*given)
    torch.testing.assert_close(out, expected)
    for one, other in zip(
        torch.autograd.grad(out.sin().sum(), given[:3]),
        torch.autograd.grad(expected.sin().sum(), given[:3]),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_repeated_heads_are_read_as_they_were():
    (source,) = (one for one in EXAMPLES if "grouped_heads" in one)
    example = function(source)
    shapes = []

    class Watch(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            if "shapecheck.varlen_attention" in str(target):
                shapes.extend(tuple(one.shape) for one in args[:3])
            return super().call_function(target, args, kwargs)

    def backend(gm, example_inputs):
        return Watch(rewrite(gm)[0]).run

    torch._dynamo.reset()
    torch.compile(example, backend=backend)(*arguments(inspect.signature(example).parameters))
    assert shapes == [(12, 2, 8), (12, 1, 8), (12, 1, 8)]


# Dynamo itself makes one, whenever it captures a mask_mod.
@pytest.mark.filterwarnings("ignore:.* should not be instantiated:DeprecationWarning")
def test_flex_attention_is_lowered():
    (block,) = (block for block in BLOCKS if "create_block_mask" in block)
    scope = {}
    exec(block, scope)
    (source,) = (one for one in EXAMPLES if "from_document_ids" in one)
    given = arguments(("q", "k", "v", "document_ids"), requires_grad=True)
    torch._dynamo.reset()
    flex = torch.compile(scope["flex"], backend="shapecheck", options={"inner": "eager"}, fullgraph=True)
    results = []
    for form in (flex, function(source)):
        out = form(*given)
        results.append([out, *torch.autograd.grad(out.sin().sum(), given[:3])])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_a_mask_that_arrives_as_an_input_is_left_alone():
    def given(q, mask):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    found = explain(given, torch.randn(1, 2, 12, 8), torch.ones(12, 12, dtype=torch.bool))
    assert [site.site.lowered for site in found.sites] == [False]


def test_the_options_are_known():
    (block,) = (block for block in BLOCKS if "on_divergence" in block)
    scope = {"torch": SimpleNamespace(compile=lambda model, **given: given), "model": None}
    exec(block, scope)
    asked = parse(None, scope["model"]["options"])
    assert (asked.inner, asked.on_divergence) == ("inductor", "raise")
    assert asked.patches["max_autotune_gemm"] is True


def test_a_backend_of_ones_own(capsys):
    (block,) = (block for block in BLOCKS if "my_backend" in block)
    scope = {}
    exec(block, scope)
    example = function(EXAMPLES[0])
    given = arguments(inspect.signature(example).parameters)
    torch._dynamo.reset()
    out = torch.compile(example, backend=scope["my_backend"])(*given)
    torch.testing.assert_close(out, example(*given))
    assert capsys.readouterr().out.rstrip().endswith("lowered")
