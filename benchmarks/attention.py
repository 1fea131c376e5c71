"""`torch.compile(model, backend="shapecheck")` on the CPU, beside the other ways to attend packed documents.

    python -m benchmarks.attention                      all sections; exit status 1 if a target is missed
    python -m benchmarks.attention --quick              fewer cases and rounds, within two minutes
    python -m benchmarks.attention --only cells         one section; may be given several times
    python -m benchmarks.attention --json results.json  the numbers too, written as they come
    python -m benchmarks.attention --json results.json --resume       without the cases that the file has already

headline     the cases that were promised, beside stock Inductor, loops, padding, FlexAttention and nested tensors
cells        documents x rows x lengths x dtype x mask, forward and forward + backward
memory       peak memory at S=32,768
compile      time of the analysis over stock Inductor's compile time
recompiles   graphs for batches of varying sizes
accuracy     errors against float64

A module with a dense mask is compiled by this backend, and measured in turn with its peers in one process. Ratios are
medians over the ratios of a round, of wall time (which the targets are for) and of CPU time; where a call takes more
than two seconds it is measured once, and a peer that fails is shown and passed over. Absolute times differ from machine
to machine, ratios much less. Needs the package installed with torch; `memory` needs Linux.
"""

import argparse
import importlib
import json
import logging
import os
import statistics
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.attention_measure import Finding, Section

SECTIONS = {
    "headline": ("attention_speed", "headline"),
    "cells": ("attention_speed", "cells"),
    "memory": ("attention_memory", "memory"),
    "compile": ("attention_compile", "compile_time"),
    "recompiles": ("attention_compile", "recompiles"),
    "accuracy": ("attention_accuracy", "accuracy"),
}


def import_installed_package() -> None:
    """Let `import shapecheck` find the installed package, not the folder of that name where this runs.

    That folder lacks the two inner packages. `benchmarks` itself is imported already.
    """
    here = Path.cwd().resolve()
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]


class Record:
    """What was found, in a file if one is given, which is complete after every case.

    Args:
        path: of the file; None: none is written.
        environment: what the numbers depend on.
        resume: whether to start with what the file holds, but for what failed. Raises ValueError if that was found in
            another environment.
    """

    def __init__(self, path: Path | None, environment: dict[str, Any], resume: bool) -> None:
        from benchmarks.attention_measure import Finding

        self.found: list[Finding] = []
        self._path = path
        self._environment = environment
        if resume and path is not None and path.exists():
            before = json.loads(path.read_text())
            if before["environment"] != environment:
                raise ValueError(f"{path} was measured with {before['environment']}, this is {environment}")
            found = ({name: value for name, value in one.items() if name != "verdict"} for one in before["findings"])
            self.found = [one for one in (Finding(**numbers) for numbers in found) if not one.failed]

    def of(self, section: str) -> "list[Finding]":
        """What was found in a section."""
        return [one for one in self.found if one.section == section]

    def add(self, findings: "Sequence[Finding]") -> None:
        """Add the findings of a case."""
        self.found += findings
        if self._path is not None:
            numbers = [{**asdict(one), "verdict": one.verdict} for one in self.found]
            beside = self._path.with_name(self._path.name + ".part")
            beside.write_text(json.dumps({"environment": self._environment, "findings": numbers}, indent=1) + "\n")
            beside.replace(self._path)


def findings(name: str, section: "Section", quick: bool, record: Record) -> "Iterator[Sequence[Finding]]":
    """Measure the cases of a section that the record lacks, each of which may fail."""
    from benchmarks.attention_measure import Finding, first_line

    before = record.of(name)
    known = {one.case for one in before}
    for unit in section(quick, before):
        if unit.case in known:
            continue
        try:
            yield list(unit.measure())
        except Exception as error:
            traceback.print_exc()
            yield [Finding(name, unit.case, "all", None, note=first_line(error), failed=True)]


def show(console: Console, finding: "Finding") -> None:
    """Print a finding as soon as there is one: a run takes minutes."""
    value = "-" if finding.value is None else f"{finding.value:.3g}"
    cpu = "" if finding.cpu is None else f" (CPU {finding.cpu:.3g})"
    text = f"{finding.case} | {finding.what}: {value}{cpu} {finding.verdict} [dim]{escape(finding.note)}[/]"
    console.print(text, highlight=False)


def table(section: str, findings: "Sequence[Finding]") -> Table:
    """All that was found in a section."""
    result = Table(title=section, title_justify="left")
    result.add_column("case")
    result.add_column("what")
    for name in ("value", "CPU time", "target"):
        result.add_column(name, justify="right")
    result.add_column("verdict")
    result.add_column("")
    last = ""
    for one in findings:
        value, cpu = ("" if number is None else f"{number:.3g}" for number in (one.value, one.cpu))
        bar = "" if one.bar is None else f"{'>=' if one.least else '<='} {one.bar:g}"
        case = "" if one.case == last else one.case
        result.add_row(case, one.what, value, cpu, bar, one.verdict, escape(one.note))
        last = one.case
    return result


def summary(findings: "Sequence[Finding]") -> Iterator[str]:
    """One line for each name of a number that has a target: how often it is reached, and the range."""
    for what in dict.fromkeys(one.what for one in findings if one.judged):
        judged = [one for one in findings if one.what == what and one.judged]
        values = [one.value for one in judged if one.value is not None]
        reached = sum(not one.missed for one in judged)
        text = f"{what}: {reached} of {len(judged)} reached"
        if values:
            text += f"; {min(values):.3g} to {max(values):.3g}, median {statistics.median(values):.3g}"
        yield text


def main() -> int:
    """Run the sections asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=SECTIONS, help="a section; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers to this file, after every case")
    parser.add_argument("--resume", action="store_true", help="keep what the file holds, measure only what it lacks")
    options = parser.parse_args()
    if options.resume and options.json is None:
        parser.error("--resume needs --json PATH, the file to go on with")
    import_installed_package()
    import torch

    warnings.filterwarnings("ignore", "The PyTorch API of nested tensors is in prototype stage")
    logging.getLogger("torch.fx").setLevel(logging.ERROR)
    environment = {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "quick": options.quick,
    }
    try:
        record = Record(options.json, environment, options.resume)
    except ValueError as error:
        parser.error(str(error))
    console = Console(width=None if sys.stdout.isatty() else 180)
    console.print(", ".join(f"{name} {value}" for name, value in environment.items()), highlight=False)
    sections = options.only or list(SECTIONS)
    for name in sections:
        module, function = SECTIONS[name]
        section: Section = getattr(importlib.import_module(f"benchmarks.{module}"), function)
        for found in findings(name, section, options.quick, record):
            record.add(found)
            for finding in found:
                show(console, finding)
        console.print(table(name, record.of(name)))
        for line in summary(record.of(name)):
            console.print(line, highlight=False, markup=False)
    judged = [one for name in sections for one in record.of(name) if one.judged]
    missed = [one for one in judged if one.missed]
    console.print(f"{len(judged) - len(missed)} of {len(judged)} targets reached")
    for one in missed:
        text = f"  missed: {one.section}: {one.case}: {one.what}: {one.verdict} {one.note}"
        console.print(text, highlight=False, markup=False)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
