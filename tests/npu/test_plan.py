"""Cutting boundaries into calls that Ascend's operators take, on the host alone."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapecheck import ContractError
from shapecheck._attention._call import Call
from shapecheck._attention.kernels import kernel_for, npu_training
from shapecheck._attention.kernels.npu_plan import MAX_ROWS, MAX_SEGMENTS, Plan, plan


def planned(bounds_q: list[int], bounds_k: list[int] | None = None, ahead: int = -1) -> Plan:
    bounds_k = bounds_q if bounds_k is None else bounds_k
    return plan(tuple(bounds_q), tuple(bounds_k), bounds_q[-1], bounds_k[-1], ahead, same_rows=False)


@given(st.lists(st.integers(0, 2), max_size=2500), st.integers(0, 5))
def test_pieces_hold_every_segment_once(lengths, start):
    bounds = [start]
    for length in lengths:
        bounds.append(bounds[-1] + length)
    made = planned(bounds)
    ends = [piece.rows_q.start + end for piece in made.pieces for end in piece.ends_q.tolist()]
    assert ends == [end - start for one, end in pairwise(bounds) if end > one]
    assert all(len(piece.ends_q) <= MAX_SEGMENTS for piece in made.pieces)
    # The inference operator wants the last end to be the number of rows.
    assert all(piece.ends_q[-1] == piece.rows_q.stop - piece.rows_q.start for piece in made.pieces)
    joints = [0, *(piece.rows_q.stop for piece in made.pieces)]
    assert [piece.rows_q.start for piece in made.pieces] == joints[:-1]


def test_a_plan_is_made_once_for_all_layers():
    assert planned([0, 3, 8]) is planned([0, 3, 8])


def test_ends_are_what_v3_takes():
    with torch.inference_mode():
        piece = planned([0, 3, 11]).pieces[0]
    assert piece.ends_q.tolist() == [3, 11]
    assert (piece.ends_q.dtype, piece.ends_q.device.type) == (torch.int64, "cpu")
    assert not piece.ends_q.is_inference()


def test_more_rows_than_one_call_takes():
    made = planned([0, MAX_ROWS - 1, MAX_ROWS + 1, MAX_ROWS + 5])
    assert [piece.ends_q.tolist() for piece in made.pieces] == [[MAX_ROWS - 1], [2, 6]]


def test_a_sequence_longer_than_the_operators_take():
    with pytest.raises(ContractError, match=r"cu_seqlens_q segment 1 has 1048577 query rows .* shard the sequence"):
        planned([0, 1, MAX_ROWS + 2])
    with pytest.raises(ContractError, match=r"cu_seqlens_k segment 0 has 1 query rows and 1048577 key rows"):
        planned([0, 1], [0, MAX_ROWS + 1])


def test_no_boundaries():
    with pytest.raises(ContractError, match="cu_seqlens_q is empty"):
        plan((), (), 0, 0, -1, same_rows=False)


def test_without_torch_npu(monkeypatch):
    monkeypatch.setattr(npu_training, "available", lambda: False)
    q, cu = torch.empty(3, 1, 8), torch.tensor([0, 3])
    call = Call(cu, cu, 3, 3, causal=False, window=(-1, -1), scale=1.0, zero_tail=True)
    assert "import it" in (kernel_for("npu").refuses(q, q, q, call) or "")
