"""What a contract costs per call, beside hand-written checks and beside jaxtyping + beartype.

    python -m benchmarks.contracts            all tables; exit status 1 if a target is missed
    python -m benchmarks.contracts --quick    the eager table only

Six tensor arguments share S, C and B+1. CPU time (`time.process_time`), every variant in turn within one process, many
rounds; the table gives the median per call and the median of the ratios taken within a round. Absolute times differ
from machine to machine, ratios much less.
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from beartype import beartype
from jaxtyping import Bool, Float, Int, Int32, jaxtyped
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import shapecheck
from shapecheck import OneOf, PrefixSum

SEQ_LEN, SEGMENTS, WIDTH = 128, 4, 16
TARGET_IFS, TARGET_JAXTYPING = 1.5, 12.0


def plain(x: Any, token_tags: Any, inverse_indices: Any, positions: Any, cu_seqlens: Any, mask: Any) -> Any:
    return x


def annotated(
    x: Float[Tensor, "1 S C"],
    token_tags: Int[Tensor, "S"],
    inverse_indices: Int[Tensor, "S"],
    positions: Float[Tensor, "1 S 3"],
    cu_seqlens: Int32[Tensor, "B+1"],
    mask: Bool[Tensor, "S"],
) -> Any:
    return x


# jaxtyping refuses `B+1` where no earlier argument binds B, on correct calls too; it gets a name of its own.
def annotated_for_jaxtyping(
    x: Float[Tensor, "1 S C"],
    token_tags: Int[Tensor, "S"],
    inverse_indices: Int[Tensor, "S"],
    positions: Float[Tensor, "1 S 3"],
    cu_seqlens: Int32[Tensor, "B1"],
    mask: Bool[Tensor, "S"],
) -> Any:
    return x


FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)


def hand_written(x: Any, token_tags: Any, inverse_indices: Any, positions: Any, cu_seqlens: Any, mask: Any) -> Any:
    """The same statements as a careful author writes them."""
    if not isinstance(x, Tensor) or x.dim() != 3 or x.shape[0] != 1 or x.dtype not in FLOATS:
        raise ValueError(f"x must be a float [1, S, C], got {x.dtype} {tuple(x.shape)}")
    rows = x.shape[1]
    if not isinstance(token_tags, Tensor) or token_tags.dim() != 1 or token_tags.dtype not in INTEGERS:
        raise ValueError("token_tags must be an integer [S]")
    if token_tags.shape[0] != rows:
        raise ValueError(f"token_tags must have {rows} entries, got {token_tags.shape[0]}")
    if not isinstance(inverse_indices, Tensor) or inverse_indices.dim() != 1 or inverse_indices.dtype not in INTEGERS:
        raise ValueError("inverse_indices must be an integer [S]")
    if inverse_indices.shape[0] != rows:
        raise ValueError(f"inverse_indices must have {rows} entries, got {inverse_indices.shape[0]}")
    if not isinstance(positions, Tensor) or positions.dim() != 3 or positions.dtype not in FLOATS:
        raise ValueError("positions must be a float [1, S, 3]")
    if positions.shape[0] != 1 or positions.shape[1] != rows or positions.shape[2] != 3:
        raise ValueError(f"positions must be [1, {rows}, 3], got {tuple(positions.shape)}")
    if not isinstance(cu_seqlens, Tensor) or cu_seqlens.dim() != 1 or cu_seqlens.dtype is not torch.int32:
        raise ValueError("cu_seqlens must be an int32 [B+1]")
    if cu_seqlens.shape[0] < 1:
        raise ValueError("cu_seqlens must have at least one entry")
    if not isinstance(mask, Tensor) or mask.dim() != 1 or mask.dtype is not torch.bool:
        raise ValueError("mask must be a bool [S]")
    if mask.shape[0] != rows:
        raise ValueError(f"mask must have {rows} entries, got {mask.shape[0]}")
    return plain(x, token_tags, inverse_indices, positions, cu_seqlens, mask)


def hand_written_values(
    x: Any, token_tags: Any, inverse_indices: Any, positions: Any, cu_seqlens: Any, mask: Any
) -> Any:
    """Values too: boundaries start at 0, do not decrease, end at S; tags are known ones."""
    boundaries = cu_seqlens.tolist()
    if boundaries[0] != 0 or boundaries[-1] != x.shape[1]:
        raise ValueError(f"cu_seqlens must start at 0 and end at {x.shape[1]}")
    if any(after < before for before, after in itertools.pairwise(boundaries)):
        raise ValueError("cu_seqlens must not decrease")
    low, high = token_tags.aminmax()
    if low.item() < -1 or high.item() > 2:
        raise ValueError("token_tags must be one of -1, 0, 1, 2")
    return hand_written(x, token_tags, inverse_indices, positions, cu_seqlens, mask)


def with_values(
    x: Float[Tensor, "1 S C"],
    token_tags: Annotated[Int[Tensor, "S"], OneOf(-1, 0, 1, 2)],
    inverse_indices: Int[Tensor, "S"],
    positions: Float[Tensor, "1 S 3"],
    cu_seqlens: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")],
    mask: Bool[Tensor, "S"],
) -> Any:
    return x


def arguments(rows: int = SEQ_LEN) -> tuple[Tensor, ...]:
    return (
        torch.randn(1, rows, WIDTH),
        torch.ones(rows, dtype=torch.long),
        torch.zeros(rows, dtype=torch.long),
        torch.randn(1, rows, 3),
        torch.linspace(0, rows, SEGMENTS + 1).int(),
        torch.ones(rows, dtype=torch.bool),
    )


def block_forward(
    self: Any,
    x: Float[Tensor, "1 S C"],
    token_tags: Annotated[Int[Tensor, "S"], OneOf(-1, 0, 1, 2)],
    inverse_indices: Int[Tensor, "S"],
    positions: Float[Tensor, "1 S 3"],
    cu_seqlens: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")],
    mask: Bool[Tensor, "S"],
) -> Float[Tensor, "1 S C"]:
    """A block small enough that a check would show. It uses all of its arguments."""
    y = self.linear(x) * token_tags.view(1, -1, 1) + positions.sum(-1, keepdim=True) + inverse_indices.view(1, -1, 1)
    result: Tensor = y * mask.view(1, -1, 1) + cu_seqlens[-1]
    return result


def block(level: Literal["off", "shape", "host"]) -> nn.Module:
    class Block(nn.Module):
        forward = shapecheck.contract(level=level)(block_forward)  # at level off the function itself

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

    return Block()


def measure(variants: dict[str, Callable[[], Any]], *, calls: int, rounds: int) -> dict[str, list[float]]:
    """CPU seconds per call of each variant, in turn, round by round."""
    for call in variants.values():
        for _ in range(calls // 10 + 3):
            call()
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, call in variants.items():
            start = time.process_time()
            for _ in range(calls):
                call()
            times[name].append((time.process_time() - start) / calls)
    return times


def median_ratio(times: dict[str, list[float]], name: str, base: str, minus: str | None = None) -> float:
    """Median over rounds of `name / base`, both less `minus` (the empty call) where given."""
    zero = times[minus] if minus else [0.0] * len(times[name])
    return statistics.median((a - z) / (b - z) for a, b, z in zip(times[name], times[base], zero, strict=True))


def eager(*, calls: int = 4000, rounds: int = 15) -> tuple[Table, dict[str, float]]:
    args = arguments()
    contracted = shapecheck.contract(level="shape")(annotated)
    unvalued = shapecheck.contract(level="host")(annotated)
    valued = shapecheck.contract(level="host")(with_values)
    jaxtyping = jaxtyped(typechecker=beartype)(annotated_for_jaxtyping)
    variants: dict[str, Callable[[], Any]] = {
        "no checks": lambda: plain(*args),
        "hand-written ifs": lambda: hand_written(*args),
        "hand-written ifs, values too": lambda: hand_written_values(*args),
        "@contract, level shape": lambda: contracted(*args),
        "@contract, level host (default), no invariants": lambda: unvalued(*args),
        "@contract, level host (default), values too": lambda: valued(*args),
        "jaxtyping + beartype": lambda: jaxtyping(*args),
    }
    times = measure(variants, calls=calls, rounds=rounds)
    table = Table(title=f"Eager call, 6 tensor arguments, CPU time, {rounds} rounds of {calls} calls")
    table.add_column("variant")
    table.add_column("median µs", justify="right")
    table.add_column("x hand-written", justify="right")
    for name in variants:
        ratio = median_ratio(times, name, "hand-written ifs")
        table.add_row(name, f"{statistics.median(times[name]) * 1e6:.2f}", f"{ratio:.2f}")
    return table, {
        "ifs": median_ratio(times, "@contract, level shape", "hand-written ifs"),
        "ifs with values": median_ratio(
            times, "@contract, level host (default), values too", "hand-written ifs, values too"
        ),
        "jaxtyping": median_ratio(times, "jaxtyping + beartype", "@contract, level shape"),
    }


def compiled(*, calls: int = 500, rounds: int = 25) -> Table:
    torch.set_num_threads(1)  # idle OpenMP threads spin, and their CPU time would hide the rest
    args = arguments()
    modules = {
        "no contract": block("off"),
        "no contract, again (the noise)": block("off"),
        "@contract, level shape": block("shape"),
        "@contract, level host, values too": block("host"),
    }
    calls_of: dict[str, Callable[[], Any]] = {}
    for name, module in modules.items():
        compiled_module = torch.compile(module, fullgraph=True)
        calls_of[name] = lambda compiled_module=compiled_module: compiled_module(*args)  # type: ignore[misc]
    with torch.no_grad():
        times = measure(calls_of, calls=calls, rounds=rounds)
    table = Table(title=f"Compiled call (inductor), CPU time, 1 thread, {rounds} rounds of {calls} calls")
    table.add_column("variant")
    table.add_column("median µs", justify="right")
    table.add_column("x no contract", justify="right")
    for name in modules:
        ratio = median_ratio(times, name, "no contract")
        table.add_row(name, f"{statistics.median(times[name]) * 1e6:.1f}", f"{ratio:.3f}")
    return table


def quick_table() -> str:
    """The eager table, as text, in a second or two."""
    table, _ = eager(calls=500, rounds=7)
    console = Console(file=sys.stdout, width=100)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the eager table only")
    options = parser.parse_args()
    console = Console(width=100)
    console.print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, {torch.get_num_threads()} threads")
    table, ratios = eager()
    console.print(table)
    good = ratios["ifs"] <= TARGET_IFS and ratios["jaxtyping"] >= TARGET_JAXTYPING
    console.print(f"@contract / hand-written ifs: {ratios['ifs']:.2f} (target: at most {TARGET_IFS})")
    console.print(f"the same with values on both sides: {ratios['ifs with values']:.2f}")
    console.print(f"jaxtyping + beartype / @contract: {ratios['jaxtyping']:.1f} (target: at least {TARGET_JAXTYPING})")
    if not options.quick:
        console.print(compiled())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
