"""`shapecheck.varlen_attention`: what users call, and what it tells them."""

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from shapecheck import ContractError, varlen_attention

from .layouts import Layout, boundaries

CU = boundaries([3, 0, 5])


def call(*, rows=8, heads_q=2, heads_k=2, cu_seqlens_q=CU, cu_seqlens_k=CU, max_seqlen_q=5, max_seqlen_k=5, **options):
    q = torch.randn(rows, heads_q, 4)
    k = torch.randn(rows, heads_k, 4)
    return varlen_attention(q, k, k, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, **options)


def test_each_sequence_attends_to_itself():
    q, k, v = (one.detach() for one in Layout.of([3, 5]).tensors(torch.float32))
    out = varlen_attention(q, k, v, boundaries([3, 5]), boundaries([3, 5]), 5, 5, causal=True)
    for rows in (slice(0, 3), slice(3, 8)):
        alone = scaled_dot_product_attention(*(one[rows].transpose(0, 1) for one in (q, k, v)), is_causal=True)
        torch.testing.assert_close(out[rows], alone.transpose(0, 1))


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (2, 1)}, {"scale": 0.7}])
def test_options_mean_what_the_definition_says(options):
    layout = Layout.of([3, 0, 7], [4, 2, 5], **{"scale": 1 / math.sqrt(8), **options})
    q, k, v = layout.tensors()
    cu_seqlens = layout.cu_seqlens_q, layout.cu_seqlens_k
    out, lse = varlen_attention(q, k, v, *cu_seqlens, 7, 5, **options, return_lse=True)
    expected, expected_lse = layout.expect(q, k, v)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(lse, expected_lse)
    assert torch.equal(varlen_attention(q, k, v, *cu_seqlens, 70, 50, **options), out)


@pytest.mark.parametrize("tail", ["zero", "undefined"])
def test_rows_behind_the_last_sequence(tail):
    out = call(rows=12, tail=tail)
    assert out.shape == (12, 2, 4)
    if tail == "zero":
        assert not out[8:].any()


@pytest.mark.parametrize(
    ("changes", "argument", "says"),
    [
        ({"cu_seqlens_q": boundaries([3, 5])}, "cu_seqlens_k", "4 boundaries"),
        ({"cu_seqlens_k": boundaries([3, 0, 6])}, "cu_seqlens_k", r"\[-1\] is 9, expected at most 8 \(Tk\)"),
        ({"cu_seqlens_q": torch.tensor([3, 0, 5, 8])}, "cu_seqlens_q", r"\[0\] is 3, expected 0"),
        ({"cu_seqlens_q": CU.float()}, "cu_seqlens_q", "is float32, expected one of"),
        ({"max_seqlen_q": 4}, "max_seqlen_q", "is 4, expected at least 5, the longest sequence of cu_seqlens_q"),
        ({"max_seqlen_k": 0}, "max_seqlen_k", "is 0, expected at least 5, the longest sequence of cu_seqlens_k"),
        ({"max_seqlen_q": torch.tensor(5)}, "max_seqlen_q", "expected int"),
        ({"heads_q": 3}, "q", "has 3 heads, expected a multiple of the 2 heads of k"),
        ({"window": (-1, -5)}, "window", "is -5 to the right"),
        ({"window": 3}, "window", "expected tuple"),
        ({"tail": "nan"}, "tail", "expected Literal"),
    ],
)
def test_arguments_that_do_not_fit(changes, argument, says):
    with pytest.raises(ContractError, match=f"varlen_attention: {argument}.*{says}") as caught:
        call(**changes)
    assert caught.value.argument == argument


def test_a_compiled_call_is_checked_too():
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    compiled(cu_seqlens_q=CU)
    with pytest.raises(ContractError, match=r"cu_seqlens_k\[-1\] is 9, expected at most 8"):
        compiled(cu_seqlens_q=CU, cu_seqlens_k=boundaries([3, 0, 6]))


@pytest.mark.parametrize(("dynamic", "frames"), [(None, [1, 2, 2, 2, 2, 2, 2]), (True, [1] * 7)])
def test_no_graph_break_and_no_graph_more_than_raw_tensors_cause(dynamic, frames):
    """Seven batches of other numbers of rows and sequences: one static graph, then one for all."""
    graphs = []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph

    def attend(q, cu_seqlens, longest):
        return varlen_attention(q * 1, q, q, cu_seqlens, cu_seqlens, longest, longest, causal=True, window=(9, -1))

    compiled = torch.compile(attend, backend=counting, fullgraph=True, dynamic=dynamic)
    seen = []
    for lengths in ([12], [3, 17], [0, 5, 28], [7], [1, 2, 3, 44], [12], [64, 0]):
        q, _, _ = Layout.of(lengths).tensors(torch.float32)
        out = compiled(q, boundaries(lengths), max(lengths))
        torch.testing.assert_close(out, attend(q, boundaries(lengths), max(lengths)))
        seen.append(len(graphs))
    assert seen == frames


def test_fake_tensors_pass():
    with torch._subclasses.FakeTensorMode():
        out, lse = call(cu_seqlens_q=torch.zeros(4).int(), cu_seqlens_k=torch.zeros(4).int(), return_lse=True)
    assert (out.shape, lse.shape) == ((8, 2, 4), (2, 8))
