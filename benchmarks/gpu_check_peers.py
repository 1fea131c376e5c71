"""Ways to compute a program of documents: ours, and what `benchmarks.gpu_check` compares it with.

Each is a function of q, k, v `[1, H, S, D]` and boundaries that compiles at its first calls.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, fx
from torch._dynamo import lookup_backend
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gpu_check_programs import Program, longest_document

Peer = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Lowered:
    """`torch.compile(function, backend="shapecheck")`, which remembers whether an attention was lowered."""

    def __init__(self, function: Callable[..., Tensor], inner: str) -> None:
        self.lowered = False
        compile_rest = lookup_backend(inner)

        def look_and_compile(module: fx.GraphModule, examples: list[Any], **options: Any) -> Any:
            self.lowered |= "shapecheck.varlen_attention" in module.print_readable(print_output=False)
            return compile_rest(module, examples, **options)

        options: dict[str, str | int | bool | Callable[..., Any]] = {"inner": look_and_compile}
        self._compiled = torch.compile(function, backend="shapecheck", dynamic=True, options=options)

    def __call__(self, *arguments: Tensor) -> Tensor:
        result: Tensor = self._compiled(*arguments)
        return result


def peers(program: Program, on_gpu: bool, stock_backend: str) -> dict[str, Peer]:
    """Stock PyTorch's ways, the one with the dense mask first.

    Args:
        program: a timed one.
        on_gpu: elsewhere `varlen_attn` does not run and FlexAttention has no backward: a loop stands for them.
        stock_backend: of torch.compile.
    """
    stock = torch.compile(program.function, backend=stock_backend, dynamic=True)
    if not on_gpu:
        return {"stock": stock, "loop": _loop(program.causal)}
    return {
        "stock": stock,
        "varlen_attn": _by_hand(program.causal),
        "flex": torch.compile(_by_flex(program.causal), dynamic=True),
    }


def _by_hand(causal: bool) -> Peer:
    """As someone calls it who knows the longest document on the host."""

    def attend(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
        q, k, v = (one[0].transpose(0, 1) for one in (q, k, v))
        longest = longest_document(q.shape[0])
        bounds = cu.int()
        window = (-1, 0) if causal else (-1, -1)
        out = varlen_attn(q, k, v, bounds, bounds, longest, longest, window_size=window)
        assert isinstance(out, Tensor)
        return out.transpose(0, 1)[None]

    return attend


def _by_flex(causal: bool) -> Peer:
    """The block mask is made in the same graph, as our boundaries are."""

    def attend(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
        rows = q.shape[2]
        ids = torch.searchsorted(cu, torch.arange(rows, device=q.device), right=True)

        def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            same = ids[query] == ids[key]
            return same & (query >= key) if causal else same

        mask = create_block_mask(sees, None, None, rows, rows, device=q.device)
        out = flex_attention(q, k, v, block_mask=mask)
        assert isinstance(out, Tensor)
        return out

    return attend


def _loop(causal: bool) -> Peer:
    def attend(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
        pieces = [
            scaled_dot_product_attention(q[:, :, at], k[:, :, at], v[:, :, at], is_causal=causal)
            for at in (slice(*ends) for ends in pairwise(cu.tolist()))
        ]
        return torch.cat(pieces, 2)

    return attend
