"""How the arguments of a bad call travel through a traced graph to the operator that reports it."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shapecheck._contract._diagnose import Foreign, Stub
from shapecheck._contract._spec import Spec

_TENSOR, _NUMBER, _NONE, _FOREIGN = "t", "n", "-", "="

_ALONE = -2


def pack(values: Sequence[Any]) -> tuple[list[Tensor], list[int], str]:
    """Tensors, numbers, and a string that says which value is which. Traceable by Dynamo."""
    tensors: list[Tensor] = []
    numbers: list[int] = []
    kinds: list[str] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value.detach())
            kinds.append(_TENSOR)
        elif value is None:
            kinds.append(_NONE)
        elif isinstance(value, int):
            numbers.append(value)
            kinds.append(_NUMBER)
        else:
            kinds.append(_FOREIGN + type(value).__name__)
    return tensors, numbers, ",".join(kinds)


def unpack(spec: Spec, tensors: Sequence[Tensor], numbers: Sequence[int], kinds: str) -> dict[str, Any]:
    """The values by name that `pack` was given: `spec`'s arguments, then its results as far as there are any."""
    tensor, number = iter(tensors), iter(numbers)
    values: dict[str, Any] = {}
    for argument, kind in zip((*spec.arguments, *spec.returns), kinds.split(","), strict=False):
        if kind == _TENSOR:
            values[argument.name] = next(tensor)
        elif kind == _NUMBER:
            values[argument.name] = next(number)
        elif kind == _NONE:
            values[argument.name] = None
        else:
            values[argument.name] = Foreign(kind.removeprefix(_FOREIGN))
    return values


def split_operands(operands: Sequence[Any]) -> tuple[list[Tensor | None], list[int], list[int]]:
    """Operands of a value check: the readable tensors, the numbers of all sequences, and how many each has (-1: none,
    -2: it is a number by itself).

    Traceable by Dynamo. Reading a sequence makes Dynamo guard on its length and its numbers.
    """
    tensors: list[Tensor | None] = []
    numbers: list[int] = []
    counts: list[int] = []
    for operand in operands:
        # Wrapper subclasses (DTensor, nested) cannot be read, and an operator cannot take all of them.
        wrapped = hasattr(type(operand), "__tensor_flatten__")
        tensors.append(operand if isinstance(operand, Tensor) and not wrapped and not operand.is_nested else None)
        count = -1
        if isinstance(operand, (list, tuple)):
            integers = [one for one in operand if isinstance(one, int)]
            if len(integers) == len(operand):
                numbers.extend(integers)
                count = len(integers)
        elif isinstance(operand, int):
            numbers.append(operand)
            count = _ALONE
        counts.append(count)
    return tensors, numbers, counts


def join_operands(tensors: Sequence[Tensor | None], numbers: Sequence[int], counts: Sequence[int]) -> list[Any]:
    """The operands that `split_operands` was given; None for those that could not travel."""
    rest = iter(numbers)
    return [
        next(rest) if count == _ALONE else tensor if count < 0 else [next(rest) for _ in range(count)]
        for tensor, count in zip(tensors, counts, strict=True)
    ]


def describe(values: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
    """The values as constants, for a violation that must be raised while tracing. Traceable by Dynamo.

    `operator.index` makes symbolic sizes constants (`int` does not), which costs nothing: the trace ends here.
    """
    constants: list[tuple[Any, ...]] = []
    for value in values:
        if isinstance(value, Tensor):
            sizes = tuple([operator.index(size) for size in value.shape])
            strided = str(value.layout) == "torch.strided" and not value.is_nested
            strides = tuple([operator.index(stride) for stride in value.stride()]) if strided else None
            constants.append((_TENSOR, sizes, value.dtype, value.device, strides))
        elif value is None:
            constants.append((_NONE,))
        elif isinstance(value, int):
            constants.append((_NUMBER, operator.index(value)))
        else:
            constants.append((_FOREIGN, type(value).__name__))
    return tuple(constants)


def restore(spec: Spec, constants: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """The values by name that `describe` was given, tensors as stubs."""
    values: dict[str, Any] = {}
    for argument, constant in zip((*spec.arguments, *spec.returns), constants, strict=False):
        if constant[0] == _TENSOR:
            dtype: torch.dtype = constant[2]
            values[argument.name] = Stub(constant[1], str(dtype).removeprefix("torch."), str(constant[3]), constant[4])
        elif constant[0] == _NONE:
            values[argument.name] = None
        elif constant[0] == _NUMBER:
            values[argument.name] = constant[1]
        else:
            values[argument.name] = Foreign(constant[1])
    return values
