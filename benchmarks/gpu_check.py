"""The CUDA kernels on a GPU: right, fast, and without waiting, in one command of less than 4 minutes.

    python -m benchmarks.gpu_check                       exit status 1 if anything is wrong, 2 without CUDA
    python -m benchmarks.gpu_check --json gpu.json       the rows also as JSON, complete after each row
    python -m benchmarks.gpu_check --device cpu --quick  the same code on the CPU, small: a test of this command

Needs torch >= 2.11 and shapecheck (`pip install --no-deps --no-build-isolation .`), and downloads nothing.

1. results: every path of the kernel, forward and backward, against float64, segment by segment.
2. rules: no wait for the device, capture in a CUDA graph, no S x S memory.
3. compiled: programs through `torch.compile(backend="shapecheck")`, against float64 and, paired in one run, against
   stock Inductor, against `torch.nn.attention.varlen.varlen_attn` called by hand, against FlexAttention. Times are of
   single calls between two events, without compilation and with what the host adds.

A failure is a row, and the next row still runs. Rows that do not fit in the time are skipped and say so.
"""

import argparse
import faulthandler
import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

BUDGET = 190.0  # seconds, which leaves the last row some, and the start of Python and CUDA
HARD_LIMIT = 30.0  # seconds more, after which a hanging row ends the process


def import_installed_package() -> None:
    """Let `import shapecheck` find the installed package: the folder of that name here lacks its inner packages."""
    here = Path.cwd().resolve()
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cuda, or cpu to try this command itself"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, and no Inductor")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds after which no further row starts")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 180)
    import_installed_package()
    if importlib.util.find_spec("shapecheck.compile_backend") is None:
        console.print("shapecheck is not installed: pip install --no-deps --no-build-isolation .", highlight=False)
        return 2
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        console.print("No CUDA device here: run this on a machine with one, or try it with --device cpu --quick.")
        return 2
    from benchmarks.gpu_check_compiled import compiled
    from benchmarks.gpu_check_report import Check, Row, table
    from benchmarks.gpu_check_results import results
    from benchmarks.gpu_check_rules import rules

    on_gpu = options.device == "cuda"
    device = torch.cuda.get_device_name() if on_gpu else "CPU: the CUDA kernels are not what ran here"
    console.print(f"torch {torch.__version__}, {device}")
    progress = Console(stderr=True, highlight=False, markup=False)

    def seen(row: Row) -> None:
        progress.print(f"{row.seconds:6.1f} s  {row.section}: {row.name}: {row.status}")
        if options.json is not None:
            written = {"torch": torch.__version__, "device": device, "rows": [asdict(one) for one in check.rows]}
            options.json.write_text(json.dumps(written, indent=1))

    check = Check(torch.device(options.device), options.quick, options.budget, seen)
    faulthandler.dump_traceback_later(options.budget + HARD_LIMIT, exit=True)
    try:
        for section in (results, rules, compiled):
            section(check)
            console.print(table(section.__name__, check.rows))
    finally:
        faulthandler.cancel_dump_traceback_later()
    counts = {one: sum(row.status == one for row in check.rows) for one in ("ok", "wrong", "error", "skipped")}
    console.print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
