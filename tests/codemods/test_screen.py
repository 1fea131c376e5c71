"""The prefilter opens every function that a rule may be about, and few others."""

import pytest
from shapecheck.codemods.rules import all_rules
from shapecheck.codemods.screen import Screen

SCREEN = Screen.default()
FAULTS = [
    pytest.param(case.code, id=f"{rule.code}-{at}")
    for rule in all_rules()
    if rule.check is not None
    for at, case in enumerate(rule.invalid)
]


@pytest.mark.parametrize("code", FAULTS)
def test_files_with_faults_are_opened(code: str) -> None:
    assert "jaxtyp" in code or SCREEN.may_matter(code.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1\n",
        "def f(x):\n    return x + 1\n",
        "labels = labels.to(device)\n",
        "def size(lens):\n    return len(lens)\n",
        "import torch\n\ny = torch.cat([a, b])\n",
    ],
)
def test_other_files_are_not(text: str) -> None:
    assert not SCREEN.may_matter(text.encode())


def test_words_of_the_user_open_files() -> None:
    text = b"attend(x, offs=y)\n"
    assert not SCREEN.may_matter(text)
    assert Screen(("offs",)).may_matter(text)


def test_text_of_any_encoding_is_looked_at() -> None:
    assert SCREEN.may_matter(b"\xff\xfe cu_seqlens")
