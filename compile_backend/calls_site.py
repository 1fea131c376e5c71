"""How a report shows a call that is varlen already."""

from collections.abc import Sequence
from typing import Any

from shapecheck.compile_backend.calls_arguments import Call, Side
from shapecheck.compile_backend.reading import hint, shape_text, tensor
from shapecheck.compile_backend.report import Site, Sizes
from torch import fx


def site_of(call: Call, sides: Sequence[Side], place: str) -> Site:
    """The site of a call at `place`, file and line, without its obligations."""
    operands = [call.argument(letter) for letter in "qkv"]
    texts = ["" if one is None else shape_text(one[1]) for one in operands]
    q = next((one[1] for one in operands if one is not None), None)
    sources = [f"{side.argument} from {side.known.source}" for side in sides]
    if len({side.known.source for side in sides}) == 1:
        sources = [sides[0].known.source]
    held = (
        tensor(q)
        if isinstance(q, fx.Node)
        else next(tensor(side.held) for side in sides if isinstance(side.held, fx.Node))
    )
    causal, window = _visible(call)
    return Site(
        name=call.output.name,
        form=call.operator.name,
        location=place,
        q=texts[0],
        k=texts[1],
        v=texts[2],
        dtype=str(held.dtype).removeprefix("torch."),
        device=held.device.type,
        mask=f"boundaries: {', '.join(sources)}",
        causal=causal,
        window=window,
        sizes=_sizes(operands),
        boundaries=next((side.held.name for side in sides if isinstance(side.held, fx.Node)), ""),
    )


def _visible(call: Call) -> tuple[bool, tuple[int, int]]:
    """Whether a call is causal, and its window; kernels of today say the first by a window, too."""
    given = call.given
    causal = any(given.get(name) is True for name in ("causal", "is_causal"))
    window = given.get("window_size") or (given.get("window_left", -1), given.get("window_right", -1))
    if window is None or not all(isinstance(one, int) for one in window) or len(window) != 2:
        window = (-1, -1)
    left, right = window
    return (True, (left, -1)) if causal or right == 0 else (False, (left, right))


def _sizes(operands: Sequence[tuple[str, Any] | None]) -> Sizes | None:
    shapes = []
    for one in operands:
        if one is None or not isinstance(one[1], fx.Node) or tensor(one[1]).dim() != 3:
            return None
        numbers = [known for axis in tensor(one[1]).shape if (known := hint(axis)) is not None]
        if len(numbers) != 3:
            return None
        shapes.append(numbers)
    (rows_q, heads_q, width), (rows_k, heads_k, _), (_, _, width_v) = shapes
    itemsize = tensor(operands[0][1]).dtype.itemsize if operands[0] is not None else 0
    return Sizes(1, heads_q, heads_k, rows_q, rows_k, width, width_v, itemsize)
