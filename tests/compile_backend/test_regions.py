"""Bodies that several calls share stay shared, and each call has boundaries of its own."""

import pytest
import torch
from shapecheck.compile_backend import rewrite
from torch import fx
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils.checkpoint import checkpoint

region = torch.compiler.nested_compile_region
TAGS = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2])
OTHER = torch.tensor([0, 1, 1, 1, 1, 1, 1, 2])
WEIGHTS = [torch.randn(8, 8) * 0.2 for _ in range(3)]


def attend(x, mask, weight):
    q = (x @ weight).view(1, -1, 2, 4).transpose(1, 2)
    return x + sdpa(q, q, q, attn_mask=mask).transpose(1, 2).flatten(2)[0]


@region
def by_mask(x, mask, weight):
    return attend(x, mask, weight)


@region
def by_tags(x, tags, weight):
    return attend(x, tags[:, None] == tags, weight)


@region
def with_checkpoint(x, mask, weight):
    return checkpoint(attend, x, mask, weight, use_reentrant=False)


@region
def around(x, tags, weight):
    return by_tags(by_tags(x, tags, weight), tags, weight)


def one_mask(x, tags, other):
    mask = tags[:, None] == tags
    for weight in WEIGHTS:
        x = by_mask(x, mask, weight)
    return x


def masks_of_their_own(x, tags, other):
    for weight, of in zip(WEIGHTS, (tags, other, tags), strict=True):
        x = by_mask(x, of[:, None] == of, weight)
    return x


def tags_of_their_own(x, tags, other):
    for weight, of in zip(WEIGHTS, (tags, other, tags), strict=True):
        x = by_tags(x, of, weight)
    return x


def checkpoints(x, tags, other):
    mask = tags[:, None] == tags
    for weight in WEIGHTS:
        x = with_checkpoint(x, mask, weight)
    return x


def regions_in_regions(x, tags, other):
    return around(around(x, tags, WEIGHTS[0]), other, WEIGHTS[1])


def one_is_left(x, tags, other):
    mask = tags[:, None] == tags
    x = by_mask(by_mask(x, mask, WEIGHTS[0]), other[:, None] + tags > 3, WEIGHTS[1])
    return by_mask(x, mask, WEIGHTS[2])


def none_is_lowered(x, tags, other):
    mask = other[:, None] + tags > 3
    return by_mask(by_mask(x, mask, WEIGHTS[0]), mask, WEIGHTS[1])


def captured(function):
    """The graph as it was left, its report, and its code before."""
    kept = []

    def backend(gm, example_inputs):
        code = gm.code
        kept.append((*rewrite(gm), code))
        return gm.forward

    torch._dynamo.reset()
    x = torch.randn(8, 8)
    with torch.no_grad():
        out = torch.compile(function, backend=backend, fullgraph=True)(x, TAGS, OTHER)
        torch.testing.assert_close(out, function(x, TAGS, OTHER))
    ((gm, report, code),) = kept
    assert not report.failure
    return gm, report, code


def called(gm):
    """For each call: what its compiled body is kept by, and its body."""
    calls = gm.graph.find_nodes(op="call_function", target=torch.ops.higher_order.invoke_subgraph)
    return [(call.args[1], getattr(gm, call.args[0].target)) for call in calls]


CASES = [  # attentions lowered, of how many; bodies that are left
    (one_mask, 3, 3, 1),
    (masks_of_their_own, 3, 3, 1),
    (tags_of_their_own, 3, 3, 1),
    (checkpoints, 3, 3, 1),
    (regions_in_regions, 4, 4, 1),
    (one_is_left, 2, 3, 2),
    (none_is_lowered, 0, 2, 1),
]


@pytest.mark.parametrize(("function", "lowered", "sites", "bodies"), CASES)
def test_calls_share_what_is_the_same(function, lowered, sites, bodies):
    gm, report, code = captured(function)
    assert (len(report.lowered), len(report.sites)) == (lowered, sites)
    found = called(gm)
    assert len({name for name, _ in found}) == len({id(body) for _, body in found}) == bodies
    # Nothing is left over of the copies, and no name of a body stands for two.
    inner = [module for module in gm.modules() if isinstance(module, fx.GraphModule) and module is not gm]
    assert len(inner) == bodies + (function in (checkpoints, regions_in_regions))
    if not lowered:
        assert gm.code == code


def test_a_mask_that_nothing_needs_any_more_is_no_operand():
    gm, _, _ = captured(one_mask)
    assert not any(node.name == "mask" for node in gm.graph.nodes)
    for _, body in called(gm):
        assert all(node.users for node in body.graph.find_nodes(op="placeholder"))


@pytest.mark.parametrize(
    "function",
    [
        checkpoints,
        one_is_left,
        pytest.param(masks_of_their_own, marks=pytest.mark.slow),
        pytest.param(regions_in_regions, marks=pytest.mark.slow),
    ],
)
def test_gradients(function):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="shapecheck", fullgraph=True, options={"inner": "aot_eager"})
    x = torch.randn(8, 8, requires_grad=True)
    for tags, other in ((TAGS, OTHER), (OTHER, TAGS)):
        same(compiled, function, x, tags, other)


@pytest.mark.slow
def test_dynamic_rows():
    torch._dynamo.reset()
    compiled = torch.compile(tags_of_their_own, backend="shapecheck", fullgraph=True, options={"inner": "aot_eager"})
    for rows in (8, 11):
        x = torch.randn(rows, 8, requires_grad=True)
        tags, other = (torch.randint(0, 3, (rows,)).sort().values for _ in range(2))
        for one in (x, tags, other):
            torch._dynamo.mark_dynamic(one, 0)
        same(compiled, tags_of_their_own, x, tags, other)


def same(compiled, function, x, tags, other):
    out, expected = (one(x, tags, other) for one in (compiled, function))
    torch.testing.assert_close(out, expected)
    (grad,), (wanted,) = (torch.autograd.grad(one.sin().sum(), x) for one in (out, expected))
    torch.testing.assert_close(grad, wanted)
