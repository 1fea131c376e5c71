"""`vmap` in the normalized copy: the mapped function once, for one element, between markers.

`vmap` is defined by what its function does to one element, and so the copy holds just that: where the function's
arguments lose the mapped axis stands an `ELEMENT`, where its results get it back a `SPREAD`. Both name the map, so that
the index at which a result is read can be handed to the arguments.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import SymInt, Tensor, fx

_library = torch.library.Library("shapecheck_analysis", "DEF")  # type: ignore[no-untyped-call]
_library.define("element(Tensor(a) x, int axis, int region) -> Tensor(a)")  # type: ignore[no-untyped-call]
_library.define("spread(Tensor x, int axis, SymInt size, int region) -> Tensor")  # type: ignore[no-untyped-call]


@torch.library.register_fake("shapecheck_analysis::element", lib=_library)  # type: ignore[untyped-decorator]
def _element(x: Tensor, axis: int, region: int) -> Tensor:
    try:
        return x.select(axis, 0)  # shares memory: what is written to it is written to `x`
    except IndexError:  # mapped over nothing, as `associative_scan` does at its ends
        return x.new_empty([*x.shape[:axis], *x.shape[axis + 1 :]])


@torch.library.register_fake("shapecheck_analysis::spread", lib=_library)  # type: ignore[untyped-decorator]
def _spread(x: Tensor, axis: int, size: int | SymInt, region: int) -> Tensor:
    return x.new_empty([*x.shape[:axis], size, *x.shape[axis:]])


ELEMENT = torch.ops.shapecheck_analysis.element.default
"""`ELEMENT(x, axis, region)`: the element along `axis` for which the function of the map `region` runs."""

SPREAD = torch.ops.shapecheck_analysis.spread.default
"""`SPREAD(x, axis, size, region)`: the results `x` for all elements of the map `region`, stacked along `axis`."""


class Maps:
    """The maps that are open while a graph is traced."""

    def __init__(self) -> None:
        self._regions = count()
        self._open: list[int] = []
        self._levels: dict[int, int] = {}

    @property
    def inside(self) -> bool:
        """Whether some map is open."""
        return bool(self._open)

    def step(self, target: object) -> Callable[..., Any] | None:
        """What to run instead of a call with which Dynamo's graph opens or closes a map; None for other calls."""
        steps: dict[str, Callable[..., Any]] = {
            "_vmap_increment_nesting": self._enter,
            "_vmap_decrement_nesting": self._leave,
            "_add_batch_dim": self._split,
            "_remove_batch_dim": self._join,
        }
        return steps.get(getattr(target, "__name__", ""))

    def all_pairs(self, function: Callable[..., Tensor], sizes: tuple[Any, ...], device: torch.device) -> Tensor:
        """`function` of one index for each size, for all indices: a tensor with these sizes."""
        regions = [next(self._regions) for _ in sizes]
        self._open += regions
        try:
            rows = [torch.arange(size, device=device) for size in sizes]
            result = function(*(ELEMENT(row, 0, region) for row, region in zip(rows, regions, strict=True)))
            for size, region in reversed(list(zip(sizes, regions, strict=True))):
                result = SPREAD(result, 0, size, region)
        finally:
            del self._open[-len(regions) :]
        return result

    def _enter(self, batch_size: Any, randomness: str) -> None:
        self._open.append(next(self._regions))

    def _leave(self) -> None:
        region = self._open.pop()
        self._levels = {level: held for level, held in self._levels.items() if held != region}

    def _split(self, batched: Tensor, axis: int, level: int) -> Tensor:
        # Other transforms count levels too: the map opened last is that of the first level not met before.
        region = self._levels.setdefault(level, self._open[-1])
        element: Tensor = ELEMENT(batched, axis % batched.dim(), region)
        return element

    def _join(self, result: Tensor, level: int, size: Any, axis: int) -> Tensor:
        joined: Tensor = SPREAD(result, axis % (result.dim() + 1), size, self._levels[level])
        return joined


def varying(graph: fx.Graph) -> dict[fx.Node, frozenset[int]]:
    """The nodes that hold something else for each element of a map, with these maps."""
    found: dict[fx.Node, frozenset[int]] = {}
    for node in graph.nodes:
        regions = frozenset[int]().union(*(found.get(one, frozenset()) for one in node.all_input_nodes))
        if node.target is ELEMENT:
            regions |= {node.args[2]}
        elif node.target is SPREAD:
            regions -= {node.args[3]}
        if regions:
            found[node] = regions
    return found
