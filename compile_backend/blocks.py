"""Whether the blocks of a `BlockMask` are those of its `mask_mod`.

FlexAttention sees nothing outside of the blocks that it is given, and asks `mask_mod` only in blocks that are not
listed as full. The two agree where `create_block_mask` made the blocks, in the same graph, and from the same
`mask_mod` (torch 2.11 to 2.13, `torch/nn/attention/flex_attention.py`): which is read off the graph here.
"""

from typing import Any

import torch
from shapecheck.compile_backend.elements import Elements, describe
from shapecheck.compile_backend.expressions import Formula
from shapecheck.compile_backend.flex import Flex
from shapecheck.compile_backend.reading import Memory, opname, shape, tensor, value
from shapecheck.compile_backend.views import Index, aligned
from torch import Tensor, fx

_COUNTS = (torch.int32, torch.int64)
_TRUTHS = (torch.bool, torch.int8, torch.int32, torch.int64)


def disagreement(flex: Flex, allowed: Formula, index: Index, elements: Elements, memory: Memory) -> str:
    """Why the blocks may be others than those of `mask_mod`; `""` if they are known to be those.

    Args:
        flex: the attention.
        allowed: the element of its `mask_mod` at `index`.
        index: sample, head, query and key.
        elements, memory: of the graph.

    Raises:
        Unknown: if the mask that the blocks were made from is not understood.
    """
    found = _origin(flex)
    if found is None:
        counts = flex.blocks[0]
        came = f" ({describe(counts)})" if counts is not None else ""
        return (
            f"its blocks{came} are not made by create_block_mask inside the compiled function, and may hide more than "
            "its mask_mod does: call create_block_mask inside"
        )
    mask, sums = found
    if any(memory.changed(node) for node in _between(flex.blocks, mask)):
        return "its blocks are changed in place"
    if elements.formula(mask, aligned(mask, index), sums) != allowed:
        return "its blocks were made from another mask_mod, or for one sample and head in place of all"
    return ""


def _origin(flex: Flex) -> tuple[fx.Node, fx.Node] | None:
    """The mask that the blocks were made from, and the node that counts its true elements; None if there is none."""
    counts, indices, full_counts, full_indices = flex.blocks
    some, full = _listed(counts, indices), _listed(full_counts, full_indices)
    if some is None:
        return None
    if full_counts is None and full_indices is None:
        sums = _compared(some, "gt", 0)
    elif opname(some) in ("and", "bitwise_and", "logical_and"):
        whole = flex.block_size[0] * flex.block_size[1]
        sums = _compared(full, "eq", whole)
        least, most = some.args[:2]
        if _compared(least, "gt", 0) is not sums or _compared(most, "lt", whole) is not sums:
            return None
    else:
        return None
    mask = _cut(sums, flex.block_size)
    return None if mask is None or sums is None else (mask, sums)


def _between(blocks: tuple[fx.Node | None, ...], mask: fx.Node) -> set[fx.Node]:
    rest = [node for node in blocks if node is not None]
    seen: set[fx.Node] = set()
    while rest:
        node = rest.pop()
        if node is not mask and node not in seen:
            seen.add(node)
            rest += node.all_input_nodes
    return {node for node in seen if isinstance(value(node), Tensor)}


def _listed(counts: fx.Node | None, indices: fx.Node | None) -> fx.Node | None:
    """The truth value of each block that `counts` and `indices` list."""
    if counts is None or indices is None:
        return None
    total, order = _bare(counts, _COUNTS), _bare(indices, _COUNTS)
    if opname(total) != "sum" or opname(order) != "argsort" or not _along(total, [-1]):
        return None
    if _option(order, "descending", 2) is not True or _option(order, "dim", 1, -1) != -1:
        return None
    blocks, same = (_operand(one) for one in (total, order))
    if blocks is None or blocks is not same:
        return None
    return _bare(blocks, _TRUTHS)


def _compared(node: Any, relation: str, number: int) -> fx.Node | None:
    """`x` of a node that is `x` `relation` `number`, or that converted."""
    if not isinstance(node, fx.Node):
        return None
    node = _bare(node, _TRUTHS)
    return _operand(node) if opname(node) == relation and node.args[1] == number else None


def _cut(sums: fx.Node | None, block_size: tuple[int, int]) -> fx.Node | None:
    """The mask whose true elements `sums` counts in each block."""
    if sums is None or opname(sums) != "sum" or not _along(sums, [-2, -1]):
        return None
    axes = _operand(sums)
    if axes is None or opname(axes) != "permute" or axes.args[1] != [0, 1, 2, 4, 3, 5]:
        return None
    blocks = _operand(axes)
    padded = _operand(blocks) if blocks is not None and opname(blocks) in ("view", "reshape") else None
    if blocks is None or padded is None or tensor(padded).dim() != 4:
        return None
    samples, heads, _, rows, across, columns = shape(blocks)
    if (samples, heads, across * columns) != (*shape(padded)[:2], shape(padded)[3]) or (rows, columns) != block_size:
        return None
    if opname(padded) != "pad":
        return padded
    mask, amounts = _operand(padded), padded.args[1]
    if not isinstance(amounts, list) or len(amounts) != 4 or amounts[0] != 0 or amounts[2] != 0:
        return None
    constant = _option(padded, "mode", 2, "constant") == "constant" and not _option(padded, "value", 3)
    return mask if constant else None


def _along(node: fx.Node, axes: list[int]) -> bool:
    return len(node.args) == 2 and node.args[1] == axes


def _option(node: fx.Node, name: str, position: int, default: Any = None) -> Any:
    return node.args[position] if position < len(node.args) else node.kwargs.get(name, default)


def _operand(node: fx.Node) -> fx.Node | None:
    """The tensor that an operator is applied to first."""
    given = node.args[0] if node.args else None
    return given if isinstance(given, fx.Node) and isinstance(value(given), Tensor) else None


def _bare(node: fx.Node, dtypes: tuple[torch.dtype, ...]) -> fx.Node:
    """`node` without conversions to these dtypes and copies, which change no value."""
    while opname(node) in ("to", "to_copy", "contiguous", "clone", "alias") and tensor(node).dtype in dtypes:
        inner = _operand(node)
        if inner is None:
            break
        node = inner
    return node
