import torch
from hypothesis import given
from hypothesis import strategies as st
from shapecheck.compile_backend.boundaries import read_boundaries


def dense(cu_q, cu_k, causal, window, order_q, order_k):
    """Which packed key each packed query sees, pair by pair."""
    seen = torch.zeros(cu_q[-1], cu_k[-1], dtype=torch.bool)
    left, right = window
    for i in range(len(cu_q) - 1):
        nq, nk = cu_q[i + 1] - cu_q[i], cu_k[i + 1] - cu_k[i]
        for a in range(nq):
            for b in range(nk):
                row, col = cu_q[i] + a, cu_k[i] + b
                distance = order_k[col] - order_q[row] if order_q is not None else b - (a + nk - nq)
                hidden = (causal and distance > 0) or (0 <= right < distance) or (0 <= left < -distance)
                seen[row, col] = not hidden
    return seen


@st.composite
def calls(draw):
    lengths = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=5))
    cu_q, cu_k = [0], [0]
    for nq, nk in lengths:
        cu_q.append(cu_q[-1] + nq)
        cu_k.append(cu_k[-1] + nk)
    orders = [None, None]
    if draw(st.booleans()):
        orders = []
        for cu in (cu_q, cu_k):
            rows = draw(st.permutations(range(cu[-1])))
            orders.append([row for i in range(len(cu) - 1) for row in sorted(rows[cu[i] : cu[i + 1]])])
    window = (draw(st.integers(-1, 5)), draw(st.integers(-1, 5)))
    return cu_q, cu_k, draw(st.booleans()), window, *orders


@given(calls())
def test_visible_keys_are_those_of_the_dense_mask(call):
    cu_q, cu_k, causal, window, order_q, order_k = call
    tensors = [None if order is None else torch.tensor(order, dtype=torch.int64) for order in (order_q, order_k)]
    seen = read_boundaries(
        cu_q[-1] + 2, cu_k[-1] + 3, torch.tensor(cu_q), torch.tensor(cu_k, dtype=torch.int32), causal, window, *tensors
    )
    keys = torch.arange(cu_k[-1])
    ranges = (keys >= seen.first[:, None]) & (keys < seen.stop[:, None])
    expected = dense(*call)
    assert torch.equal(ranges, expected)
    assert seen.pairs == expected.sum()
    assert (seen.rows_q, seen.rows_k) == (cu_q[-1] + 2, cu_k[-1] + 3)


def test_segments_of_padded_boundaries():
    cu = torch.tensor([0, 3, 3, 8, 8, 8, 8])
    seen = read_boundaries(9, 9, cu, cu, False, (-1, -1))
    assert seen.segments == [0, 2]
    assert seen.longest == (5, 5)


def test_a_segment_with_keys_only_is_one():
    seen = read_boundaries(2, 5, torch.tensor([0, 0, 2]), torch.tensor([0, 3, 5]), False, (-1, -1))
    assert seen.segments == [0, 1]
    assert seen.longest == (2, 3)
    assert seen.pairs == 4


def test_matches():
    cu, other = torch.tensor([0, 4]), torch.tensor([0, 3])
    full = read_boundaries(4, 4, cu, cu, False, (-1, -1))
    assert full.matches(read_boundaries(4, 4, cu.int(), cu.int(), False, (-1, -1)))
    assert not full.matches(read_boundaries(4, 4, cu, cu, True, (-1, -1)))
    assert not full.matches(read_boundaries(4, 4, other, other, False, (-1, -1)))
    assert not full.matches(read_boundaries(5, 4, cu, cu, False, (-1, -1)))
