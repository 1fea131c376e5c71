"""Fixes of real rules in real surroundings: what a fix does not name stays byte for byte, and what it mends computes right.

Surroundings are changes of a text that change nothing about its faults. So fixing commutes with them: the fixed text,
changed, has the same bytes as the changed text, fixed.
"""

import ast
import codecs
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shapecheck.codemods.catalogue import Catalogue
from shapecheck.codemods.check import check
from shapecheck.codemods.findings import AddKeyword, Finding, Fix, Position, Replace, Span
from shapecheck.codemods.fixes import Fixed, fix_text
from shapecheck.codemods.fixes._rows import Rows
from shapecheck.codemods.linter import Linter, Mode, Profile
from shapecheck.codemods.rules import all_rules
from shapecheck.codemods.suppress import add_noqa

HERE = Path(__file__).parent
RULES = tuple(rule for rule in all_rules() if rule.status == "stable" and rule.check is not None)
LINTER = Linter(Profile("/"))
Change = Callable[[str], str]


@cache
def findings(text: str) -> tuple[Finding, ...]:
    return check(text, "case.py", RULES, Catalogue.load()).findings


@cache
def fixed(text: str) -> Fixed:
    return fix_text(text, findings, unsafe=True)


def faulty() -> dict[str, str]:
    """The texts with a finding that carries a fix: cases of the rules, and the collected faults."""
    texts = {f"{rule.code}-{at}": case.code for rule in RULES if rule.fixable for at, case in enumerate(rule.invalid)}
    for path in sorted(HERE.glob("corpus*/cases/*_bad.py")):
        texts[f"{path.parent.parent.name}-{path.stem}"] = path.read_text(encoding="utf-8")
    return {name: text for name, text in texts.items() if any(finding.fix for finding in findings(text))}


FAULTY = faulty()
cases = pytest.mark.parametrize("text", FAULTY.values(), ids=FAULTY.keys())


def linted(data: bytes, mode: Mode, *, unsafe: bool = True) -> tuple[bytes, str]:
    """The bytes after the linter ran, and the diff."""
    result = LINTER.lint(data, "/case.py", "case.py", mode, unsafe=unsafe)
    return data if result.data is None else result.data, result.diff


def edited(text: str) -> list[tuple[int, int]]:
    """Start and end of each expression that a fix names."""
    rows = Rows(text)
    fixes = [finding.fix for finding in fixed(text).applied if finding.fix is not None]
    return sorted((rows.offset(edit.span.start), rows.offset(edit.span.end)) for fix in fixes for edit in fix.edits)


@cases
def test_the_faults_go_and_no_other_comes(text: str) -> None:
    result = fixed(text)
    assert ast.parse(result.text)
    assert result.refused == ()
    left = Counter(finding.code for finding in findings(result.text))
    assert left == Counter(finding.code for finding in findings(text) if finding.fix is None)
    assert fixed(result.text) == Fixed(result.text, (), ())


@cases
def test_all_but_the_named_expressions_stays(text: str) -> None:
    result, at, done = fixed(text).text, 0, 0
    for start, end in edited(text):
        if start >= done:  # else it lies within the one before
            found = result.index(text[done:start], at)
            assert found == 0 or done > 0
            at, done = found + start - done, end
    assert result.endswith(text[done:])


@cases
def test_suppressed_rows_are_never_edited(text: str) -> None:
    data = add_noqa(text, findings(text)).encode()
    assert linted(data, "fix") == (data, "")


@cases
def test_unsafe_fixes_wait_for_their_flag(text: str) -> None:
    safe = any(finding.fix and finding.fix.safe for finding in findings(text))
    assert (linted(text.encode(), "fix", unsafe=False)[0] != text.encode()) == safe


@cases
def test_the_diff_gives_what_a_fix_writes(text: str) -> None:
    written, diff = linted(as_windows_file(text), "diff")
    assert written == as_windows_file(fixed(text).text)
    assert codecs.BOM_UTF8 + patched(windows_rows(text), diff).encode() == written


@cases
def test_comments_stay_where_their_row_stays(text: str) -> None:
    noted = with_comments(text)
    result = fixed(noted).text
    assert ast.dump(ast.parse(result)) == ast.dump(ast.parse(fixed(text).text))
    rows = Rows(noted)
    inside = sum(rows.position(end).row - rows.position(start).row for start, end in edited(noted))
    assert len(comments(noted)) - len(comments(result)) <= inside


# Surroundings.

STATEMENTS = (
    "LIMIT = 3; TABLE = {'a': 1,\n    'b': 2}  # two, rows\n",
    "\f\n",
    'def documented():\n    """Join, as in\n\n        cu_seqlens = lens.cumsum(0)  # noqa: VL103\n        x = [\n    """\n',
    "@decorate(1, name='ü')\n@other\nclass Empty:\n\tpass;\n",
    "def spaced ( a,b = ( 1 ,) ) :  return a+b\n",
    "async def waits(x):\n    # note\n    return (await x)[0]\n",
    "if LIMIT:\n  y = [\n\t 1]\nelse: y = None\n",
    "s = '''a\u2028b\n\tc\x0c'''\n",
)


def windows_rows(text: str) -> str:
    return text.replace("\n", "\r\n")


def as_windows_file(text: str) -> bytes:
    return codecs.BOM_UTF8 + windows_rows(text).encode()


def tabs(text: str) -> str:
    """Every four leading spaces are a tab."""
    return re.sub(r"^(?: {4})+", lambda found: "\t" * (len(found[0]) // 4), text, flags=re.MULTILINE)


def form_feeds(text: str) -> str:
    """A form feed above each function and class."""
    return re.sub(r"^(?=(?:async )?def |class )", "\f\n", text, flags=re.MULTILINE)


def below_if(text: str) -> str:
    """All of a text in a branch; rows within strings move too."""
    return "if True:\n" + re.sub(r"^(?=.)", "    ", text, flags=re.MULTILINE)


def with_comments(text: str) -> str:
    """A comment at the end of every row that can have one and has none."""
    rows = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row = token.start[0]
        if token.type in {tokenize.NL, tokenize.NEWLINE} and token.string and "#" not in rows[row - 1]:
            rows[row - 1] = f"{rows[row - 1].rstrip()}  # note, of row {row}\n"
    return "".join(rows)


def comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


@settings(deadline=None, derandomize=True, database=None, max_examples=60)
@given(
    st.sampled_from([text for text in FAULTY.values() if "from __future__" not in text]),
    st.lists(st.sampled_from([tabs, form_feeds, below_if]), unique=True),
    st.lists(st.sampled_from(STATEMENTS), max_size=3),
    st.lists(st.sampled_from(STATEMENTS), max_size=3),
    st.booleans(),
)
def test_surroundings_stay_byte_for_byte(
    text: str, changes: list[Change], before: list[str], after: list[str], windows: bool
) -> None:
    def changed(text: str) -> str:
        for change in changes:
            text = change(text)
        text = "".join((*before, text, *after))
        return windows_rows(text) if windows else text

    data = changed(text).encode()
    assert linted(data, "fix")[0] == changed(fixed(text).text).encode()


def patched(text: str, diff: str) -> str:
    """The text with a unified diff applied."""
    rows = re.findall(r"[^\n]*\n|[^\n]+", text)
    result: list[str] = []
    done = 0
    for line in diff.split("\n")[2:-1]:
        if head := re.match(r"@@ -(\d+)", line):
            result += rows[done : int(head[1]) - 1]
            done = int(head[1]) - 1
        elif line[0] == "\\":
            result[-1] = result[-1].removesuffix("\n")
        else:
            if line[0] in " -":
                assert rows[done].removesuffix("\n") == line[1:]
                done += 1
            if line[0] in " +":
                result.append(f"{line[1:]}\n")
    return "".join(result + rows[done:])


# What fixed code computes.

CU = torch.tensor([0, 3, 5, 9])
KERNEL = "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\n"
OTHER = "\n\ndef other(cu_seqlens):\n    return (cu_seqlens[1:] - cu_seqlens[:1]).sum()\n"


def attention(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """A kernel that gives back what it was given; as the real ones it takes int32 boundaries only."""
    given = [*args[3:], *kwargs.values()]
    assert all(value.dtype == torch.int32 for value in given if isinstance(value, torch.Tensor))
    return tuple(given)


@pytest.mark.parametrize(
    ("text", "arguments", "wrong", "right"),
    [
        pytest.param(
            "def f(cu_seqlens):\n    lens = cu_seqlens[1:] - cu_seqlens[:1]\n    return lens\n",
            (CU,),
            [3, 5, 9],
            [3, 2, 4],
            id="VL401",
        ),
        pytest.param(
            "def f(position_ids):\n    cu_seqlens = (position_ids[1:] < position_ids[:-1]).nonzero().view(-1) + 1\n"
            "    return cu_seqlens\n",
            (torch.tensor([0, 1, 0, 0, 1]),),
            [2],
            [2, 3],
            id="VL107",
        ),
        pytest.param(
            "import torch\n\nTEXT, IMAGE, AUDIO = 0, 1, 2\n\n\ndef joined(text, image, audio):\n"
            "    x = torch.cat([text, image, audio])\n"
            "    token_tags = torch.cat([torch.full((len(text),), TEXT), torch.full((len(image),), IMAGE)])\n"
            "    return x, token_tags\n\n\ndef f(*parts):\n    return joined(*parts)[1]\n",
            (torch.zeros(1), torch.zeros(2), torch.zeros(1)),
            [0, 1, 1],
            [0, 1, 1, 2],
            id="VL201",
        ),
        pytest.param(
            "import torch\n\n\ndef f(cu_seqlens, n):\n    return torch.bucketize(torch.arange(n), cu_seqlens[1:])\n",
            (CU, 6),
            [0, 0, 0, 0, 1, 1],
            [0, 0, 0, 1, 1, 2],
            id="VL208",
        ),
        pytest.param(
            "import torch\n\n\ndef f(cu_seqlens, n):\n"
            "    return torch.repeat_interleave(torch.arange(n), cu_seqlens[1:].long())\n",
            (torch.tensor([0, 1, 3]), 2),
            [0, 1, 1, 1],
            [0, 1, 1],
            id="VL209",
        ),
        pytest.param(
            "import torch\n\n\ndef f(batches):\n    cu_seqlens = torch.zeros(3)\n    kept = []\n"
            "    for lens in batches:\n        cu_seqlens[1:] = lens.cumsum(0)\n        kept.append(cu_seqlens[:3])\n"
            "    return torch.cat(kept)\n",
            ([torch.tensor([1, 2]), torch.tensor([3, 4])],),
            [0, 3, 7, 0, 3, 7],
            [0, 1, 3, 0, 3, 7],
            id="VL114",
        ),
        pytest.param(
            KERNEL + "def f(q, lens, n):\n    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
            "    return flash_attn_varlen_func(q, q, q, cu, cu, n, n)[0]\n",
            (torch.zeros(3), torch.tensor([1, 2]), 2),
            AssertionError,
            [0, 1, 3],
            id="VL404",
        ),
        pytest.param(
            KERNEL + "def f(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k):\n"
            "    return flash_attn_varlen_func(q, k, v, cu_seqlens_k, cu_seqlens_q, max_seqlen_k, max_seqlen_q)[:4]\n",
            (None, None, None, "cu_q", "cu_k", 1, 2),
            ["cu_k", "cu_q", 2, 1],
            ["cu_q", "cu_k", 1, 2],
            id="VL412",
        ),
    ],
)
def test_fixed_code_computes_right(
    text: str, arguments: tuple[Any, ...], wrong: Any, right: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = ModuleType("flash_attn")
    stub.flash_attn_varlen_func = attention  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", stub)
    text += OTHER
    before, after = ran(text), ran(fixed(text).text)
    if isinstance(wrong, type):
        with pytest.raises(wrong):
            before["f"](*arguments)
    else:
        assert listed(before["f"](*arguments)) == wrong
    assert listed(after["f"](*arguments)) == right
    assert before["other"](CU) == after["other"](CU)


def ran(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, "case.py", "exec"), names)
    return names


def listed(value: Any) -> list[Any]:
    return value.tolist() if isinstance(value, torch.Tensor) else list(value)


@pytest.mark.parametrize(
    "boundaries",
    [
        "torch.nn.functional.pad(lens.cumsum(0), (1, 0)) if packed else None",
        "np.concatenate(([0], np.cumsum(lens)))",
        "np.concatenate(([0], np.cumsum(lens))).astype(np.int64)",
        "lens.cumsum(0).tolist()",
    ],
)
def test_only_tensors_are_cast(boundaries: str) -> None:
    text = (
        f"import numpy as np\n{KERNEL}def f(q, lens, n, packed):\n    cu = {boundaries}\n"
        "    return flash_attn_varlen_func(q, q, q, cu, cu, n, n)\n"
    )
    assert "VL404" in {finding.code for finding in findings(text)}
    assert fixed(text) == Fixed(text, (), ())


# Edits that would be wrong: the fix is made right, or not at all.

TORCH = "import torch\n\n\n"
NUMPY = "import numpy as np\nimport torch\n\n\n"
INNER = "def inner(x, cu_seqlens=None{}):\n    return x, cu_seqlens\n\n\n"
BOUNDS = "    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
LAYOUT = (
    "import torch\n\n\ndef bounds(lens):\n    return torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n\n\n"
    "def f(attend, q, k, v, q_lens, k_lens, a):\n    {} = bounds(q_lens)\n"
    "    layout_q, layout_k = bounds((q_lens + a - 1) // a * a), bounds((k_lens + a - 1) // a * a)\n"
)
TAGS = (
    "def f(text, image, audio, tag):\n    x = torch.cat([text, image, audio])\n"
    "    token_tags = torch.cat([torch.full((len(text),), {}), torch.full((len(image),), {})])\n    return x, token_tags\n"
)
LOOP = "    kept = []\n    for lens in batches:\n        cu_seqlens[1:] = lens\n        kept.append(cu_seqlens[:3])\n    return kept\n"


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        pytest.param(
            "def f(meta, other):\n    cu_seqlens = meta.cu_seqlens\n    ends = cu_seqlens[1:]\n    cu_seqlens = other\n"
            "    max_seqlen = (meta.cu_seqlens[1:] - meta.cu_seqlens[:1]).max()\n    return max_seqlen, ends, cu_seqlens\n",
            "meta.cu_seqlens[1:] - meta.cu_seqlens[:1]",
            "meta.cu_seqlens[1:] - meta.cu_seqlens[:-1]",
            id="VL401-the-name-has-another-value-by-now",
        ),
        pytest.param(
            f"{TORCH}def f(x, lens):\n{BOUNDS}    ends = cu_seqlens[1:]\n"
            "    longest = (ends - cu_seqlens[:-1]).max()\n    return x[ends], longest\n",
            "x[ends]",
            "x[ends - 1]",
            id="VL190-the-ends-are-used-elsewhere",
        ),
        pytest.param(
            f"{TORCH}def f(x, lens):\n{BOUNDS}    cu_seqlens = cu_seqlens.tolist()\n    return x[cu_seqlens[1:]]\n",
            "",
            "",
            id="VL190-lists-have-no-minus",
        ),
        pytest.param(
            f"{TORCH}def f(cu_seqlens, n):\n"
            '    return torch.searchsorted(cu_seqlens, torch.arange(n), side="left") - 1\n',
            'side="left"',
            'side="right"',
            id="VL208-side-and-right-contradict",
        ),
        pytest.param(
            f'{NUMPY}def f(cu_seqlens, n):\n    return np.searchsorted(cu_seqlens, np.arange(n), "left") - 1\n',
            '"left"',
            '"right"',
            id="VL208-side-by-position",
        ),
        pytest.param(
            "import numpy\n\n\ndef f(cu_seqlens, n):\n    return numpy.repeat(numpy.arange(n), cu_seqlens[1:])\n",
            "cu_seqlens[1:]",
            "numpy.diff(cu_seqlens)",
            id="VL209-numpy-is-not-called-np",
        ),
        pytest.param(
            "def f(position_ids):\n    cu_seqlens = [0]\n    for i in range(1, len(position_ids)):\n"
            "        if (now := position_ids[i]) < position_ids[i - 1]:\n            cu_seqlens.append(i)\n"
            "    return cu_seqlens\n",
            "(now := position_ids[i]) <",
            "(now := position_ids[i]) <=",
            id="VL107-parentheses-around-an-assignment",
        ),
        pytest.param(
            f"{NUMPY}def f(batches):\n    cu_seqlens = np.full(4, 0)\n{LOOP}",
            "cu_seqlens[:3]",
            "cu_seqlens[:3].copy()",
            id="VL114-of-numpy",
        ),
        pytest.param(
            f"from torch import zeros\n\n\ndef f(batches):\n    cu_seqlens = zeros(4)\n{LOOP}",
            "cu_seqlens[:3]",
            "cu_seqlens[:3].clone()",
            id="VL114-torch-without-its-name",
        ),
        pytest.param(
            f"{TORCH}def f(batches):\n    cu_seqlens = torch.zeros(4)\n    kept = []\n    for lens in batches:\n"
            "        view = cu_seqlens[:3]\n        view.copy_(lens)\n        cu_seqlens[1:] = lens\n        kept.append(view)\n    return kept\n",
            "kept.append(view)",
            "kept.append(view.clone())",
            id="VL114-the-view-is-written-to",
        ),
        pytest.param(
            "def f(attn, q, k, make):\n    a = attn(q, True)\n    cu_seqlens = make(k)\n"
            "    b = attn(k, True, cu_seqlens=cu_seqlens)\n    return a, b\n",
            "",
            "",
            id="VL414-not-bound-yet",
        ),
        pytest.param(
            INNER.format("") + "def f(x, make):\n    y = inner(x)\n    cu_seqlens = make(y)\n    return y\n",
            "",
            "",
            id="VL415-not-bound-yet",
        ),
        pytest.param(
            INNER.format("")
            + "def f(x, make, packed):\n    if packed:\n        cu_seqlens = make(x)\n    return inner(x)\n",
            "",
            "",
            id="VL415-not-always-bound",
        ),
        pytest.param(
            INNER.format(", /") + "def f(x, cu_seqlens):\n    return inner(x)\n",
            "inner(x)\n",
            "inner(x, cu_seqlens)\n",
            id="VL415-positional-only",
        ),
        pytest.param(
            "def f(q, k, v, cu_seqlens, rotary, meta, attend):\n    padded = meta\n    q = rotary(q, cu_seqlens)\n"
            "    padded = meta.cu_seqlens_padded\n"
            "    return attend(q, k, v, cu_seqlens_q=cu_seqlens, cu_seqlens_kv=cu_seqlens,"
            " cu_seqlens_q_padded=padded, cu_seqlens_kv_padded=padded)\n",
            "",
            "",
            id="VL420-the-name-has-another-value-still",
        ),
        pytest.param(
            f"{TORCH}def f(text, image, audio):\n    # AUDIO comes later\n    x = torch.cat([text, image, audio])\n"
            "    token_tags = torch.cat([torch.full((len(text),), TEXT), torch.full((len(image),), IMAGE)])\n"
            "    return x, token_tags\n",
            "",
            "",
            id="VL201-a-name-of-a-comment",
        ),
        pytest.param(
            KERNEL
            + 'def f(q, k, v, m):\n    return flash_attn_varlen_func(q, k, v, m["cu_seqlens_k"], m["cu_seqlens_q"], 1, 1)\n',
            'm["cu_seqlens_k"], m["cu_seqlens_q"]',
            'm["cu_seqlens_q"], m["cu_seqlens_k"]',
            id="VL412-quotes",
        ),
        pytest.param(
            "from typing import TYPE_CHECKING\n\nimport torch.nn.functional as F\nfrom flash_attn import flash_attn_varlen_func\n\n"
            "if TYPE_CHECKING:\n    import torch\n\n\ndef f(q, lens, n):\n    cu = F.pad(lens.cumsum(0), (1, 0))\n"
            "    return flash_attn_varlen_func(q, q, q, cu, cu, n, n)\n",
            "",
            "",
            id="VL404-torch-for-types-only",
        ),
        pytest.param(
            "def f(position_ids):\n    cu_seqlens = [0]\n    for i in range(1, len(position_ids)):\n"
            "        if (\n            position_ids[i]  # now\n            < position_ids[i - 1]\n        ):\n"
            "            cu_seqlens.append(i)\n    return cu_seqlens\n",
            "# now\n            <",
            "# now\n            <=",
            id="VL107-comment-before-the-sign",
        ),
        pytest.param(
            f"{TORCH}def run(block, target, context, report):\n    x = torch.cat([target, context])\n"
            "    lens = [context.shape[0], target.shape[0]]\n    report(dict(zip(('context', 'target'), lens)))\n"
            "    return x.split(lens)\n",
            "",
            "",
            id="VL202-the-display-is-used-elsewhere",
        ),
        pytest.param(
            "def f(attn, q, k, make):\n    cu_seqlens = make(q)\n    a = attn(q, True, cu_seqlens=cu_seqlens)\n"
            "    cu_seqlens = make(k)\n    b = attn(k, True)\n    return a, b, cu_seqlens\n",
            "",
            "",
            id="VL414-the-name-has-another-value-by-now",
        ),
        pytest.param(
            "def f(attn, q, k, meta, make):\n    a = attn(q, True)\n    meta.cu_seqlens = make(k)\n"
            "    b = attn(k, True, cu_seqlens=meta.cu_seqlens)\n    return a, b\n",
            "",
            "",
            id="VL414-the-attribute-has-another-value-still",
        ),
        pytest.param(
            "def f(self, checkpoint, x, rope, cu_seqlens, other):\n    if self.recompute:\n"
            "        run = checkpoint(lambda h: self.layer(h, rope), x)\n    else:\n"
            "        run = self.layer(x, rope, cu_seqlens=cu_seqlens)\n    cu_seqlens = other\n    return run, cu_seqlens\n",
            "",
            "",
            id="VL414-a-lambda-runs-later",
        ),
        pytest.param(
            "def f(layers, x, rope, cu_seqlens, checkpoint, recompute):\n    for layer in layers:\n        if recompute:\n"
            "            x = checkpoint(layer, x, rope)\n        else:\n"
            "            x = layer(x, rope, cu_seqlens=cu_seqlens)\n    return x\n",
            "",
            "",
            id="VL414-reentrant-checkpoints-take-no-keywords",
        ),
        pytest.param(
            "def attn(x, causal):\n    return x\n\n\ndef f(q, k, cu_seqlens):\n    a = attn(q, True)\n"
            "    return a, attn(k, True, cu_seqlens=cu_seqlens)\n",
            "",
            "",
            id="VL414-the-callee-has-no-such-parameter",
        ),
        pytest.param(
            INNER.format("")
            + "def f(x, make):\n    for one in x:\n        cu_seqlens = make(one)\n    return inner(x)\n",
            "",
            "",
            id="VL415-a-loop-may-have-no-rounds",
        ),
        pytest.param(
            "def f(core, rotary, q, k, v, p):\n    made = []\n"
            "    for t, cu in ((q, p.cu_seqlens_q), (k, p.cu_seqlens_kv)):\n        made.append(rotary(t, cu_seqlens=cu))\n"
            "    return core(made[0], made[1], v, cu_seqlens_q=p.cu_seqlens_q, cu_seqlens_q_padded=p.cu_seqlens_q_padded)\n",
            "",
            "",
            id="VL420-one-argument-for-two-rounds",
        ),
        pytest.param(
            LAYOUT.format("cu_q")
            + "    out = attend(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_kv=layout_k, cu_seqlens_q_padded=layout_q,"
            " cu_seqlens_kv_padded=layout_k)\n    cu_k = bounds(k_lens)\n    return out, cu_k\n",
            "",
            "",
            id="VL421-not-bound-yet",
        ),
        pytest.param(
            LAYOUT.format("cu_q") + "    cu_k = bounds(k_lens)\n    cu_k = cu_q\n"
            "    return attend(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_kv=layout_k, cu_seqlens_q_padded=layout_q,"
            " cu_seqlens_kv_padded=layout_k)\n",
            "",
            "",
            id="VL421-the-name-has-another-value-by-now",
        ),
        pytest.param(
            "from numpy import arange, repeat\n\n\ndef f(cu_seqlens, n):\n    return repeat(arange(n), cu_seqlens[1:])\n",
            "",
            "",
            id="VL209-numpy-without-its-name",
        ),
        pytest.param(
            f"{TORCH}def f(lens, n):\n    cu_seqlens = lens.cumsum(0)\n"
            "    return torch.repeat_interleave(torch.arange(n), cu_seqlens[1:])\n",
            "",
            "",
            id="VL209-sums-without-a-zero",
        ),
        pytest.param(
            f'{TORCH}def f(m, n):\n    return torch.repeat_interleave(torch.arange(n), m["cu_seqlens"][1:])\n',
            'm["cu_seqlens"][1:]',
            'm["cu_seqlens"].diff()',
            id="VL209-quotes",
        ),
        pytest.param(
            f"{TORCH}class Kind:\n    TEXT = 0\n    IMAGE = 1\n\n\n" + TAGS.format("Kind.TEXT", "Kind.IMAGE"),
            "",
            "",
            id="VL201-no-such-attribute",
        ),
        pytest.param(
            TORCH + TAGS.format("tag['text']", "tag['image']"),
            "",
            "",
            id="VL201-a-key-that-may-be-missing",
        ),
        pytest.param(
            f"{TORCH}def f(text, image, load):\n"
            "    token_tags = torch.cat([torch.full((len(text),), 0), torch.full((len(image),), 0)])\n    audio = load()\n"
            "    return torch.cat([text, image, audio]), token_tags\n",
            "",
            "",
            id="VL201-not-bound-yet",
        ),
        pytest.param(
            f"{TORCH}def f(batches):\n    cu_seqlens = torch.zeros(4)\n    kept = []\n    for lens in batches:\n"
            "        kept.append(cu_seqlens[:3])\n        cu_seqlens[1:] = lens\n    return kept\n",
            "",
            "",
            id="VL114-filled-after-it-is-kept",
        ),
        pytest.param(
            f"{NUMPY}def f(batches, host):\n    cu_seqlens = np.zeros(4) if host else torch.zeros(4)\n{LOOP}",
            "",
            "",
            id="VL114-of-either-library",
        ),
        pytest.param(
            KERNEL + "def f(q, lens, n, other):\n    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
            "    more = {'cu_seqlens_q': cu, 'cu_seqlens_k': cu}\n    other(**more)\n"
            "    return flash_attn_varlen_func(q, q, q, max_seqlen_q=n, max_seqlen_k=n, **more)\n",
            "",
            "",
            id="VL404-the-dict-goes-elsewhere",
        ),
        pytest.param(
            KERNEL
            + "def f(q, lens, n, load):\n    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n    torch = load()\n"
            "    return flash_attn_varlen_func(q, q, q, cu, cu, n, n), torch\n",
            "",
            "",
            id="VL404-torch-is-something-else",
        ),
        pytest.param(
            f"{NUMPY}def f(model, rows, lengths):\n    order = np.argsort(lengths)\n    out = model(rows[order])\n    return out[order]\n",
            "",
            "",
            id="VL220-of-numpy",
        ),
        pytest.param(
            "import torch_npu\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, n, heads, npu, cu=None):\n"
            "    if not npu:\n        return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n"
            "    return torch_npu.npu_fusion_attention("
            'q, k, v, heads, input_layout="TND", actual_seq_qlen=cu, actual_seq_kvlen=cu)\n',
            "",
            "",
            id="VL105-may-be-none",
        ),
        pytest.param(
            'def f(meta):\n    max_seqlen = (meta["cu_seqlens"][1:] - meta["cu_seqlens"][:1]  # lens\n    ).max()\n    return max_seqlen\n',
            'meta["cu_seqlens"][:1]',
            'meta["cu_seqlens"][:-1]',
            id="VL401-quotes",
        ),
        pytest.param(
            KERNEL
            + 'def f(q, k, v, m):\n    return flash_attn_varlen_func(q, k, v, m["cu_q"], m["max_q"], m["cu_k"], m["max_k"])\n',
            'm["max_q"], m["cu_k"]',
            'm["cu_k"], m["max_q"]',
            id="VL413-quotes",
        ),
        pytest.param(
            'def f(core, rotary, q, k, v, p):\n    q = rotary(q, cu_seqlens=p["cu_seqlens_q"])\n    return core(q, k, v,'
            ' cu_seqlens_q=p["cu_seqlens_q"], cu_seqlens_q_padded=p["cu_seqlens_q_padded"])\n',
            'rotary(q, cu_seqlens=p["cu_seqlens_q"])',
            'rotary(q, cu_seqlens=p["cu_seqlens_q_padded"] if p["cu_seqlens_q_padded"] is not None else p["cu_seqlens_q"])',
            id="VL420-quotes",
        ),
        pytest.param(
            f'{TORCH}def f(b, world):\n    mine = b["lens"] // world\n'
            '    return torch.nn.functional.pad(mine.cumsum(0), (1, 0), mode="constant") // world\n',
            '"constant") // world',
            '"constant")',
            id="VL502-quotes",
        ),
        pytest.param(
            f"{TORCH}def f(attend, x, y, v, q_lens, k_lens):\n"
            "    a = torch.nn.functional.pad(q_lens.cumsum(0), (1, 0))\n"
            "    b = torch.nn.functional.pad(k_lens.cumsum(0), (1, 0))\n"
            "    return attend(x, y, v, cu_seqlens_q=a,"
            " cu_seqlens_k=b, max_seqlen_q=k_lens.max(), max_seqlen_k=q_lens.max())\n",
            "max_seqlen_q=k_lens.max(), max_seqlen_k=q_lens.max()",
            "max_seqlen_q=q_lens.max(), max_seqlen_k=k_lens.max()",
            id="VL412-the-maxima-may-be-swapped",
        ),
        pytest.param(
            f"{TORCH}def f(attend, x, lens):\n    longest, cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0)), lens.max()\n"
            "    return attend(x, cu_seqlens=cu_seqlens, max_seqlen=longest)\n",
            "",
            "",
            id="VL413-the-names-are-swapped",
        ),
        pytest.param(
            "import torch as t\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, lens, n):\n"
            "    cu = t.nn.functional.pad(lens.cumsum(0), (1, 0))\n    return flash_attn_varlen_func(q, q, q, cu, cu, n, n)\n",
            "cu, cu, n",
            "cu.to(t.int32), cu.to(t.int32), n",
            id="VL404-torch-by-another-name",
        ),
    ],
)
def test_wrong_edits_are_not_made(text: str, wrong: str, right: str) -> None:
    assert findings(text)
    assert fixed(text).text in {text, text.replace(wrong, right)}


# The fixpoint on rules that name one place of a fault at a time.


def one_at_a_time(text: str) -> tuple[Finding, ...]:
    """A linter: the first `bad` is a fault, and so is every `worse`, which cannot be mended."""
    rows = Rows(text)
    found = []
    for match in [*[*re.finditer(r"\bbad\b", text)][:1], *re.finditer(r"\bworse\b", text)]:
        span = Span(rows.position(match.start()), rows.position(match.end()))
        fix = Fix("Say good", True, (Replace(span, "good"),)) if match.group() == "bad" else None
        found.append(Finding("m.py", span, "VL101", "n", "m", fix=fix))
    return tuple(found)


def test_the_next_place_of_a_fault_is_mended_with_the_first() -> None:
    result = fix_text("a = bad\nb = [bad,\n  bad]\nc = worse\n", one_at_a_time, unsafe=False)
    assert result.text == "a = good\nb = [good,\n  good]\nc = worse\n"
    assert [finding.span.start for finding in result.applied] == [Position(1, 5), Position(2, 6), Position(3, 3)]


def test_nothing_is_mended_if_the_next_place_may_not_be() -> None:
    text = "a = bad\nb = bad  # noqa\n"
    result = fix_text(text, one_at_a_time, unsafe=False, protected_rows=frozenset({2}))
    assert (result.text, result.applied) == (text, ())
    assert [reason for _, reason in result.refused] == ["there would still be VL101 in row 2"]


def test_a_fix_that_uncovers_faults_without_end_is_rolled_back() -> None:
    def check(text: str) -> tuple[Finding, ...]:
        call = Span(Position(1, 1), Position(1, len(text)))
        at = Span(Position(1, len(text) - 1), Position(1, len(text)))
        return (Finding("m.py", at, "VL101", "n", "m", fix=Fix("t", True, (AddKeyword(call, f"k{len(text)}", "1"),))),)

    result = fix_text("f(a)\n", check, unsafe=False)
    assert (result.text, len(result.refused)) == ("f(a)\n", 1)
