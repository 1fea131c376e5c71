"""flash-linear-attention's operators over packed rows.

Source: fla 0.6.0, fla/ops (`q`, `k` [1, T, H, K], `v` [1, T, HV, V], `cu_seqlens` and its CPU copy, one initial state
for each sequence).
"""

from typing import Annotated, Any

from jaxtyping import Float, Int
from torch import Tensor

from shapecheck._contract import preset
from shapecheck._invariants import PrefixSum, SameAsHost, SameDevice


@preset
def packed(
    *,
    q: Float[Tensor, "1 T _ K"],
    k: Annotated[Float[Tensor, "1 T _ K"], SameDevice("q")],
    v: Annotated[Float[Tensor, "1 T _ _"], SameDevice("q")],
    cu_seqlens: Annotated[
        Int[Tensor, "B+1"], PrefixSum(end="T", tail="allow"), SameAsHost("cu_seqlens_cpu"), SameDevice("q")
    ],
    g: Annotated[Float[Tensor, "1 T ..."], SameDevice("q")] | None = None,
    beta: Annotated[Float[Tensor, "1 T ..."], SameDevice("q")] | None = None,
    initial_state: Annotated[Float[Tensor, "B ..."], SameDevice("q")] | None = None,
    cu_seqlens_cpu: Annotated[Int[Tensor, "B+1"], PrefixSum()] | None = None,
) -> Any:
    """`chunk_gla`, `chunk_gated_delta_rule` and their kin, called with `cu_seqlens`."""
    raise NotImplementedError
