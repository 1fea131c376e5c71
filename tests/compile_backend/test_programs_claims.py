"""The programs are what they claim: eager equals attention under the claimed mask, in float64, or differs from it."""

import pytest
import torch
from torch import Tensor

from .programs import NEGATIVE, POSITIVE, Program, Sizes


def dense(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention under a bool mask in float64, heads of k and v repeated as q needs; rows without a key are zero."""
    repeats = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(repeats, 1), v.double().repeat_interleave(repeats, 1)
    scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    return scores.masked_fill(~mask, float("-inf")).softmax(-1).nan_to_num(0.0) @ v


def error(program: Program, sizes: Sizes) -> float:
    arguments = program.inputs(sizes, 1, torch.device("cpu"), torch.float32, False)
    q, k, v = (value.clone() for value in arguments[:3])
    torch.manual_seed(1)
    out = program.expected(*arguments)
    assert program.claim is not None
    return (out - dense(q, k, v, program.claim(sizes))).abs().max().item()


def claiming(programs: tuple[Program, ...]) -> list[Program]:
    return [program for program in programs if program.claim is not None]


@pytest.mark.parametrize("program", claiming(POSITIVE), ids=lambda program: program.name)
def test_positive_program_is_attention_under_its_mask(program: Program) -> None:
    for sizes in program.sizes:
        assert error(program, sizes) <= max(program.tolerance, 1e-5)


@pytest.mark.parametrize("program", claiming(NEGATIVE), ids=lambda program: program.name)
def test_negative_program_is_not_attention_under_the_mask_that_it_resembles(program: Program) -> None:
    for sizes in program.sizes:
        assert not error(program, sizes) < 1e-2


def test_every_program_has_a_reason() -> None:
    assert all(program.why for program in NEGATIVE)
    assert not any(program.why for program in POSITIVE)
    assert all(program.lowered for program in POSITIVE if program.runtime and program.lowered is not None)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_programs_equal_their_references() -> None:
    flex = [program for program in POSITIVE if program.reference is not None]
    for program in flex:
        arguments = program.inputs(program.sizes[0], 1, torch.device("cpu"), torch.float32, False)
        torch.testing.assert_close(program.function(*arguments), program.expected(*arguments))
    assert flex
