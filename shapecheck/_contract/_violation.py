"""How a violation leaves the function: eager, compiled, exported."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import shapecheck._contract._ops  # noqa: F401  registers the operators
from shapecheck._contract import _fields
from shapecheck._contract._diagnose import diagnose
from shapecheck._contract._message import error
from shapecheck._contract._reaction import contracts, react
from shapecheck._contract._spec import from_payload
from shapecheck._contract._transport import describe, pack, restore, split_operands
from shapecheck._contract._values import values_hold
from shapecheck._errors import ContractError
from shapecheck._invariants import COMPARABLE
from shapecheck._settings import level_in_force, reaction_in_force

if TYPE_CHECKING:
    from shapecheck._contract._decorator import Contract


_COMPARABLE = tuple(getattr(torch, name) for name in sorted(COMPARABLE))


fetch = _fields.fetch
# A compiled region keeps the level and the reaction that it was captured with: constants in the trace, without a guard.
torch.compiler.assume_constant_result(level_in_force)  # type: ignore[no-untyped-call]


class WentOn:
    """Returned by `violated` where the reaction did not raise. Never instantiated."""


class TracedContractError(ContractError, AssertionError):
    """A `ContractError` raised while a graph is traced.

    Dynamo lets an AssertionError through unchanged and wraps every other exception. Always caught as `ContractError`.
    """


def violated(contract: "Contract", values: Sequence[Any], shapes: Any) -> Any:
    """Report a call that the generated checks refused. Called from them, in eager mode or traced by Dynamo.

    Args:
        values: the annotated arguments in order, then the result where it is at fault.
        shapes: shape of the result by its annotation (for several results, a list of shapes), so that a trace can go
            on to the operator that raises at run time; None where it is not known.

    Returns `WentOn` where the reaction did not raise; while a graph is traced, what stands for the result until then.
    """
    if not torch.compiler.is_compiling() or torch.compiler.is_exporting():
        # An operator would be baked into the exported program: the bad call would export without an error.
        react(reaction_in_force(contract.reaction), contract.error(values))
        return WentOn
    if not raises(contract.number):
        report_while_tracing(contract.number, describe(values))
        return WentOn
    tensors, numbers, kinds = pack(values)
    if shapes is None or len(tensors) == 0:
        return refuse_while_tracing(contract.payload, describe(values))
    results = []
    for shape, dtypes in zip(shapes, contract.result_dtypes, strict=True):
        dtype = tensors[0].dtype
        for tensor in tensors:
            if tensor.dtype in dtypes:
                dtype = tensor.dtype
                break
        else:
            if len(dtypes) > 0:
                dtype = dtypes[0]
        results.append(torch.ops.shapecheck.violation(tensors, numbers, kinds, contract.payload, shape, dtype))
    return tuple(results) if contract.returns_tuple else results[0]


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def refuse_while_tracing(payload: str, constants: tuple[tuple[Any, ...], ...]) -> Any:
    """Raise at once, from within Dynamo's trace."""
    spec = from_payload(payload)
    values = restore(spec, constants)
    raise error(spec, diagnose(spec, values), values, TracedContractError)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def raises(number: int) -> bool:
    """Whether the contract of that number raises on a violation."""
    return reaction_in_force(contracts[number].reaction) == "raise"


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def report_while_tracing(number: int, constants: tuple[tuple[Any, ...], ...]) -> None:
    """React to a violation of shapes once, while the graph is traced that has it."""
    contract = contracts[number]
    values = restore(contract.spec, constants)
    violation = diagnose(contract.spec, values)
    react(reaction_in_force(contract.reaction), error(contract.spec, violation, values))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def reaction_code(number: int) -> str:
    """The reaction as an operator in a graph carries it."""
    reaction = reaction_in_force(contracts[number].reaction)
    return str(number) if callable(reaction) else reaction


def check_values(contract: "Contract", operands: Sequence[Any], symbols: Sequence[Any], sync: bool) -> bool:
    """Whether the values hold. In a compiled region the operator that checks them raises by itself."""
    if torch.compiler.is_compiling():
        tensors, numbers, counts = split_operands(operands)
        sizes = [-1 if size is None else size for size in symbols]
        torch.ops.shapecheck.check_values(
            tensors, numbers, counts, sizes, contract.payload, sync, reaction_code(contract.number)
        )
        return True
    if contract.verified.knows(operands, symbols):
        return True
    good = values_hold(contract.spec, operands, symbols, sync)
    if good:
        contract.verified.remember(operands, symbols, sync)
    return good


def assert_on_device(conditions: Sequence[Tensor], message: str) -> None:
    """One asynchronous assertion for each device. Without its message inductor would delete the assertion."""
    merged: dict[torch.device, Tensor] = {}
    for condition in conditions:
        before = merged.get(condition.device)
        merged[condition.device] = condition if before is None else before & condition
    for condition in merged.values():
        torch._assert_async(condition, message)


def accelerated(value: Any) -> bool:
    """Whether `value` is a tensor whose values live on an accelerator, of a dtype that can be compared there."""
    return isinstance(value, Tensor) and not value.is_cpu and not value.is_meta and value.dtype in _COMPARABLE
