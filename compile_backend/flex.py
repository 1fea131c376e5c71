"""FlexAttention as Dynamo captures it: what is attended to, read off the arguments of its operator.

Its operator gets q, k, v `[B, H, S, D]`, a `score_mod`, the tuple of a `BlockMask` whose last element is the
`mask_mod`, a scale, options of its kernels, and what `score_mod` and `mask_mod` captured (torch 2.11 to 2.13,
`torch/_higher_order_ops/flex_attention.py`). The query sees the key where the blocks list them, and either their block
is listed as full or `mask_mod` holds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shapecheck.compile_backend.vmap import Maps
from torch import Tensor, fx
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

NAME = "flex_attention"
"""Of the operator."""


@dataclass(frozen=True, slots=True)
class Flex:
    """One call of FlexAttention; all nodes are of the normalized graph.

    Attributes:
        q, k, v: `[B, H, S, D]`.
        scale: what the scores are multiplied with.
        mask: `mask_mod` of every sample, head, query and key, `[B, Hq, Sq, Sk]`; None with an `obstacle`.
        blocks: the lists of the `BlockMask`: how many blocks each row of blocks sees and which, then the same of full
            blocks; None where there are none.
        block_size: rows and columns of a block.
        obstacle: why this is not the attention under `mask`; `""` if it is, as far as the blocks are of `mask_mod`.
    """

    q: fx.Node
    k: fx.Node
    v: fx.Node
    scale: float
    mask: fx.Node | None
    blocks: tuple[fx.Node | None, ...]
    block_size: tuple[int, int]
    obstacle: str = ""


Run = Callable[..., Any]
"""Runs the graph module given first on the arguments that follow."""


def read(arguments: Sequence[Any], maps: Maps, run: Run, node_of: Callable[[Any], fx.Node | None]) -> Flex | None:
    """The call with these arguments; None if q, k and v are no tensors of the graph.

    Args:
        arguments: of the operator, with fake tensors.
        maps: of the trace, into which `mask_mod` is traced.
        run: traces the body of `mask_mod`.
        node_of: the node that holds a tensor; None for what is none.
    """
    q, k, v, score_mod, block_mask, scale, _, _, captured = arguments
    q_node, k_node, v_node = (node_of(one) for one in (q, k, v))
    if q_node is None or k_node is None or v_node is None:
        return None
    *_, block_rows, block_columns, mask_mod = block_mask
    obstacle, mask = "", None
    if not _identity(score_mod):
        obstacle = "its score_mod changes the scores"
    elif q.device.type == "cuda":
        obstacle = "FlexAttention skips masked blocks itself on CUDA"
    else:
        sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])

        def allowed(*index: Tensor) -> Tensor:
            with TransformGetItemToIndex():
                result: Tensor = run(mask_mod, *index, *captured)
            return result

        try:
            mask = node_of(maps.all_pairs(allowed, sizes, q.device))
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            obstacle = f"its mask_mod cannot be traced: {type(error).__name__}: {lines[0][:200]}"
    return Flex(
        q=q_node,
        k=k_node,
        v=v_node,
        scale=scale,
        mask=mask,
        blocks=tuple(node_of(one) for one in block_mask[2:6]),
        block_size=(block_rows, block_columns),
        obstacle=obstacle,
    )


def _identity(score_mod: fx.GraphModule) -> bool:
    """Whether the body returns the score that it got."""
    score, *_ = score_mod.graph.find_nodes(op="placeholder")
    returned: Any = score_mod.graph.output_node().args[0]
    return returned is score or (isinstance(returned, tuple | list) and len(returned) == 1 and returned[0] is score)
