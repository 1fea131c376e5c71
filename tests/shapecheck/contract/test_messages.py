"""Every line of every message that a broken contract gives, and the fields of the error."""

import copy
import pickle
import textwrap
from collections.abc import Callable
from typing import Annotated, Any

import pytest
import torch
from beartype.vale import Is
from jaxtyping import Float, Float32, Int, Int32, Shaped
from torch import Tensor

from shapecheck import (
    ContractError,
    InRange,
    MultipleOf,
    OneOf,
    PackedLayout,
    Part,
    PrefixSum,
    SameAsHost,
    SameBatch,
    SameDevice,
    contract,
)

FIELDS = ("argument", "axis", "expected", "actual", "bound_by", "hint")
SHORT = Is[lambda tensor: tensor.numel() < 3]


def refusal(call: Callable[[], Any]) -> ContractError:
    with pytest.raises(ContractError) as caught:
        call()
    return caught.value


def assert_refused(call: Callable[[], Any], text: str, **fields: Any) -> None:
    """The call fails with exactly this text, and with these fields: None where not given, `hint` the line of the fix."""
    error = refusal(call)
    message = textwrap.dedent(text).strip()
    assert str(error) == message
    *_, last = message.split("\n")
    hint = last.removeprefix("  fix: ") if last.startswith("  fix: ") else None
    assert {name: getattr(error, name) for name in FIELDS} == {**dict.fromkeys(FIELDS), "hint": hint, **fields}


def cu(*boundaries: int, dtype: torch.dtype = torch.int32) -> Tensor:
    return torch.tensor(boundaries, dtype=dtype)


# -- shapes and dtypes --------------------------------------------------------------------------------------------------


@contract
def head(
    x: Float[Tensor, "1 S C"],
    weight: Float32[Tensor, "C D"],
    mask: Float[Tensor, "S"] | None = None,
    blocks: Shaped[Tensor, "D+1"] | None = None,
    pairs: Shaped[Tensor, "S//2"] | None = None,
    grid: Shaped[Tensor, "4 2*P+D"] | None = None,
):
    return x


X, WEIGHT = torch.zeros(1, 6, 4), torch.zeros(4, 3)


def test_a_good_call():
    head(X, WEIGHT, torch.zeros(6), torch.zeros(4), torch.zeros(3), torch.zeros(4, 7))


@pytest.mark.parametrize(
    ("value", "what", "actual"),
    [
        ([1, 2], "a list[int]", "list"),
        (3, "3 (int)", "int"),
        (2.5, "2.5 (float)", "float"),
        ("x" * 100, f"'{'x' * 56}... (str)", "str"),
        ({}, "a dict", "dict"),
        (b"", "a bytes", "bytes"),
    ],
)
def test_not_a_tensor(value, what, actual):
    assert_refused(
        lambda: head(value, WEIGHT),
        f"""
        head: x is {what}, expected a torch.Tensor
          x: Float[Tensor, "1 S C"]
        """,
        argument="x",
        expected="torch.Tensor",
        actual=actual,
    )


def test_articles():
    assert str(refusal(lambda: head(object(), WEIGHT))).startswith("head: x is an object, expected a torch.Tensor")


def test_none():
    assert_refused(
        lambda: head(None, WEIGHT),
        """
        head: x is None, expected a torch.Tensor
          x: Float[Tensor, "1 S C"]
          fix: annotate it `Float[Tensor, "1 S C"] | None` if None is fine
        """,
        argument="x",
        expected="torch.Tensor",
        actual="NoneType",
    )


def test_rank():
    assert_refused(
        lambda: head(torch.zeros(6), WEIGHT),
        """
        head: x has 1 axis, expected 3 axes
          x is float32[6]
          x: Float[Tensor, "1 S C"]
        """,
        argument="x",
        expected=3,
        actual=1,
    )


def test_rank_without_the_leading_one():
    assert_refused(
        lambda: head(torch.zeros(6, 4), WEIGHT),
        """
        head: x has 2 axes, expected 3 axes
          x is float32[6, 4]
          x: Float[Tensor, "1 S C"]
          fix: add the leading axis of 1: .unsqueeze(0)
        """,
        argument="x",
        expected=3,
        actual=2,
    )


def test_rank_with_a_leading_one_too_many():
    assert_refused(
        lambda: head(X, WEIGHT, torch.zeros(1, 6)),
        """
        head: mask has 2 axes, expected 1 axis
          mask is float32[1, 6]
          mask: Float[Tensor, "S"]
          fix: drop the leading axis of 1: .squeeze(0)
        """,
        argument="mask",
        expected=1,
        actual=2,
    )


def test_rank_of_a_scalar():
    assert_refused(
        lambda: head(torch.tensor(1.0), WEIGHT),
        """
        head: x has 0 axes, expected 3 axes
          x is float32[]
          x: Float[Tensor, "1 S C"]
        """,
        argument="x",
        expected=3,
        actual=0,
    )


@contract
def runs(x: Float[Tensor, "*batch S C"], y: Float[Tensor, "*batch C"]): ...


def test_rank_with_a_run_of_axes():
    assert_refused(
        lambda: runs(torch.zeros(3), torch.zeros(3)),
        """
        runs: x has 1 axis, expected at least 2 axes
          x is float32[3]
          x: Float[Tensor, "*batch S C"]
        """,
        argument="x",
        expected=2,
        actual=1,
    )


def test_run_of_axes():
    assert_refused(
        lambda: runs(torch.zeros(2, 3, 5, 4), torch.zeros(2, 2, 4)),
        """
        runs: y axes *batch are [2, 2], expected [2, 3]
          *batch = [2, 3] was bound by x (x is float32[2, 3, 5, 4])
        """,
        argument="y",
        axis=0,
        expected=(2, 3),
        actual=(2, 2),
        bound_by="x",
    )


def test_run_of_axes_of_another_length():
    assert_refused(
        lambda: runs(torch.zeros(5, 4), torch.zeros(2, 4)),
        """
        runs: y axes *batch are [2], expected []
          *batch = [] was bound by x (x is float32[5, 4])
        """,
        argument="y",
        axis=0,
        expected=(),
        actual=(2,),
        bound_by="x",
    )


def test_axes_behind_a_run_are_counted_from_the_front():
    assert_refused(
        lambda: runs(torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 5)),
        """
        runs: y axis 2 (C) is 5, expected 4
          C = 4 was bound by x axis 3 (x is float32[2, 3, 5, 4])
          fix: build y and x with the same C
        """,
        argument="y",
        axis=2,
        expected=4,
        actual=5,
        bound_by="x",
    )


def test_a_single_dtype():
    assert_refused(
        lambda: head(X, WEIGHT.double()),
        """
        head: weight is float64, expected float32
          weight is float64[4, 3]
          weight: Float32[Tensor, "C D"]
          fix: cast it where it is made: .to(torch.float32)
        """,
        argument="weight",
        expected="float32",
        actual="float64",
    )


def test_a_family_of_dtypes():
    assert_refused(
        lambda: head(X.long(), WEIGHT),
        """
        head: x is int64, expected one of float32, bfloat16, float16, float64
          x is int64[1, 6, 4]
          x: Float[Tensor, "1 S C"]
        """,
        argument="x",
        expected=(
            "float32",
            "bfloat16",
            "float16",
            "float64",
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e5m2",
            "float8_e5m2fnuz",
        ),
        actual="int64",
    )


def test_a_fixed_size():
    assert_refused(
        lambda: head(torch.zeros(2, 6, 4), WEIGHT),
        """
        head: x axis 0 is 2, expected 1
          x is float32[2, 6, 4]
          x: Float[Tensor, "1 S C"]
        """,
        argument="x",
        axis=0,
        expected=1,
        actual=2,
    )


def test_a_symbol():
    assert_refused(
        lambda: head(X, torch.zeros(5, 3)),
        """
        head: weight axis 0 (C) is 5, expected 4
          C = 4 was bound by x axis 2 (x is float32[1, 6, 4])
          fix: build weight and x with the same C
        """,
        argument="weight",
        axis=0,
        expected=4,
        actual=5,
        bound_by="x",
    )


def test_a_symbol_bound_by_the_same_argument():
    @contract
    def square(x: Float[Tensor, "S S"]): ...

    assert_refused(
        lambda: square(torch.zeros(3, 4)),
        """
        test_a_symbol_bound_by_the_same_argument.square: x axis 1 (S) is 4, expected 3
          S = 3 was bound by x axis 0 (x is float32[3, 4])
        """,
        argument="x",
        axis=1,
        expected=3,
        actual=4,
        bound_by="x",
    )


def test_an_expression():
    assert_refused(
        lambda: head(X, WEIGHT, None, torch.zeros(3)),
        """
        head: blocks axis 0 (D+1) is 3, expected 4
          D = 3 was bound by weight axis 1 (weight is float32[4, 3])
          fix: build blocks and weight with the same D
        """,
        argument="blocks",
        axis=0,
        expected=4,
        actual=3,
        bound_by="weight",
    )


def test_an_expression_that_divides():
    assert_refused(
        lambda: head(X, WEIGHT, None, None, torch.zeros(6)),
        """
        head: pairs axis 0 (S//2) is 6, expected 3
          S = 6 was bound by x axis 1 (x is float32[1, 6, 4])
          fix: build pairs and x with the same S
        """,
        argument="pairs",
        axis=0,
        expected=3,
        actual=6,
        bound_by="x",
    )


def test_an_expression_that_no_size_solves():
    assert_refused(
        lambda: head(X, WEIGHT, grid=torch.zeros(4, 8)),
        """
        head: grid axis 1 is 8, but no P >= 0 makes 2*P+D equal to that
          D = 3 was bound by weight axis 1
          grid is float32[4, 8]
        """,
        argument="grid",
        axis=1,
        expected="2*P+D",
        actual=8,
    )


def test_an_expression_that_only_a_negative_size_solves():
    @contract
    def segments(cu: Int32[Tensor, "B+1"]): ...

    assert_refused(
        lambda: segments(torch.zeros(0, dtype=torch.int32)),
        """
        test_an_expression_that_only_a_negative_size_solves.segments: cu axis 0 is 0, but no B >= 0 makes B+1 equal to that
          cu is int32[0]
        """,
        argument="cu",
        axis=0,
        expected="B+1",
        actual=0,
    )


def test_an_expression_in_several_symbols():
    @contract
    def joined(a: Float[Tensor, "S"], b: Float[Tensor, "T"], both: Float[Tensor, "S+T"]): ...

    assert_refused(
        lambda: joined(torch.zeros(3), torch.zeros(4), torch.zeros(8)),
        """
        test_an_expression_in_several_symbols.joined: both axis 0 (S+T) is 8, expected 7
          S = 3 was bound by a axis 0 (a is float32[3])
          T = 4 was bound by b axis 0 (b is float32[4])
          fix: build both and a with the same S
        """,
        argument="both",
        axis=0,
        expected=7,
        actual=8,
        bound_by="a",
    )


def test_tensors_on_other_devices_say_so():
    assert_refused(
        lambda: head(X, torch.zeros(5, 3, device="meta")),
        """
        head: weight axis 0 (C) is 5, expected 4
          C = 4 was bound by x axis 2 (x is float32[1, 6, 4])
          fix: build weight and x with the same C
        """,
        argument="weight",
        axis=0,
        expected=4,
        actual=5,
        bound_by="x",
    )
    assert_refused(
        lambda: head(X.to("meta"), torch.zeros(5, 3)),
        """
        head: weight axis 0 (C) is 5, expected 4
          C = 4 was bound by x axis 2 (x is float32[1, 6, 4] on meta)
          fix: build weight and x with the same C
        """,
        argument="weight",
        axis=0,
        expected=4,
        actual=5,
        bound_by="x",
    )


# -- invariants ---------------------------------------------------------------------------------------------------------


@contract
def attention(
    q: Float[Tensor, "S C"],
    k: Float[Tensor, "T C"],
    cu_q: Annotated[Int[Tensor, "B+1"], PrefixSum(end="S"), SameDevice("q"), SameAsHost("host")],
    cu_k: Annotated[Int[Tensor, "K"], PrefixSum(end="T", tail="allow"), SameBatch("cu_q", empty="both")],
    host: list[int] | None = None,
):
    return q


Q, K = torch.zeros(8, 4), torch.zeros(9, 4)


def test_a_good_call_of_attention():
    attention(Q, K, cu(0, 4, 8), cu(0, 2, 8), [0, 4, 8])


def test_another_device():
    assert_refused(
        lambda: attention(Q, K, cu(0, 8).to("meta"), cu(0, 9)),
        """
        attention: cu_q is on meta, expected cpu as q is
          fix: move it once, where it is made: .to('cpu'), or layout.to('cpu')
        """,
        argument="cu_q",
        expected="cpu",
        actual="meta",
        bound_by="q",
    )


def test_another_dtype_of_boundaries():
    assert_refused(
        lambda: attention(Q, K, cu(0, 8, dtype=torch.int16), cu(0, 9)),
        """
        attention: cu_q is int16, expected one of int64, int32
          cu_q is int16[2]
          cu_q: Int[Tensor, "B+1"]
        """,
        argument="cu_q",
        expected=("int64", "int32"),
        actual="int16",
    )


def test_another_number_of_sequences():
    assert_refused(
        lambda: attention(Q, K, cu(0, 4, 8), cu(0, 9)),
        """
        attention: cu_k has 2 boundaries (1 sequence), expected 3 boundaries (2 sequences) as cu_q has
          cu_q  [000000000000000000000000000|11111111111111111111111111      ] 8
          cu_k  [000000000000000000000000000000000000000000000000000000000000] 9
                                            ~~~~~~~~~~~~~~~~~~~~~~~~~~~++++++  extra and shifted
          fix: filter, chunk or pad both sides together: build it and cu_q from one list of lengths
        """,
        argument="cu_k",
        axis=0,
        expected=3,
        actual=2,
        bound_by="cu_q",
    )


def test_another_number_of_sequences_of_values_that_cannot_be_read():
    assert_refused(
        lambda: attention(Q.to("meta"), K, cu(0, 4, 8).to("meta"), cu(0, 9)),
        """
        attention: cu_k has 2 boundaries (1 sequence), expected 3 boundaries (2 sequences) as cu_q has
          fix: filter, chunk or pad both sides together: build it and cu_q from one list of lengths
        """,
        argument="cu_k",
        axis=0,
        expected=3,
        actual=2,
        bound_by="cu_q",
    )


def test_another_number_of_sequences_in_a_host_copy():
    @contract
    def copied(cu: Int32[Tensor, "B+1"], host: Annotated[list[int], SameBatch("cu")]): ...

    assert_refused(
        lambda: copied(cu(0, 4, 8), [0, 3, 5, 8]),
        """
        test_another_number_of_sequences_in_a_host_copy.copied: host has 4 boundaries (3 sequences), expected 3 boundaries (2 sequences) as cu has
          cu    [0000000000000000000000000000000|1111111111111111111111111111] 8
          host  [00000000000000000000000|11111111111111|222222222222222222222] 8
                                        ~~~~~~~~       ~~~~~~~~~~~~~~~~~~~~~~  shifted
          fix: filter, chunk or pad both sides together: build it and cu from one list of lengths
        """,
        argument="host",
        axis=0,
        expected=3,
        actual=4,
        bound_by="cu",
    )


def test_empty_on_one_side_only():
    assert_refused(
        lambda: attention(Q, K, cu(0, 4, 8), cu(0, 0, 9)),
        """
        attention: cu_k has 0 rows in sequence 0, but cu_q has 4: expected it empty on both sides or on neither
          fix: drop the sequence from both sides
        """,
        argument="cu_k",
        axis=0,
        expected="some rows for sequence 0",
        actual=0,
        bound_by="cu_q",
    )
    assert_refused(
        lambda: attention(Q, K, cu(0, 8, 8), cu(0, 8, 9)),
        """
        attention: cu_k has 1 row in sequence 1, but cu_q has 0: expected it empty on both sides or on neither
          fix: drop the sequence from both sides
        """,
        argument="cu_k",
        axis=0,
        expected="no rows for sequence 1",
        actual=1,
        bound_by="cu_q",
    )


def test_too_few_boundaries():
    assert_refused(
        lambda: attention(Q, K, cu(0), cu(0)),
        """
        attention: cu_q has 1 entry, expected at least 2: the boundaries of one segment
          fix: boundaries are [0, end of segment 1, ...]: one entry more than there are segments
        """,
        argument="cu_q",
        axis=0,
        expected="at least 2 entries",
        actual=1,
    )


def test_too_few_boundaries_in_a_list():
    @contract
    def listed(host: Annotated[list[int], PrefixSum()]): ...

    assert_refused(
        lambda: listed([]),
        """
        test_too_few_boundaries_in_a_list.listed: host has 0 entries, expected at least 2: the boundaries of one segment
          fix: boundaries are [0, end of segment 1, ...]: one entry more than there are segments
        """,
        argument="host",
        axis=0,
        expected="at least 2 entries",
        actual=0,
    )


def test_boundaries_of_two_axes():
    @contract
    def grid(cu: Annotated[Int[Tensor, "A B"], PrefixSum()]): ...

    assert_refused(
        lambda: grid(torch.zeros(2, 2, dtype=torch.int32)),
        """
        test_boundaries_of_two_axes.grid: cu has 2 axes, expected 1: boundaries are one row of numbers
        """,
        argument="cu",
        expected=1,
        actual=2,
    )


def test_a_missing_leading_zero():
    assert_refused(
        lambda: attention(Q, K, cu(4, 8), cu(0, 9)),
        """
        attention: cu_q[0] is 4, expected 0
          fix: prepend the leading zero: these look like the ends, or the lengths, of segments
        """,
        argument="cu_q",
        axis=0,
        expected=0,
        actual=4,
    )


def test_another_start():
    @contract
    def shifted(cu: Annotated[Int[Tensor, "B"], PrefixSum(start=2)]): ...

    assert_refused(
        lambda: shifted(cu(0, 4)),
        """
        test_another_start.shifted: cu[0] is 0, expected 2
        """,
        argument="cu",
        axis=0,
        expected=2,
        actual=0,
    )


def test_boundaries_that_decrease():
    assert_refused(
        lambda: attention(Q, K, cu(0, 1, 2, 3, 4, 5, 3, 6, 8), cu(*range(9))),
        """
        attention: cu_q[6] is 3, expected at least 5: boundaries must not decrease
          around it: [3, 4, 5, 3, 6, 8]
          fix: pass the running sum of the lengths, not the lengths
        """,
        argument="cu_q",
        axis=0,
        expected="at least 5",
        actual=3,
    )


def test_boundaries_that_end_early():
    assert_refused(
        lambda: attention(Q, K, cu(0, 4, 6), cu(0, 4, 9)),
        """
        attention: cu_q[-1] is 6, expected 8 (S)
          S = 8 was bound by q axis 0
          the last 2 rows belong to no segment
          q     [============================================================] 8
          cu_q  [000000000000000000000000000000|11111111111111               ] 6
                                                              ^^^^^^^^^^^^^^^  missing
          fix: build the boundaries from the lengths of what was packed, after padding or trimming it
        """,
        argument="cu_q",
        axis=0,
        expected=8,
        actual=6,
        bound_by="q",
    )


def test_boundaries_that_end_late():
    assert_refused(
        lambda: attention(Q, K, cu(0, 4, 10), cu(0, 4, 9)),
        """
        attention: cu_q[-1] is 10, expected 8 (S)
          S = 8 was bound by q axis 0
          the boundaries claim 2 rows more than there are
          q     [================================================            ] 8
          cu_q  [000000000000000000000000|11111111111111111111111111111111111] 10
                                                                 ++++++++++++  extra
          fix: build the boundaries from the lengths of what was packed, after padding or trimming it
        """,
        argument="cu_q",
        axis=0,
        expected=8,
        actual=10,
        bound_by="q",
    )


def test_boundaries_that_end_behind_the_rows_where_a_tail_is_allowed():
    assert_refused(
        lambda: attention(Q, K, cu(0, 4, 8), cu(0, 4, 10)),
        """
        attention: cu_k[-1] is 10, expected at most 9 (T)
          T = 9 was bound by k axis 0
          the boundaries claim 1 row more than there are
          k     [======================================================      ] 9
          cu_k  [000000000000000000000000|11111111111111111111111111111111111] 10
                                                                       ++++++  extra
          fix: build the boundaries from the lengths of what was packed, after padding or trimming it
        """,
        argument="cu_k",
        axis=0,
        expected=9,
        actual=10,
        bound_by="k",
    )


def test_boundaries_that_end_behind_the_rows_of_a_single_argument_where_a_tail_is_allowed():
    @contract
    def allowed(x: Float[Tensor, "S"], cu: Annotated[Int[Tensor, "B"], PrefixSum(end="S", tail="allow")]): ...

    assert_refused(
        lambda: allowed(torch.zeros(9), cu(0, 4, 10)),
        """
        test_boundaries_that_end_behind_the_rows_of_a_single_argument_where_a_tail_is_allowed.allowed: cu[-1] is 10, expected at most 9 (S)
          S = 9 was bound by x axis 0
          the boundaries claim 1 row more than there are
          x   [======================================================      ] 9
          cu  [000000000000000000000000|11111111111111111111111111111111111] 10
                                                                     ++++++  extra
          fix: build the boundaries from the lengths of what was packed, after padding or trimming it
        """,
        argument="cu",
        axis=0,
        expected=9,
        actual=10,
        bound_by="x",
    )


def test_boundaries_that_end_one_row_early():
    @contract
    def fixed(host: Annotated[list[int], PrefixSum(end=8)]): ...

    assert_refused(
        lambda: fixed([0, 7]),
        """
        test_boundaries_that_end_one_row_early.fixed: host[-1] is 7, expected 8
          the last row belongs to no segment
          fix: build the boundaries from the lengths of what was packed, after padding or trimming it
        """,
        argument="host",
        axis=0,
        expected=8,
        actual=7,
    )


def test_boundaries_that_end_elsewhere_than_at_an_expression():
    @contract
    def padded(x: Float[Tensor, "S"], p: Float[Tensor, "P"], cu: Annotated[Int[Tensor, "B"], PrefixSum(end="S+P")]): ...

    error = refusal(lambda: padded(torch.zeros(6), torch.zeros(2), cu(0, 6)))
    assert str(error).split("\n")[:4] == [
        f"{test_boundaries_that_end_elsewhere_than_at_an_expression.__name__}.padded: cu[-1] is 6, expected 8 (S+P)",
        "  S = 6 was bound by x axis 0",
        "  P = 2 was bound by p axis 0",
        "  the last 2 rows belong to no segment",
    ]
    assert "  x   [" not in str(error)


def test_an_expression_beside_a_layout_of_its_size():
    @contract
    def doubled(x: Float[Tensor, "S"], y: Float[Tensor, "2*S"], layout: PackedLayout): ...

    layout = PackedLayout.pack({"cond": 4, "uncond": 4})
    assert "  x  [" not in str(refusal(lambda: doubled(torch.zeros(4), torch.zeros(7), layout)))


def test_boundaries_that_end_elsewhere_than_at_a_number():
    @contract
    def fixed(host: Annotated[list[int], PrefixSum(end=8)]): ...

    assert_refused(
        lambda: fixed([0, 6]),
        """
        test_boundaries_that_end_elsewhere_than_at_a_number.fixed: host[-1] is 6, expected 8
          the last 2 rows belong to no segment
          fix: build the boundaries from the lengths of what was packed, after padding or trimming it
        """,
        argument="host",
        axis=0,
        expected=8,
        actual=6,
    )


def test_boundaries_beyond_int32():
    @contract
    def free(cu: Annotated[Int[Tensor, "B"], PrefixSum()]): ...

    assert_refused(
        lambda: free(cu(0, 2**31, dtype=torch.int64)),
        """
        test_boundaries_beyond_int32.free: cu[-1] is 2147483648, expected at most 2147483647: varlen kernels index rows with int32
        """,
        argument="cu",
        axis=0,
        expected="at most 2147483647",
        actual=2147483648,
    )


def test_another_host_copy():
    assert_refused(
        lambda: attention(Q, K, cu(0, 4, 8), cu(0, 2, 9), [0, 5, 8]),
        """
        attention: cu_q[1] is 4, expected 5 as in its host copy host
          host  [00000000000000000000000000000000000000|111111111111111111111] 8
          cu_q  [000000000000000000000000000000|11111111111111111111111111111] 8
                                               ~~~~~~~~                        shifted
          fix: make host from this array, after its last change: .tolist()
        """,
        argument="cu_q",
        axis=0,
        expected=5,
        actual=4,
        bound_by="host",
    )


def test_another_host_copy_of_a_tensor():
    @contract
    def bounded(lengths: Annotated[Int32[Tensor, "B"], SameAsHost("host", "upper_bound")], host: list[int]): ...

    assert_refused(
        lambda: bounded(cu(4, 5), [4, 4]),
        """
        test_another_host_copy_of_a_tensor.bounded: lengths[1] is 5, expected at most 4 as in its host copy host
          fix: make host from this array, after its last change: .tolist()
        """,
        argument="lengths",
        axis=0,
        expected=4,
        actual=5,
        bound_by="host",
    )
    assert_refused(
        lambda: bounded(cu(4, 5), [4, 4, 4]),
        """
        test_another_host_copy_of_a_tensor.bounded: lengths has 2 entries, expected 3 as its host copy host has
          fix: make host from this array, after its last change: .tolist()
        """,
        argument="lengths",
        axis=0,
        expected=3,
        actual=2,
        bound_by="host",
    )


@contract
def row(
    x: Float[Tensor, "1 S C"],
    index: Annotated[Int[Tensor, "I"], InRange(0, "S"), MultipleOf(2)],
    grid: Annotated[Int[Tensor, "A A"] | None, OneOf(0, 1)] = None,
    n: Annotated[int, InRange(0, "S")] = 0,
    mode: Annotated[str, OneOf("q", "k")] = "q",
):
    return x


def test_an_index_behind_its_rows():
    assert_refused(
        lambda: row(X, torch.tensor([0, 6, 8])),
        """
        row: index[1] is 6, expected 0 <= value < 6 (S)
          S = 6 was bound by x axis 1
          2 values are wrong; this is the first
          fix: an index that was made for other rows must be rebuilt, not clamped
        """,
        argument="index",
        axis=0,
        expected="0 <= value < 6 (S)",
        actual=6,
        bound_by="x",
    )


def test_a_value_that_is_not_aligned():
    assert_refused(
        lambda: row(X, torch.tensor([2, 3])),
        """
        row: index[1] is 3, expected a multiple of 2
        """,
        argument="index",
        axis=0,
        expected="a multiple of 2",
        actual=3,
    )


def test_a_value_that_is_not_allowed():
    assert_refused(
        lambda: row(X, torch.tensor([2]), torch.tensor([[0, 1], [7, 1]])),
        """
        row: grid[1, 0] is 7, expected one of [0, 1]
          fix: take the values from the layout that packed the rows, e.g. layout.token_tags
        """,
        argument="grid",
        expected="one of [0, 1]",
        actual=7,
    )


def test_a_number():
    assert_refused(
        lambda: row(X, torch.tensor([2]), n=6),
        """
        row: n is 6, expected 0 <= value < 6 (S)
          S = 6 was bound by x axis 1
        """,
        argument="n",
        expected="0 <= value < 6 (S)",
        actual=6,
        bound_by="x",
    )


def test_a_number_of_another_type():
    assert_refused(
        lambda: row(X, torch.tensor([2]), n="6"),
        """
        row: n is '6' (str), expected int
        """,
        argument="n",
        expected="int",
        actual="str",
    )


def test_a_word():
    assert_refused(
        lambda: row(X, torch.tensor([2]), mode="v"),
        """
        row: mode is 'v', expected one of ['q', 'k']
        """,
        argument="mode",
        expected="one of ['q', 'k']",
        actual="v",
    )


def test_an_axis_that_is_not_aligned():
    @contract
    def aligned(x: Annotated[Float[Tensor, "1 S C"], MultipleOf(64, of="S")]): ...

    assert_refused(
        lambda: aligned(torch.zeros(1, 715, 4)),
        """
        test_an_axis_that_is_not_aligned.aligned: x: S is 715, expected a multiple of 64
          S = 715 was bound by x axis 1
          fix: pad the row to 768 and every array beside it: PackedLayout.pack(..., align=64)
        """,
        argument="x",
        axis=1,
        expected="a multiple of 64",
        actual=715,
        bound_by="x",
    )


def test_an_axis_that_is_not_aligned_stated_elsewhere():
    @contract
    def aligned(x: Float[Tensor, "S"], n: Annotated[int, MultipleOf(4, of="S+2")]): ...

    assert_refused(
        lambda: aligned(torch.zeros(3), 3),
        """
        test_an_axis_that_is_not_aligned_stated_elsewhere.aligned: n: S+2 is 5, expected a multiple of 4
          S = 3 was bound by x axis 0
          fix: pad the row to 8 and every array beside it: PackedLayout.pack(..., align=4)
        """,
        argument="n",
        axis=0,
        expected="a multiple of 4",
        actual=5,
        bound_by="x",
    )


def test_hints():
    @contract
    def hinted(items: list[int] | None, scale: float = 1.0, size: tuple[int, int] = (1, 1)): ...

    assert_refused(
        lambda: hinted(["1"]),
        """
        test_hints.hinted: items is a list[str], expected list[int]
        """,
        argument="items",
        expected="list[int]",
        actual="list",
    )
    assert_refused(
        lambda: hinted(None, "1"),
        """
        test_hints.hinted: scale is '1' (str), expected float
        """,
        argument="scale",
        expected="float",
        actual="str",
    )
    assert_refused(
        lambda: hinted(None, 1, (1, 2, 3)),
        """
        test_hints.hinted: size is a tuple[int], expected tuple[int, int]
        """,
        argument="size",
        expected="tuple[int, int]",
        actual="tuple",
    )


# -- results ------------------------------------------------------------------------------------------------------------


def test_the_rows_of_a_result():
    @contract
    def forward(x: Float[Tensor, "1 S C"]) -> Float[Tensor, "1 S C"]:
        return x[:, :-1]

    assert_refused(
        lambda: forward(X),
        """
        test_the_rows_of_a_result.forward: return axis 1 (S) is 5, expected 6
          S = 6 was bound by x axis 1 (x is float32[1, 6, 4])
        """,
        argument="return",
        axis=1,
        expected=6,
        actual=5,
        bound_by="x",
    )


def test_the_rank_of_a_result():
    @contract
    def forward(x: Float[Tensor, "1 S C"]) -> Float[Tensor, "1 S C"]:
        return x[0]

    assert_refused(
        lambda: forward(X),
        """
        test_the_rank_of_a_result.forward: return has 2 axes, expected 3 axes
          return is float32[6, 4]
          return: Float[Tensor, "1 S C"]
        """,
        argument="return",
        expected=3,
        actual=2,
    )


def test_the_dtype_of_a_result():
    @contract
    def forward(x: Float[Tensor, "1 S C"]) -> Float32[Tensor, "1 S C"]:
        return x.double()

    assert_refused(
        lambda: forward(X),
        """
        test_the_dtype_of_a_result.forward: return is float64, expected float32
          return is float64[1, 6, 4]
          return: Float32[Tensor, "1 S C"]
          fix: cast it where it is made: .to(torch.float32)
        """,
        argument="return",
        expected="float32",
        actual="float64",
    )


def test_no_result():
    @contract
    def forward(x: Float[Tensor, "1 S C"]) -> Float[Tensor, "1 S C"]: ...

    assert_refused(
        lambda: forward(X),
        """
        test_no_result.forward: return is None, expected a torch.Tensor
          return: Float[Tensor, "1 S C"]
          fix: annotate it `Float[Tensor, "1 S C"] | None` if None is fine
        """,
        argument="return",
        expected="torch.Tensor",
        actual="NoneType",
    )


@contract
def pair(x: Float[Tensor, "S"], results: Any) -> tuple[Float[Tensor, "S"], Float[Tensor, "S+1"]]:
    return results


@pytest.mark.parametrize(
    ("results", "what"),
    [((X,), "a tuple of 1"), ((), "a tuple of 0"), (X, "float32[1, 6, 4]"), ([X, X], "a list[Tensor]")],
)
def test_the_number_of_results(results, what):
    assert_refused(
        lambda: pair(X[0, 0], results),
        f"pair: return is {what}, expected a tuple of 2",
        argument="return",
        expected=2,
        actual=what,
    )


def test_one_of_several_results():
    assert_refused(
        lambda: pair(X[0, 0], (torch.zeros(4), torch.zeros(4))),
        """
        pair: return[1] axis 0 (S+1) is 4, expected 5
          S = 4 was bound by x axis 0 (x is float32[4])
        """,
        argument="return[1]",
        axis=0,
        expected=5,
        actual=4,
        bound_by="x",
    )


def test_the_hint_of_a_result():
    @contract
    def count(x: Float[Tensor, "S"]) -> int:
        return "many"

    assert_refused(
        lambda: count(X[0, 0]),
        """
        test_the_hint_of_a_result.count: return is 'many' (str), expected int
        """,
        argument="return",
        expected="int",
        actual="str",
    )


def test_the_generic_hint_of_a_result():
    @contract
    def count(x: Float[Tensor, "S"]) -> list[int]:
        return "many"

    assert_refused(
        lambda: count(X[0, 0]),
        "test_the_generic_hint_of_a_result.count: return is 'many' (str), expected list[int]",
        argument="return",
        expected="list[int]",
        actual="str",
    )


# -- packed rows --------------------------------------------------------------------------------------------------------

TAGS = {"text": 1, "video": 0, "audio": 2}


@contract
def dit(
    x: Float[Tensor, "1 S C"],
    token_tags: Annotated[Int[Tensor, "S"], OneOf(-1, 0, 1, 2)],
    cu_seqlens: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")] | None = None,
    layout: PackedLayout | None = None,
):
    return x


def media(**options: Any) -> PackedLayout:
    return PackedLayout.pack({"text": 77, "video": 512, "audio": 126}, tags=TAGS, **options)


def rows(count: int) -> Tensor:
    return torch.zeros(1, count, 4)


def tags_of(layout: PackedLayout) -> Tensor:
    """The layout's tags as somebody else's tensor."""
    return layout.token_tags.clone()


def test_tags_of_one_modality_only():
    layout = media()
    assert_refused(
        lambda: dit(rows(715), torch.zeros(512, dtype=torch.int64), layout.cu_seqlens),
        """
        dit: token_tags axis 0 (S) is 512, expected 715
          S = 715 was bound by x axis 1 (x is float32[1, 715, 4])
          512 rows are video only; text (77) and audio (126) are missing
          x           [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaaa] 715
          token_tags  [      |vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv           ] 512
                       ^^^^^^                                           ^^^^^^^^^^^  missing
          (t text, v video, a audio)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=715,
        actual=512,
        bound_by="x",
    )


def test_tags_of_one_modality_only_with_the_layout_as_an_argument():
    assert_refused(
        lambda: dit(rows(715), torch.zeros(512, dtype=torch.int64), layout=media()),
        """
        dit: token_tags axis 0 (S) is 512, expected 715
          S = 715 was bound by x axis 1 (x is float32[1, 715, 4])
          512 rows are video only; text (77) and audio (126) are missing
          x           [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaaa] 715
          token_tags  [      |vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv           ] 512
                       ^^^^^^                                           ^^^^^^^^^^^  missing
          (t text, v video, a audio)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=715,
        actual=512,
        bound_by="x",
    )


def test_tags_of_two_modalities():
    assert_refused(
        lambda: dit(rows(715), torch.zeros(589, dtype=torch.int64), layout=media()),
        """
        dit: token_tags axis 0 (S) is 589, expected 715
          S = 715 was bound by x axis 1 (x is float32[1, 715, 4])
          589 rows are text and video only; audio (126) is missing
          x           [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaaa] 715
          token_tags  [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv           ] 589
                                                                        ^^^^^^^^^^^  missing
          (t text, v video, a audio)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=715,
        actual=589,
        bound_by="x",
    )


def test_tags_before_padding():
    assert_refused(
        lambda: dit(rows(768), tags_of(media()), layout=media(align=64)),
        """
        dit: token_tags axis 0 (S) is 715, expected 768
          S = 768 was bound by x axis 1 (x is float32[1, 768, 4])
          715 rows are text, video and audio only; padding (53) is missing
          x           [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaa|...] 768
          token_tags  [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaa    ] 715
                                                                               ^^^^  missing
          (t text, v video, a audio, . padding)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=768,
        actual=715,
        bound_by="x",
    )


def test_tags_of_the_padded_layout_for_rows_without_padding():
    assert_refused(
        lambda: dit(rows(715), media(align=64).token_tags),
        """
        dit: token_tags axis 0 (S) is 768, expected 715
          S = 715 was bound by x axis 1 (x is float32[1, 715, 4])
          715 rows of x are text, video and audio only; padding (53) is missing
          x           [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaa    ] 715
          token_tags  [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaa|...] 768
                                                                               ++++  extra
          (t text, v video, a audio, . padding)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=715,
        actual=768,
        bound_by="x",
    )


def test_rows_of_one_modality_for_all_tags():
    assert_refused(
        lambda: dit(rows(512), media().token_tags),
        """
        dit: token_tags axis 0 (S) is 715, expected 512
          S = 512 was bound by x axis 1 (x is float32[1, 512, 4])
          512 rows of x are video only; text (77) and audio (126) are missing
          x           [      |vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv           ] 512
          token_tags  [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaaa] 715
                       ++++++                                           +++++++++++  extra
          (t text, v video, a audio)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=512,
        actual=715,
        bound_by="x",
    )


def test_more_tags_than_the_layout_has_rows():
    assert_refused(
        lambda: dit(rows(715), torch.zeros(800, dtype=torch.int64), layout=media()),
        """
        dit: token_tags axis 0 (S) is 800, expected 715
          S = 715 was bound by x axis 1 (x is float32[1, 715, 4])
          x           [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaa      ] 715
          token_tags  [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaa|=====] 800
                                                                             ++++++  extra
          (t text, v video, a audio)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=715,
        actual=800,
        bound_by="x",
    )


def test_a_number_of_tags_that_no_parts_make():
    assert_refused(
        lambda: dit(rows(715), torch.zeros(700, dtype=torch.int64), layout=media()),
        """
        dit: token_tags axis 0 (S) is 700, expected 715
          S = 715 was bound by x axis 1 (x is float32[1, 715, 4])
          x           [ttttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaa] 715
          token_tags  [ttttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaa ] 700
                                                                                  ^  missing
          (t text, v video, a audio)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=715,
        actual=700,
        bound_by="x",
    )


def test_no_tags_at_all():
    lines = str(refusal(lambda: dit(rows(715), torch.zeros(0, dtype=torch.int64), layout=media()))).split("\n")
    assert lines[2] == "  there are no rows; text (77), video (512) and audio (126) are missing"


def test_a_single_row():
    layout = PackedLayout.pack({"text": 1, "video": 512}, tags={"text": 1, "video": 0})
    lines = str(refusal(lambda: dit(rows(513), torch.zeros(1, dtype=torch.int64), layout=layout))).split("\n")
    assert lines[2] == "  1 row is text only; video (512) is missing"


def test_parts_of_one_size_are_ambiguous():
    layout = PackedLayout.pack({"left": 100, "right": 100, "video": 512}, tags={"left": 1, "right": 2, "video": 0})
    assert_refused(
        lambda: dit(rows(712), torch.zeros(612, dtype=torch.int64), layout=layout),
        """
        dit: token_tags axis 0 (S) is 612, expected 712
          S = 712 was bound by x axis 1 (x is float32[1, 712, 4])
          x           [lllllllll|rrrrrrr|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv] 712
          token_tags  [lllllllll|rrrrrrr|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv        ] 612
                                                                           ^^^^^^^^  missing
          (l left, r right, v video)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=712,
        actual=612,
        bound_by="x",
    )


def test_several_samples_with_one_missing():
    layout = PackedLayout.pack(
        [{"text": 10, "video": 100}, {"text": 20, "video": 80}, {"text": 5, "video": 60}], tags=TAGS
    )
    assert_refused(
        lambda: dit(rows(275), torch.zeros(175, dtype=torch.int64), layout=layout),
        """
        dit: token_tags axis 0 (S) is 175, expected 275
          S = 275 was bound by x axis 1 (x is float32[1, 275, 4])
          175 rows are sample 0 and sample 2 only; sample 1 (100) is missing
          x           [tt|vvvvvvvvvvvvvvvvvvvvv|ttt|vvvvvvvvvvvvvvvvvt|vvvvvvvvvvvv] 275
          token_tags  [tt|vvvvvvvvvvvvvvvvvvvvv                      t|vvvvvvvvvvvv] 175
                                               ^^^^^^^^^^^^^^^^^^^^^^                missing
          (t text, v video)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=275,
        actual=175,
        bound_by="x",
    )
    assert_refused(
        lambda: dit(rows(275), torch.zeros(240, dtype=torch.int64), layout=layout),
        """
        dit: token_tags axis 0 (S) is 240, expected 275
          S = 275 was bound by x axis 1 (x is float32[1, 275, 4])
          240 rows are video only; text (35) is missing
          x           [tt|vvvvvvvvvvvvvvvvvvvvv|ttt|vvvvvvvvvvvvvvvvvt|vvvvvvvvvvvv] 275
          token_tags  [  |vvvvvvvvvvvvvvvvvvvvv    |vvvvvvvvvvvvvvvvv |vvvvvvvvvvvv] 240
                       ^^                      ^^^^                  ^               missing
          (t text, v video)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=275,
        actual=240,
        bound_by="x",
    )


def test_repeated_parts():
    layout = PackedLayout.pack(
        [Part("text", 20), Part("ref", 30, kind="video"), Part("ref", 30, kind="video"), Part("video", 200)], tags=TAGS
    )
    assert_refused(
        lambda: dit(rows(280), torch.zeros(220, dtype=torch.int64), layout=layout),
        """
        dit: token_tags axis 0 (S) is 220, expected 280
          S = 280 was bound by x axis 1 (x is float32[1, 280, 4])
          220 rows are text and video only; ref (60) is missing
          x           [tttt|rrrrrr|rrrrr|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv] 280
          token_tags  [tttt             |vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv] 220
                           ^^^^^^^^^^^^^                                             missing
          (t text, r ref, v video)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=280,
        actual=220,
        bound_by="x",
    )


def test_boundaries_that_end_before_the_padding():
    layout = media(align=64)
    assert_refused(
        lambda: dit(rows(768), layout.token_tags, cu(0, 715), layout),
        """
        dit: cu_seqlens[-1] is 715, expected 768 (S)
          S = 768 was bound by x axis 1
          the last 53 rows belong to no segment
          x           [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaa|...] 768
          cu_seqlens  [00000000000000000000000000000000000000000000000000000000    ] 715
                                                                               ^^^^  missing
          (t text, v video, a audio, . padding)
          fix: build the boundaries from the lengths of what was packed, after padding or trimming it
        """,
        argument="cu_seqlens",
        axis=0,
        expected=768,
        actual=715,
        bound_by="x",
    )


def test_boundaries_of_the_padded_row_for_rows_without_padding():
    assert_refused(
        lambda: dit(rows(715), tags_of(media()), media(align=64).cu_seqlens),
        """
        dit: cu_seqlens[-1] is 768, expected 715 (S)
          S = 715 was bound by x axis 1
          the boundaries claim 53 rows more than there are
          x           [========================================================    ] 715
          cu_seqlens  [00000000000000000000000000000000000000000000000000000000|111] 768
                                                                               ++++  extra
          fix: build the boundaries from the lengths of what was packed, after padding or trimming it
        """,
        argument="cu_seqlens",
        axis=0,
        expected=715,
        actual=768,
        bound_by="x",
    )


def test_boundaries_that_start_late_beside_a_layout():
    assert_refused(
        lambda: dit(rows(715), media().token_tags, cu(77, 715), media()),
        """
        dit: cu_seqlens[0] is 77, expected 0
          fix: prepend the leading zero: these look like the ends, or the lengths, of segments
        """,
        argument="cu_seqlens",
        axis=0,
        expected=0,
        actual=77,
    )


def test_tags_without_a_layout():
    assert_refused(
        lambda: dit(rows(715), tags_of(media())[77:]),
        """
        dit: token_tags axis 0 (S) is 638, expected 715
          S = 715 was bound by x axis 1 (x is float32[1, 715, 4])
          x           [============================================================] 715
          token_tags  [0000000000000000000000000000000000000000000|2222222222      ] 638
                                                                             ^^^^^^  missing
          (0 tag 0, 2 tag 2)
          fix: build token_tags from the same rows as x
        """,
        argument="token_tags",
        axis=0,
        expected=715,
        actual=638,
        bound_by="x",
    )


def test_tags_without_a_layout_bind_the_rows_of_something_else():
    @contract
    def tagged(token_tags: Annotated[Int[Tensor, "S"], OneOf(-1, 0, 1, 2)], x: Float[Tensor, "1 S C"]): ...

    assert_refused(
        lambda: tagged(tags_of(media()), rows(589)),
        """
        test_tags_without_a_layout_bind_the_rows_of_something_else.tagged: x axis 1 (S) is 589, expected 715
          S = 715 was bound by token_tags axis 0 (token_tags is int64[715])
          token_tags  [111111|000000000000000000000000000000000000000000|2222222222] 715
          x           [=================================================           ] 589
                                                                        ^^^^^^^^^^^  missing
          (1 tag 1, 0 tag 0, 2 tag 2)
          fix: build x and token_tags with the same S
        """,
        argument="x",
        axis=1,
        expected=715,
        actual=589,
        bound_by="token_tags",
    )


def test_boundaries_of_layouts_side_by_side():
    one = PackedLayout.pack([{"video": 100}, {"video": 60}], align=64)
    two = PackedLayout.pack([{"video": 100}, {"video": 40}, {"video": 20}], align=64)
    assert_refused(
        lambda: attention(torch.zeros(192, 4), torch.zeros(192, 4), one.cu_seqlens, two.cu_seqlens),
        """
        attention: cu_k has 5 boundaries (4 sequences), expected 4 boundaries (3 sequences) as cu_q has
          cu_q  [0000000000000000000000000000000|111111111111111111|222222222] 192
          cu_k  [0000000000000000000000000000000|111111111111|22222|333333333] 192
                                                             ~~~~~~~~~~~~~~~~  shifted
          fix: filter, chunk or pad both sides together: build it and cu_q from one list of lengths
        """,
        argument="cu_k",
        axis=0,
        expected=4,
        actual=5,
        bound_by="cu_q",
    )


# -- the errors themselves ----------------------------------------------------------------------------------------------


def bad_tags() -> ContractError:
    return refusal(lambda: dit(rows(715), torch.zeros(512, dtype=torch.int64), layout=media()))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_are_values(again):
    error = bad_tags()
    other = again(error)
    assert isinstance(other, ContractError)
    assert isinstance(other, ValueError)
    assert (str(other), other.args) == (str(error), error.args)
    assert [getattr(other, name) for name in FIELDS] == [getattr(error, name) for name in FIELDS]
    assert (other.argument, other.axis, other.expected, other.actual, other.bound_by) == (
        "token_tags",
        0,
        715,
        512,
        "x",
    )


def test_fields_are_none_unless_given():
    assert {name: getattr(ContractError("bad"), name) for name in FIELDS} == dict.fromkeys(FIELDS)
    with pytest.raises(TypeError):
        ContractError("bad", "x")


def assert_bounded(error: ContractError) -> None:
    lines = str(error).split("\n")
    assert len(lines) < 40
    assert max(map(len, lines)) < 130, max(lines, key=len)


MANY = 100_000


def many(extra: int = 0) -> Tensor:
    return torch.arange(MANY + 1 + extra, dtype=torch.int32)


@pytest.mark.parametrize(
    "call",
    [
        lambda q: attention(q, q, many(), many(1)),
        lambda q: attention(q, q, many(), many() // 2 * 2),
        lambda q: attention(q, q, many() + 1, many()),
        lambda q: attention(q, q, many().flip(0), many()),
        lambda q: attention(q[:-5], q, many(), many()),
        lambda q: attention(q, q[:-5], many(), many()),
        lambda q: attention(q, q, many(), many(), many(1).tolist()),
        lambda q: row(q[None], many(5) * 2),
        lambda q: dit(q[None], many()[:-1]),
        lambda q: dit(q[None], many() % 3),
        lambda q: dit(q[None], many()[:-1] % 3, many()[:-7]),
    ],
    ids=range(11),
)
def test_messages_are_bounded_with_100000_segments(call):
    assert_bounded(refusal(lambda: call(torch.zeros(MANY, 4))))


@pytest.mark.parametrize("count", [0, 1, 12, 499, 1480])
@pytest.mark.parametrize("several", [False, True])
def test_messages_are_bounded_with_500_parts(count, several):
    parts = [Part(f"part_{i}", 1 + i % 5, tag=i % 3) for i in range(500)]
    layout = PackedLayout.pack([[part] for part in parts] if several else parts)
    assert_bounded(refusal(lambda: dit(rows(layout.seq_len), torch.zeros(count, dtype=torch.int64), layout=layout)))
    boundaries = cu(*layout.cu_seqlens_host[:-2], layout.seq_len - 1)
    assert_bounded(refusal(lambda: dit(rows(layout.seq_len), layout.token_tags, boundaries, layout)))


def test_messages_are_bounded_with_many_named_parts():
    layout = PackedLayout.pack({f"reference_video_{i}": 2**i for i in range(12)})
    assert_bounded(refusal(lambda: dit(rows(4095), torch.zeros(1024, dtype=torch.int64), layout=layout)))


def test_no_message_shows_more_than_eight_values():
    secret = 7_000_000
    values = torch.arange(secret, secret + 300)
    calls = [
        lambda: row(X, values),
        lambda: row(X, torch.tensor([2]), values[:256].reshape(16, 16)),
        lambda: dit(rows(300), values),
        lambda: attention(torch.zeros(300, 4), K, values, values),
        lambda: attention(torch.zeros(300, 4), K, values.flip(0) - secret - 299, values),
        lambda: attention(torch.zeros(300, 4), K, torch.cat([cu(0), values.flip(0)]), values),
        lambda: attention(torch.zeros(300, 4), K, torch.cat([cu(0), values]), torch.cat([cu(0), values])),
        lambda: attention(Q, K, cu(0, 8), cu(0, 9), values.tolist()),
    ]
    for call in calls:
        assert str(refusal(call)).count("7000") <= 8
