"""Why nothing was said about a call."""

import pytest
from shapecheck.codemods.catalogue import Catalogue
from shapecheck.codemods.check import check
from shapecheck.codemods.findings import Silence
from shapecheck.codemods.rules import all_rules


def silences(body: str) -> tuple[Silence, ...]:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    text = f"import torch\nimport torch.nn.functional as F\ndef f(self, lens, cu, a, b, c, d, e, x):\n{lines}"
    return check(text, "case.py", all_rules(), Catalogue.load(), explain=True).silences


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("attend(x, cu_seqlens=cu)", "`cu` is a parameter: nothing in this function says what it describes"),
        ("c2 = g(x)\nattend(x, cu_seqlens=c2)", "`g` (line 4) is no function of this file and not in the catalogue"),
        ("c2 = x.meta\nattend(x, cu_seqlens=c2)", "the attribute `meta` (line 4) is set outside of this function"),
        ("c2 = cu[3]\nattend(x, cu_seqlens=c2)", "it is an item (line 4) of a value that is not understood"),
        ("attend(x, max_seqlen=128)", "it is the constant 128, which cannot be compared with the rows"),
        ("if a:\n    n = F.pad(lens.cumsum(0), (1, 0))\nattend(x, cu_seqlens=n)", "it is not assigned on every path"),
        ("n = f'{a}'\nattend(x, cu_seqlens=n)", "it comes from an expression (line 4) that is not understood"),
        (
            "n = cu\nfor i in a:\n    n = n * 2\nattend(x, cu_seqlens=n)",
            "it changes in a loop in a way that is not understood",
        ),
        (
            "n = a @ b\nattend(x, cu_seqlens=n)",
            "it was made by an operation (`MatMult`) (line 4) from which no rule reads what it describes",
        ),
        (
            "n = cu\nif a:\n    n = cu + 1\nif b:\n    n = n + 2\nif c:\n    n = n + 3\nattend(x, cu_seqlens=n)",
            "it depends on 3 or more conditions; no more than 2 are told apart",
        ),
    ],
)
def test_reasons(body: str, reason: str) -> None:
    [found] = silences(body)
    assert found.reason == reason
    assert found.callee == "attend"
    assert found.argument in {"cu_seqlens", "max_seqlen"}


@pytest.mark.parametrize(
    "body",
    [
        "n = F.pad(lens.cumsum(0), (1, 0))\nattend(x, cu_seqlens=n)",
        "attend(x, cu_seqlens=None)",
        "attend(x)",
        "n = F.pad(lens.cumsum(0), (1, 0)) if a else F.pad(cu.diff().cumsum(0), (1, 0))\nattend(x, cu_seqlens=n)",
    ],
)
def test_what_is_understood_or_absent_needs_no_reason(body: str) -> None:
    assert silences(body) == ()


def test_calls_with_a_finding_are_left_out() -> None:
    assert silences("n = lens.cumsum(0)\nattend(x, cu_seqlens=n, cu_seqlens_cpu=cu)") == ()
