"""Imported names and the paths that they stand for."""

import ast

import pytest
from shapecheck.codemods.engine.imports import Imports


def paths(text: str) -> dict[str, str]:
    return Imports(ast.parse(text).body).paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch", {"torch": "torch"}),
        ("import torch.nn.functional", {"torch": "torch"}),
        ("import torch.nn.functional as F", {"F": "torch.nn.functional"}),
        (
            "from flash_attn import flash_attn_varlen_func",
            {"flash_attn_varlen_func": "flash_attn.flash_attn_varlen_func"},
        ),
        ("from flash_attn import flash_attn_varlen_func as attend", {"attend": "flash_attn.flash_attn_varlen_func"}),
        ("from .kernels import attend", {"attend": ".kernels.attend"}),
        ("from ..ops.kernels import attend", {"attend": "..ops.kernels.attend"}),
        ("from . import kernels", {"kernels": ".kernels"}),
        ("import a, b as c", {"a": "a", "c": "b"}),
    ],
)
def test_forms(text: str, expected: dict[str, str]) -> None:
    assert paths(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "if fast:\n    from a import f",
        "try:\n    from a import f\nexcept ImportError:\n    f = None",
        "with guard():\n    from a import f",
        "try:\n    pass\nexcept ImportError:\n    from a import f",
        "if fast:\n    pass\nelse:\n    from a import f",
        "from a import f\nfrom a import f",
    ],
)
def test_below_conditions(text: str) -> None:
    assert paths(text) == {"f": "a.f"}


def test_two_packages_for_one_name_are_unknown() -> None:
    assert paths("try:\n    from a import f\nexcept ImportError:\n    from b import f") == {}
    assert paths("from a import f\nfrom b import f\nfrom a import f") == {}


def test_imports_of_functions_are_not_those_of_the_file() -> None:
    assert paths("def g():\n    import torch") == {}
