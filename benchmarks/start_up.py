"""What `import shapecheck` and the command line cost over bare Python.

    python -m benchmarks.start_up             exit status 1 if a target is missed

Each command runs as a process of its own, in turn, many rounds; the table gives the median of the difference to bare
Python within a round, in CPU time of the process (user + system).
"""

import resource
import statistics
import subprocess
import sys

from rich.console import Console
from rich.table import Table

ROUNDS = 21
TARGET = 0.060  # seconds over bare Python, for the import

# -P: the installed package, not the folder that this runs from.
COMMANDS = {
    "bare Python": [sys.executable, "-P", "-c", "pass"],
    "import shapecheck": [sys.executable, "-P", "-c", "import shapecheck"],
    "shapecheck layout": [sys.executable, "-P", "-m", "shapecheck", "layout", "--part", "text=77", "--align", "64"],
    "import torch": [sys.executable, "-P", "-c", "import torch"],
}


def cpu_seconds(command: list[str]) -> float:
    """CPU time of one run of `command`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> int:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            times[name].append(cpu_seconds(command))
    bare = times["bare Python"]
    over = {name: statistics.median(a - b for a, b in zip(own, bare, strict=True)) for name, own in times.items()}
    table = Table(title=f"Start-up, CPU time over bare Python, median of {ROUNDS} rounds")
    table.add_column("command")
    table.add_column("ms", justify="right")
    for name, seconds in over.items():
        table.add_row(name, f"{seconds * 1e3:.0f}")
    Console(width=100).print(table)
    return 0 if over["import shapecheck"] <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
