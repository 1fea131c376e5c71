"""The two operators that carry a contract into compiled graphs.

Both raise `ContractError` themselves, at run time: an exception raised in traced code reaches the user as Dynamo's
`Unsupported`, without its message. They are marked as having side effects, or an operator whose result nobody uses
would be deleted; and were so from the first release, because a graph that inductor cached without the mark goes on
skipping the check. A registered effect (`with_effects`) keeps them alive as well, but bypasses inductor's caches, and
is lost or breaks inside `torch.cond` and its kin (measured on torch 2.13).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shapecheck._contract._diagnose import diagnose
from shapecheck._contract._message import error
from shapecheck._contract._reaction import contracts, react
from shapecheck._contract._spec import from_payload
from shapecheck._contract._transport import join_operands, unpack
from shapecheck._contract._values import values_hold
from shapecheck._settings import Reaction, reaction_in_force

_LIBRARY = torch.library.Library("shapecheck", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "violation(Tensor[] tensors, SymInt[] numbers, str kinds, str contract, SymInt[] shape, ScalarType dtype) -> Tensor"
)
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "check_values(Tensor?[] tensors, SymInt[] numbers, int[] counts, SymInt[] symbols, str contract, bool sync,"
    " str reaction) -> ()"
)


@torch.library.impl(_LIBRARY, "violation", "CompositeExplicitAutograd")
def _violation(
    tensors: Sequence[Tensor],
    numbers: Sequence[int],
    kinds: str,
    contract: str,
    shape: Sequence[int],
    dtype: torch.dtype,
) -> Tensor:
    spec = from_payload(contract)
    values = unpack(spec, tensors, numbers, kinds)
    raise error(spec, diagnose(spec, values), values)


@torch.library.register_fake("shapecheck::violation", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _violation_fake(
    tensors: Sequence[Tensor],
    numbers: Sequence[int],
    kinds: str,
    contract: str,
    shape: Sequence[int],
    dtype: torch.dtype,
) -> Tensor:
    return tensors[0].new_empty(shape, dtype=dtype)


@torch.library.register_vmap("shapecheck::violation", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _violation_vmap(
    info: Any,
    in_dims: tuple[Any, ...],
    tensors: Sequence[Tensor],
    numbers: Sequence[int],
    kinds: str,
    contract: str,
    shape: Sequence[int],
    dtype: torch.dtype,
) -> tuple[Tensor, None]:
    # All samples have the same shapes: the first stands for them.
    first = [tensor if dim is None else tensor.select(dim, 0) for tensor, dim in zip(tensors, in_dims[0], strict=True)]
    return torch.ops.shapecheck.violation(first, numbers, kinds, contract, shape, dtype), None


@torch.library.impl(_LIBRARY, "check_values", "CompositeExplicitAutograd")
def _check_values(
    tensors: Sequence[Tensor | None],
    numbers: Sequence[int],
    counts: Sequence[int],
    symbols: Sequence[int],
    contract: str,
    sync: bool,
    reaction: str,
) -> None:
    spec = from_payload(contract)
    operands = join_operands(tensors, numbers, counts)
    sizes = [None if size < 0 else size for size in symbols]  # -1: not bound by this call
    if not values_hold(spec, operands, sizes, sync):
        values = dict(zip(spec.value_operands, operands, strict=True))
        known = {name: size for name, size in zip(spec.value_symbols, sizes, strict=True) if size is not None}
        found = error(spec, diagnose(spec, values, read_values=True, sync=sync, symbols=known), values)
        react(_reaction(reaction), found)


def _reaction(code: str) -> Reaction:
    """From what `check_values` carries: `raise`, `warn`, or the number of a contract with its own function.

    A graph that inductor cached may run in a process that has no contract of that number: there it raises.
    """
    if code == "warn":
        return "warn"
    own = contracts.get(int(code)) if code.isdecimal() else None
    return reaction_in_force(own.reaction) if own is not None else "raise"


@torch.library.register_fake("shapecheck::check_values", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _check_values_fake(
    tensors: Sequence[Tensor | None],
    numbers: Sequence[int],
    counts: Sequence[int],
    symbols: Sequence[int],
    contract: str,
    sync: bool,
    reaction: str,
) -> None:
    return None


@torch.library.register_vmap("shapecheck::check_values", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _check_values_vmap(
    info: Any,
    in_dims: tuple[Any, ...],
    tensors: Sequence[Tensor | None],
    numbers: Sequence[int],
    counts: Sequence[int],
    symbols: Sequence[int],
    contract: str,
    sync: bool,
    reaction: str,
) -> tuple[None, None]:
    # A sample's own values cannot be read; what all samples share can.
    shared = [None if dim is not None else tensor for tensor, dim in zip(tensors, in_dims[0], strict=True)]
    torch.ops.shapecheck.check_values(shared, numbers, counts, symbols, contract, sync, reaction)
    return None, None


for _name in ("violation", "check_values"):
    torch.fx.node.has_side_effect(getattr(torch.ops.shapecheck, _name).default)
