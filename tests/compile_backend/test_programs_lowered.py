"""Every program through `torch.compile(backend="shapecheck")`: equal to eager, and lowered where it must be."""

import os
from typing import Any

import pytest
import torch
from _pytest.mark import ParameterSet
from shapecheck.compile_backend import rewrite
from shapecheck.compile_backend.report import Report
from torch.fx import GraphModule

from .programs import NEGATIVE, POSITIVE, Program
from .programs.judge import judge

# Dynamo itself makes one, whenever it captures the mask_mod of FlexAttention.
pytestmark = pytest.mark.filterwarnings("ignore:.* should not be instantiated:DeprecationWarning")

INDUCTOR = (
    "searchsorted_right",
    "packed_positions_compared",
    "explicit_float32_softmax",
    "keys_explicit_finfo_min",
    "mask_shared_by_checkpointed_layers",
    "boundaries_changed_after",
    "bias_scaled_with_the_scores",
)

# AOTAutograd in training; in inference the rewritten graph itself runs.
MODES = {
    "dynamic-training": {"dynamic": True, "training": True, "inner": "aot_eager"},
    "dynamic-inference": {"dynamic": True, "training": False, "inner": "eager"},
    "static-training": {"dynamic": False, "training": True, "inner": "aot_eager"},
    "static-inference": {"dynamic": False, "training": False, "inner": "eager"},
}

IN_ALL_MODES = (
    "searchsorted_right",
    "packed_positions_compared",
    "boundaries_changed_after",
    "two_masks_of_one_numbering",
)

NOT_YET = {
    "shifted_cumsum_of_last_tokens": "tags written in place",
    "keys_additive_expanded": "a mask of integers, used as numbers of a mask of floats",
}
"""Programs that are right, and lowered less than they should be: what is not understood."""

THOROUGH = os.environ.get("SHAPECHECK_ALL_PROGRAMS") == "1"
"""Whether every program runs in all modes and sizes (half an hour), and not a part of them in one mode each."""


def cases(programs: tuple[Program, ...], every: int) -> list[ParameterSet]:
    """Programs with their modes: unless all are asked for, one in `every` programs, one mode each, in turn.

    Where nothing may be lowered, the graph goes on as it was, and inference alone shows whether it does.
    """
    made = []
    for index, program in enumerate(programs):
        modes = [mode for mode in MODES if program.training or not MODES[mode]["training"]]
        if not THOROUGH and program.name not in IN_ALL_MODES:
            possible = modes if program.lowered != 0 else [mode for mode in modes if not MODES[mode]["training"]]
            modes = [possible[index // every % len(possible)]]
            modes = modes if index % every == 0 else []
        marks = [pytest.mark.xfail(reason=NOT_YET[program.name])] if program.name in NOT_YET else []
        made += [pytest.param(program, mode, id=f"{program.name}-{mode}", marks=marks) for mode in modes]
    return made


@pytest.mark.parametrize(("program", "mode"), cases(POSITIVE, 3))
def test_lowered_program_equals_eager(program: Program, mode: str) -> None:
    judge(program, **MODES[mode], thorough=THOROUGH)


@pytest.mark.parametrize(("program", "mode"), cases(NEGATIVE, 5))
def test_refused_program_equals_eager(program: Program, mode: str) -> None:
    judge(program, **MODES[mode], thorough=THOROUGH)


@pytest.mark.slow
@pytest.mark.parametrize("name", INDUCTOR)
def test_program_equals_eager_in_inductor(name: str) -> None:
    (program,) = (program for program in (*POSITIVE, *NEGATIVE) if program.name == name)
    judge(program, dynamic=True, training=True, inner="inductor", thorough=THOROUGH)


def _report(program: Program) -> list[tuple[Report, bool]]:
    """The report of each graph of the program, and whether its code was changed."""
    found = []

    def backend(module: GraphModule, _: list[Any]) -> Any:
        before = module.print_readable(print_output=False)
        fakes = [node.meta["example_value"] for node in module.graph.nodes if node.op == "placeholder"]
        rewritten, report = rewrite(module, fakes)
        found.append((report, rewritten.print_readable(print_output=False) != before))
        return rewritten.forward

    torch.compiler.reset()
    arguments = program.inputs(program.sizes[0], 1, torch.device("cpu"), torch.float32, False)
    torch.compile(program.function, backend=backend, dynamic=True)(*arguments)
    return found


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            program,
            id=program.name,
            marks=[pytest.mark.xfail(reason=NOT_YET[program.name])] if program.name in NOT_YET else [],
        )
        for index, program in enumerate((*POSITIVE, *NEGATIVE))
        if THOROUGH or index % 12 == 3
    ],
)
def test_report_says_what_was_lowered_and_why_not(program: Program) -> None:
    reports = _report(program)
    sites = [site for report, _ in reports for site in report.sites]
    assert program.lowered in {None, sum(site.lowered for site in sites)}
    assert all(site.lowered != bool(site.reason) for site in sites)
    for report, changed in reports:
        assert changed == any(site.lowered for site in report.sites)
