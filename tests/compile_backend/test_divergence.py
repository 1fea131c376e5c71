"""Metadata that contradicts itself: the call ends in a ContractError that names both sides; nothing else does."""

import warnings
from typing import Annotated

import pytest
import torch
from jaxtyping import Float, Int
from shapecheck.compile_backend import rewrite
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as sdpa

import shapecheck

from .varlen_operators import flash, infer, others

Q = torch.randn(8, 2, 4)
CU = torch.tensor([0, 3, 8], dtype=torch.int32)
OTHER = torch.tensor([0, 8], dtype=torch.int32)


def compiled(function, inner="eager", dynamic=False, **options):
    torch._dynamo.reset()
    options = {"inner": inner, **options}
    return torch.compile(function, backend="shapecheck", dynamic=dynamic, fullgraph=True, options=options)


def literal(*numbers, dtype=torch.int32):
    return torch.tensor(numbers, dtype=dtype)


def of_two_batches(q, cu, other):
    return flash(q, q, q, cu, other, 8, 8)


def without_the_zero(q, cu, other):
    return flash(q, q, q, cu, cu[1:], 8, 8)


def lengths_for_boundaries(q, cu, other):
    return flash(q, q, q, literal(3, 5), literal(3, 5), 8, 8)


def first_row_skipped(q, cu, other):
    cu = torch.cat([literal(1), cu[1:]])
    return flash(q, q, q, cu, cu, 8, 8)


def unsorted(q, cu, other):
    return flash(q, q, q, cu, literal(0, 5, 3), 8, 8)


def beyond_the_rows(q, cu, other):
    return flash(q[:6], q, q, literal(0, 3, 8), literal(0, 3, 8), 8, 8)


def of_int64(q, cu, other):
    cu = cu.long()
    return flash(q, q, q, cu, cu, 8, 8)


def too_short(q, cu, other):
    return flash(q, q, q, literal(0, 3, 8), literal(0, 3, 8), 5, 4)


def short_of_the_rows(q, cu, other):
    ends = literal(3, 7, dtype=torch.int64)
    return infer(q, q, q, input_layout="TND", actual_seq_lengths=ends)


CONTRADICTIONS = [
    (of_two_batches, "cu_seqlens_k", "has 2 boundaries, expected 3 as cu_seqlens_q has", "cu_seqlens_q"),
    (without_the_zero, "cu_seqlens_k", "has 2 boundaries, expected 3 as cu_seqlens_q has", "cu_seqlens_q"),
    (lengths_for_boundaries, "cu_seqlens_q", "starts at 3, expected 0", None),
    (first_row_skipped, "cu_seqlens_q", "starts at 1, expected 0", None),
    (unsorted, "cu_seqlens_k", "falls from 5 to 3", None),
    (beyond_the_rows, "cu_seqlens_q", "ends at 8, expected at most 6: q has 6 rows", "q"),
    (of_int64, "cu_seqlens_q", "is torch.int64, expected torch.int32", None),
    (too_short, "max_seqlen_k", "is 4, expected at least 5, the longest segment of cu_seqlens_k", "cu_seqlens_k"),
    (short_of_the_rows, "actual_seq_lengths", "ends at 7, expected 8: query has 8 rows", "query"),
]
each = pytest.mark.parametrize(
    ("function", "argument", "problem", "bound_by"), CONTRADICTIONS, ids=lambda one: getattr(one, "__name__", "")
)


@each
def test_the_call_ends_in_an_error_that_names_both_sides(function, argument, problem, bound_by):
    with pytest.raises(shapecheck.ContractError) as caught:
        compiled(function)(Q, CU, OTHER)
    error, message = caught.value, str(caught.value)
    assert (error.argument, error.bound_by) == (argument, bound_by)
    first, source, *rest = message.splitlines()
    assert first.startswith(("flash_attn::", "npu::"))
    assert f" at {__file__}:" in first
    assert f": {argument} {problem}" in first
    assert source.startswith(f"  {argument}: ")
    if bound_by is not None:
        assert rest[0].startswith(f"  {bound_by}: ")
    assert f"fix: {error.hint}" in message


def test_the_sources_are_told():
    with pytest.raises(shapecheck.ContractError) as caught:
        compiled(without_the_zero)(Q, CU, OTHER)
    _, keys, queries, _ = str(caught.value).splitlines()
    assert keys.startswith("  cu_seqlens_k: a slice of input cu at ")
    assert queries == "  cu_seqlens_q: input cu"


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_in_training_and_with_dynamic_sizes(inner, dynamic):
    q = Q.clone().requires_grad_()
    with pytest.raises(shapecheck.ContractError, match="expected s?[0-9]+ as cu_seqlens_q has"):
        compiled(without_the_zero, inner, dynamic)(q, CU, OTHER)


def test_on_every_call_and_not_for_other_sizes():
    call = compiled(of_two_batches)
    for _ in range(2):
        with pytest.raises(shapecheck.ContractError):
            call(Q, CU, OTHER)
    torch.testing.assert_close(call(Q, CU, CU), Q * 2)


@each
def test_skip_goes_on_and_reports(function, argument, problem, bound_by):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = compiled(function, on_divergence="skip")(Q, CU, OTHER)
    torch.testing.assert_close(out, function(Q, CU, OTHER))
    kept = []

    def backend(gm, example_inputs):
        kept.append(rewrite(gm)[1])
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(Q, CU, OTHER)
    (site,) = kept[0].sites
    assert not site.lowered
    assert site.reason.startswith(f"varlen already, and contradicts itself: {argument} ")
    assert "contradicted" in {one.status for one in site.obligations}


def test_warn_warns_once_and_goes_on():
    call = compiled(too_short, on_divergence="warn")
    with pytest.warns(RuntimeWarning, match="max_seqlen_k is 4, expected at least 5") as caught:
        first = call(Q, CU, OTHER)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(call(Q, CU, OTHER), first)


def test_level_off_goes_on(monkeypatch):
    monkeypatch.setenv("SHAPECHECK", "off")
    torch.testing.assert_close(compiled(too_short)(Q, CU, OTHER), Q * 2)


def test_an_error_of_a_contract_stays_as_it_is():
    @shapecheck.contract
    def f(
        q: Float[Tensor, "T H D"],
        cu: Annotated[Int[Tensor, "B+1"], shapecheck.PrefixSum()],
        other: Annotated[Int[Tensor, "B+1"], shapecheck.PrefixSum()],
    ):
        return of_two_batches(q, cu, other)

    with pytest.raises(shapecheck.ContractError) as caught:
        compiled(f)(Q, CU, OTHER)
    assert "flash_attn" not in str(caught.value)
    assert caught.value.argument == "other"


def test_explain_shows_it():
    text = str(shapecheck.explain(too_short, Q, CU, OTHER))
    assert "contradicted" in text
    assert "max_seqlen_k is 4" in text


# No false alarm -----------------------------------------------------------------------------------------------------


def rows_behind_the_last(q, cu, other):
    return flash(q, q, q, literal(0, 3, 5), literal(0, 3, 5), 3, 3)


def repeated(q, cu, other):
    cu = literal(0, 0, 3, 8, 8, 8)
    return flash(q, q, q, cu, cu, 5, 5)


def cross(q, cu, other):
    return flash(q, q[:4], q[:4], cu, literal(0, 0, 4), 8, 4)


def fewer_keys_used(q, cu, other):
    return flash(q, q, q, literal(0, 3, 8), literal(0, 3, 8), 5, 2, seqused_k=literal(2, 2))


def no_segment(q, cu, other):
    return flash(q, q, q, literal(0), literal(0), 0, 0)


def lengths_of_the_default_layout(q, cu, other):
    return infer(q, q, q, actual_seq_lengths=literal(3, 2, dtype=torch.int64))


def an_operator_of_another_library(q, cu, other):
    """It may convert, or lay its rows out in another way."""
    return others._flash_attn_varlen_forward(q, q, q, cu.long(), literal(1, 9), 3, 3)


def lengths_of_another_layout(q, cu, other):
    return infer(q, q, q, input_layout="BSH", actual_seq_lengths=literal(3, 2, dtype=torch.int64))


def an_empty_first_segment(q, cu, other):
    return infer(q, q, q, input_layout="TND", actual_seq_lengths=literal(0, 3, 8, dtype=torch.int64))


def given_and_right(q, cu, other):
    return flash(q, q, q, cu, pad(cu.diff().cumsum(0, dtype=torch.int32), (1, 0)), 8, 8)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        rows_behind_the_last,
        repeated,
        cross,
        fewer_keys_used,
        no_segment,
        lengths_of_another_layout,
        lengths_of_the_default_layout,
        an_operator_of_another_library,
        an_empty_first_segment,
        given_and_right,
    ],
)
def test_what_may_be_right_runs(function, dynamic):
    torch.testing.assert_close(compiled(function, dynamic=dynamic)(Q, CU, OTHER), Q * 2)


def test_a_mask_of_more_segments_on_one_side_is_no_contradiction():
    """Queries of a segment without keys see nothing, which SDPA under a mask defines: zeros."""

    def f(x, cu, other):
        rows = torch.arange(8)
        of_q, of_k = (torch.searchsorted(one, rows, right=True) for one in (cu, other))
        return sdpa(x, x, x, attn_mask=of_q[:, None] == of_k)

    x = torch.randn(1, 2, 8, 4)
    torch.testing.assert_close(compiled(f)(x, CU, OTHER), f(x, CU, OTHER))
