"""The signature that jaxtyping itself can take.

jaxtyping wants every symbol bound, by a plain axis of an earlier argument, before an expression uses it: `B+1` with `B`
unbound, or bound by a later argument, is an error on a correct call. So symbols are bound first, by arguments of our
own that have nothing but that axis, and an axis of which nothing can be said in this call becomes `_`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from shapecheck._contract._dims import Dim, parse_dims, positions
from shapecheck._contract._spec import identifier


class UnsolvableError(ValueError):
    """No size of a symbol makes an expression equal to the axis that the call brought."""


@dataclass(frozen=True)
class Normalized:
    """Annotations by parameter, in order, the values to call them with, and the sizes of the symbols.

    Equal keys stand for equal annotations.
    """

    annotations: Mapping[str, Any]
    values: Mapping[str, Any]
    sizes: Mapping[str, int]
    key: tuple[tuple[str, str], ...]


def normalize(
    annotations: Mapping[str, Any], values: Mapping[str, Any], constants: Mapping[str, int] = MappingProxyType({})
) -> Normalized:
    """Rewrite jaxtyping `annotations` for one call.

    Args:
        annotations: jaxtyping annotation of each tensor at hand.
        values: its value, by the same names.
        constants: symbols whose sizes are known.

    Raises UnsolvableError.
    """
    sizes = _sizes(annotations, values, constants)
    rewritten: dict[str, Any] = {}
    filled: dict[str, Any] = {}
    key: list[tuple[str, str]] = []
    for symbol, size in sizes.items():
        rewritten[f"binds_{symbol}"] = Shaped[Tensor, symbol]
        key.append((symbol, ""))
        filled[f"binds_{symbol}"] = torch.empty(size, device="meta")
    for name, annotation in annotations.items():
        dims = " ".join(_rewritten(dim, sizes) for dim in parse_dims(annotation.dim_str))
        # "return[0]" and "meta.cu_seqlens" are no parameters' names
        parameter = f"{identifier(name)}_"
        rewritten[parameter] = annotation.dtype[Tensor, dims]
        key.append((name, dims))
        filled[parameter] = values[name]
    return Normalized(rewritten, filled, sizes, tuple(key))


def _rewritten(dim: Dim, sizes: Mapping[str, int]) -> str:
    if dim.kind != "expression":
        return dim.text
    try:
        size = dim.expression.evaluate(sizes)
        return str(size) if size < 0 or dim.attributes else dim.text
    except (KeyError, ZeroDivisionError):
        return "_"


def _sizes(annotations: Mapping[str, Any], values: Mapping[str, Any], constants: Mapping[str, int]) -> dict[str, int]:
    """Sizes of the symbols: from plain axes, then by solving expressions, as long as that finds more."""
    axes = [
        (dim, value.shape[position])
        for name, annotation in annotations.items()
        if isinstance(value := values[name], Tensor)
        for position, dim in _placed(parse_dims(annotation.dim_str), value.dim())
    ]
    sizes: dict[str, int] = dict(constants)
    for dim, size in axes:
        if dim.kind == "name" and not dim.broadcast:
            sizes.setdefault(dim.name, size)
    found = True
    while found:
        found = False
        for dim, size in axes:
            unknown = [name for name in dim.expression.names if name not in sizes] if dim.kind == "expression" else []
            if len(unknown) == 1 and dim.expression.can_solve(unknown[0]):
                solved = dim.expression.solve(size, sizes)
                if solved is None:
                    raise UnsolvableError(f"no {unknown[0]} >= 0 makes {dim.text} equal to {size}")
                sizes[unknown[0]] = solved
                found = True
    return sizes


def _placed(dims: tuple[Dim, ...], rank: int) -> list[tuple[int, Dim]]:
    """Single axes with their position in a tensor of `rank` axes; none where the rank does not fit."""
    single = list(positions(dims))
    return single if rank == len(dims) or (len(single) < len(dims) and rank >= len(single)) else []
