"""What a program of the corpus is, and how its inputs are made."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

Sizes = tuple[int, ...]
"""Lengths of the segments of a packed batch; of the samples, in tokens, of a padded one."""

Inputs = Callable[[Sizes, int, torch.device, torch.dtype, bool], tuple[Any, ...]]
"""(sizes, seed, device, dtype, requires_grad) -> the arguments of the program's function."""

Metadata = Callable[[Sizes, torch.Generator], Any]
"""One argument beside q, k and v: boundaries, ids, positions or a key mask."""

Claim = Callable[[Sizes], Tensor]
"""The bool mask [..., Sq, Sk] (True: attend) that a program is about, made from nothing but the sizes."""

Function = Callable[..., Any]

# No length equals another dimension (2 heads, 8 channels), no two totals are equal, and segments may be empty.
SIZES: tuple[Sizes, ...] = ((3, 5, 4), (4, 0, 6, 3), (7, 3, 2, 0, 5, 1))
HEADS, CHANNELS = 2, 8


@dataclass(frozen=True, kw_only=True)
class Adverse:
    """Arguments under which something that usually holds does not: the same compiled function must equal eager.

    Attributes:
        name: what is unusual.
        inputs: as `Program.inputs`.
        invalid: no contract admits this metadata, a `ContractError` is as good an answer as eager's.
    """

    name: str
    inputs: Inputs
    invalid: bool = False


@dataclass(frozen=True, kw_only=True)
class Program:
    """A plain PyTorch function around attention, and what the backend has to make of it.

    Attributes:
        name: the function's.
        function: q, k, v and metadata -> one tensor, or a tuple.
        inputs: makes its arguments.
        lowered: how many attention sites must be lowered, over all graphs; None: any number, the result must be right.
        claim: the mask that the program is about. Eager of a positive program equals attention under it; eager of a
            negative one differs: lowering to it is the mistake to make. None: the output is more than one attention.
        why: of a negative program: what forbids the tempting lowering.
        runtime: whether a lowering depends on values, so on a decision at run time.
        adverse: see `Adverse`.
        sizes: at least two, for one compiled function.
        tolerance: largest absolute difference to eager that is no error, for values of magnitude 1.
        reference: what to compare with where eager cannot run the function in training; takes the same arguments.
        training: whether gradients exist.
    """

    name: str
    function: Function
    inputs: Inputs
    lowered: int | None
    claim: Claim | None = None
    why: str = ""
    runtime: bool = False
    adverse: tuple[Adverse, ...] = ()
    sizes: tuple[Sizes, ...] = SIZES
    tolerance: float = 2e-5
    reference: Function | None = None
    training: bool = True

    @property
    def expected(self) -> Function:
        """The eager function whose results are right."""
        return self.reference or self.function


class Corpus:
    """Programs in the order in which their functions are defined."""

    def __init__(self) -> None:
        self.programs: list[Program] = []

    def __call__(self, inputs: Inputs, lowered: int | None, **properties: Any) -> Callable[[Function], Program]:
        def add(function: Function) -> Program:
            program = Program(name=function.__name__, function=function, inputs=inputs, lowered=lowered, **properties)
            assert program.name not in {other.name for other in self.programs}
            self.programs.append(program)
            return program

        return add

    def variant(self, program: Program, name: str, **changes: Any) -> Program:
        """The program under another name, with other inputs or expectations."""
        other = replace(program, name=name, **changes)
        self.programs.append(other)
        return other


def _qkv(
    shapes: tuple[tuple[int, ...], ...],
    generator: torch.Generator,
    device: torch.device,
    dtype: torch.dtype,
    requires_grad: bool,
) -> tuple[Tensor, ...]:
    return tuple(
        torch.randn(shape, generator=generator).to(device, dtype).requires_grad_(requires_grad) for shape in shapes
    )


def _extras(
    metadata: tuple[Metadata, ...], sizes: Sizes, generator: torch.Generator, device: torch.device
) -> list[Any]:
    made = [make(sizes, generator) for make in metadata]
    return [value.to(device) if isinstance(value, Tensor) else value for value in made]


def packed(*metadata: Metadata, heads: int = HEADS, kv_heads: int | None = None, channels: int = CHANNELS) -> Inputs:
    """q [1, heads, S, channels], k and v [1, kv_heads, S, channels], S the sum of the lengths, then the metadata."""

    def inputs(
        sizes: Sizes, seed: int, device: torch.device, dtype: torch.dtype, requires_grad: bool
    ) -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(seed)
        q = (1, heads, sum(sizes), channels)
        kv = (1, kv_heads or heads, sum(sizes), channels)
        made = _extras(metadata, sizes, generator, device)
        return (*_qkv((q, kv, kv), generator, device, dtype, requires_grad), *made)

    return inputs


def key_lengths(sizes: Sizes) -> Sizes:
    """Other lengths, for the keys of a cross attention over as many segments; every segment has a key."""
    return tuple(2 * size + 1 for size in sizes[::-1])


def starved(sizes: Sizes) -> Sizes:
    """As `key_lengths`, but the first segment, which has queries, has no key."""
    return (0, *key_lengths(sizes)[1:])


def cross(*metadata: Metadata, keys: Callable[[Sizes], Sizes] = key_lengths) -> Inputs:
    """q [1, 2, Sq, 8], k and v [1, 2, Sk, 8] with the lengths that `keys` makes of the queries', then the metadata."""

    def inputs(
        sizes: Sizes, seed: int, device: torch.device, dtype: torch.dtype, requires_grad: bool
    ) -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(seed)
        q = (1, HEADS, sum(sizes), CHANNELS)
        kv = (1, HEADS, sum(keys(sizes)), CHANNELS)
        made = _extras(metadata, sizes, generator, device)
        return (*_qkv((q, kv, kv), generator, device, dtype, requires_grad), *made)

    return inputs


def padded(*metadata: Metadata, kv_heads: int | None = None, empty: bool = False, square: bool = False) -> Inputs:
    """q [B, 2, L, 8], k and v of a padded batch with one sample per length, then the metadata.

    Empty segments are no samples, unless `empty`: then the last sample has no token. L is the longest length;
    `square`: L equals B.
    """

    def inputs(
        sizes: Sizes, seed: int, device: torch.device, dtype: torch.dtype, requires_grad: bool
    ) -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(seed)
        lengths = samples(sizes)
        if square:
            lengths = (*(min(length, len(lengths)) for length in lengths[:-1]), len(lengths))
        if empty:
            lengths = (*lengths[:-1], 0)
        q = (len(lengths), HEADS, max(lengths), CHANNELS)
        kv = (len(lengths), kv_heads or HEADS, max(lengths), CHANNELS)
        made = _extras(metadata, lengths, generator, device)
        return (*_qkv((q, kv, kv), generator, device, dtype, requires_grad), *made)

    return inputs


def samples(sizes: Sizes) -> Sizes:
    """The lengths of the samples of a padded batch: no empty ones."""
    return tuple(size for size in sizes if size)
