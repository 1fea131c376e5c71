"""What `shapecheck lint` costs over transformers 5.24.0, beside ruff and flake8.

    python -m benchmarks.lint             downloads the wheel into build/bench; exit status 1 if a target is missed
    python -m benchmarks.lint PATH        over an unpacked wheel

Needs the `dev` extra: ruff, and flake8 without plugins. Each command runs as a process of its own, all in turn, several
rounds; the table gives medians of CPU time (user + system, from start to exit) and, beside another linter, of the
ratios taken within a round. All run on one thread. Absolute times differ from machine to machine, ratios much less.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

WHEEL = "transformers==5.24.0"
FOLDER = Path("build/bench")
SAMPLE = 20  # flake8 gets every 20th file
VARLEN_ROWS = range(1500, 1900)

# -P: the installed package, not the folder that this runs from.
LINT = (sys.executable, "-P", "-m", "shapecheck", "lint", "--isolated", "--exit-zero", "--quiet", "--jobs", "1")
RUFF = (sys.executable, "-P", "-m", "ruff", "check", "--isolated", "--no-cache", "--exit-zero", "--quiet")
FLAKE8 = (sys.executable, "-P", "-m", "flake8", "--isolated", "--jobs", "1", "--exit-zero")


@dataclass(frozen=True)
class Cost:
    """CPU time in seconds and peak memory in MB of one process."""

    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Target:
    """A row of the table: `value` is at most `bar`, both shown with `unit`."""

    name: str
    value: float
    bar: float
    unit: str

    @property
    def reached(self) -> bool:
        return self.value <= self.bar


def cost(command: Sequence[str]) -> Cost:
    """Run a command to its end."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "RAYON_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:8])} ...: exit status {process.returncode}\n{errors[-2000:]}")
    per_megabyte = 1024 * 1024 if sys.platform == "darwin" else 1024
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / per_megabyte)


def unpacked() -> Path:
    """The wheel's files, downloaded once."""
    target = FOLDER / "transformers-5.24.0"
    if not target.exists():
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(FOLDER), WHEEL]
        subprocess.run(download, check=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder, zipfile.ZipFile(next(FOLDER.glob("*.whl"))) as wheel:
            wheel.extractall(folder)
            (Path(folder) / "pyproject.toml").touch()  # a project of its own
            Path(folder).rename(target)
            Path(folder).mkdir()  # for the context to remove
    return target


def commands(root: Path, cache: Path) -> dict[str, tuple[str, ...]]:
    """The commands to measure; `root` is absolute."""
    files = sorted(root.rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    sample = tuple(map(str, files[::SAMPLE]))
    long = [path for path in files if texts[path].count("\n") in VARLEN_ROWS]
    varlen = max(long, key=lambda path: texts[path].count("cu_seqlens"))
    plain = next(path for path in files if 20 < texts[path].count("\n") < 80 and "seq" not in texts[path])
    warm = (*LINT, "--cache-dir", str(cache))
    return {
        "cold": (*LINT, "--no-cache", str(root)),
        "ruff": (*RUFF, str(root)),
        "sample": (*LINT, "--no-cache", *sample),
        "flake8": (*FLAKE8, *sample),
        "warm": (*warm, str(root)),
        "commit": (*warm, str(plain)),
        "varlen": (*LINT, "--no-cache", str(varlen)),
    }


def targets(rounds: Sequence[dict[str, Cost]]) -> list[Target]:
    def seconds(name: str) -> float:
        return statistics.median(costs[name].seconds for costs in rounds)

    def ratio(name: str, other: str) -> float:
        return statistics.median(costs[name].seconds / costs[other].seconds for costs in rounds)

    return [
        Target("cold run, times ruff", ratio("cold", "ruff"), 3, "x"),
        Target(f"cold run, times flake8 (every {SAMPLE}th file)", ratio("sample", "flake8"), 0.1, "x"),
        Target("warm run", seconds("warm"), 0.5, "s"),
        Target("commit of one file without packed metadata", seconds("commit"), 0.15, "s"),
        Target(f"one file of {VARLEN_ROWS.start}-{VARLEN_ROWS.stop} lines with cu_seqlens", seconds("varlen"), 1, "s"),
        Target("peak memory of the cold run", max(costs["cold"].megabytes for costs in rounds), 300, "MB"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure shapecheck lint beside ruff and flake8.")
    parser.add_argument("path", nargs="?", type=Path, help="an unpacked transformers wheel; downloaded by default")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    arguments = parser.parse_args()
    root = (arguments.path or unpacked()).resolve()
    with tempfile.TemporaryDirectory() as cache:
        to_run = commands(root, Path(cache))
        cost(to_run["warm"])  # fills the cache
        rounds = [{name: cost(command) for name, command in to_run.items()} for _ in range(arguments.rounds)]
    found = targets(rounds)
    table = Table(title=f"shapecheck lint, {WHEEL}, median of {arguments.rounds} rounds")
    for column, justify in (("", "left"), ("measured", "right"), ("bar", "right"), ("", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for target in found:
        measured, bar = (f"{value:.3g} {target.unit}" for value in (target.value, target.bar))
        table.add_row(target.name, measured, bar, "reached" if target.reached else "[bold]missed[/bold]")
    console = Console(width=100)
    console.print(table)
    cpu = ", ".join(f"{name} {statistics.median(costs[name].seconds for costs in rounds):.2f} s" for name in to_run)
    console.print(f"CPU time: {cpu}")
    return 0 if all(target.reached for target in found) else 1


if __name__ == "__main__":
    sys.exit(main())
