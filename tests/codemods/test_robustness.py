"""Bad input ends in a clear message or a finding, never in a crash; and runs repeat exactly."""

import errno
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shapecheck.codemods.catalogue import Catalogue
from shapecheck.codemods.check import check
from shapecheck.codemods.rules import all_rules

from shapecheck._cli import main

CORPORA = sorted(path for path in Path(__file__).parent.glob("corpus*") if path.is_dir())
RULES = all_rules()
CATALOGUE = Catalogue.load()
HEAD = "import torch\n\ndef f(lens, cu_seqlens):\n    cu_seqlens = torch.cumsum(lens, 0)\n"
BAD = (
    "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\n"
    "def attend(q, k, v, lens):\n"
    "    n = lens.max()\n"
    "    return flash_attn_varlen_func(q, k, v, lens, lens, n, n)\n"
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def run(*arguments, select="VL101"):
    result = CliRunner().invoke(main, ["lint", "--output-format", "concise", "--select", select, *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "internal error" not in result.stderr
    return result


def findings(result):
    return re.findall(r"^(\S+?):(\d+):\d+: (VL\d+)", result.stdout, re.MULTILINE)


def test_bad_is_found(here):
    (here / "a.py").write_text(BAD)
    result = run()
    assert result.exit_code == 1
    assert findings(result) == [("a.py", "7", "VL101")] * len(findings(result)) != []


def test_nothing_to_lint(here):
    result = run()
    assert (result.exit_code, result.stderr) == (0, "warning: no Python files found\n")


def test_missing_path(here):
    result = run("gone.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "gone.py: no such file or folder" in result.stderr


def test_folder_that_cannot_be_read(here, monkeypatch):
    (here / "locked").mkdir()
    (here / "a.py").write_text(BAD)
    scandir = os.scandir

    def guarded(path="."):
        if str(path).endswith("locked"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    result = run()
    assert re.fullmatch(r"warning: \S+locked: cannot be read: Permission denied\n", result.stderr)
    assert findings(result)


def test_links_that_lead_in_circles(here):
    (here / "pkg").mkdir()
    (here / "pkg/a.py").write_text(BAD)
    (here / "pkg/up").symlink_to(here)
    (here / "pkg/self.py").symlink_to("self.py")
    (here / "pkg/gone.py").symlink_to("nowhere.py")
    assert {path for path, _, _ in findings(run())} == {"pkg/a.py"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x7fELF\0\0 cu_seqlens", "NUL bytes"),
        (HEAD.encode() + b"# caf\xe9\n", "invalid or missing encoding|cannot be decoded"),
        (b"# coding: ascii\n" + HEAD.encode() + "# café\n".encode(), "ascii"),
        (b"# coding: no-such\n" + HEAD.encode(), "unknown encoding"),
        (HEAD.encode() + b"    print cu_seqlens\n", "Missing parentheses"),
        (HEAD.encode() + b"    if lens:\n\treturn cu_seqlens\n", "tabs|indent"),
        (HEAD.encode() + b"    x = (cu_seqlens\n", "never closed"),
        (HEAD.encode() + b"    x = cu_seqlens <> lens\n", "invalid syntax|not parse"),
        (HEAD.encode() + b"    x := cu_seqlens ?? lens\n", "invalid syntax"),  # syntax that no parser knows yet
        (HEAD.encode() + b"    x = \\", "EOF|unexpected"),
    ],
)
def test_what_is_no_python_is_one_finding(here, data, reason):
    (here / "a.py").write_bytes(data)
    result = run()
    assert [code for _, _, code in findings(result)] == ["VL001"]
    assert result.exit_code == 1
    assert re.search(reason, result.stdout)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xef\xbb\xbf",
        b"# coding: latin-1\n# caf\xe9, cu_seqlens\n",
        b"cu_seqlens = 1",  # no line end
        b"\x0c\n" + HEAD.encode() + b"\x0c\ndef g(cu_seqlens):\n    return cu_seqlens[1:]\n",
        HEAD.encode() + b"    match lens:\n        case [a, *b] | {'x': a, **b}:\n            cu_seqlens = b\n",
    ],
)
def test_odd_files_without_faults(here, data):
    (here / "a.py").write_bytes(data)
    result = run()
    assert (result.exit_code, findings(result)) == (0, [])


@pytest.mark.parametrize("change", [lambda s: s.replace("\n", "\r\n"), lambda s: "\ufeff" + s, lambda s: "\x0c" + s])
def test_line_ends_marks_and_form_feeds_move_nothing(here, change):
    (here / "a.py").write_text(BAD)
    plain = findings(run())
    (here / "a.py").write_bytes(change(BAD).encode())
    assert findings(run()) == plain != []


def nested(levels, header, last="pass"):
    rows = [f"{' ' * (4 + level)}{header.format(level)}\n" for level in range(levels)]
    return HEAD + "".join(rows) + f"{' ' * (4 + levels)}{last}\n"


DEEP = {
    "1,000 parentheses": HEAD + f"    x = {'(' * 1000}cu_seqlens{')' * 1000}\n",
    "90 parentheses": HEAD + f"    x = {'(' * 90}cu_seqlens{')' * 90}\n",
    "150 calls": HEAD + f"    x = {'g(' * 150}cu_seqlens{')' * 150}\n",
    "3,000 ifs": nested(3000, "if cu_seqlens:"),
    "90 ifs": nested(90, "if cu_seqlens:", "cu_seqlens = cu_seqlens[:-1]"),
    "3,000 elifs": HEAD + "    if lens:\n        pass\n" + "    elif lens == 1:\n        lens = lens[1:]\n" * 3000,
    "90 functions": nested(90, "def g{}(cu_seqlens):"),
    "18 loops": nested(18, "for a{} in lens:", "lens = lens[1:]"),
    "8 loops over displays": nested(8, "for a{} in (1, 2, 3, 4, 5, 6, 7, 8):", "lens = lens[a0:]"),
    "sum of 10,000": HEAD + f"    x = cu_seqlens{' + lens' * 10_000}\n",
    "sum of 900": HEAD + f"    x = cu_seqlens{' + lens' * 900}\n    return x\n",
    "8,000 signs": HEAD + f"    x = {'-' * 8000}cu_seqlens\n",
    "900 attributes": HEAD + f"    x = cu_seqlens{'.x' * 900}\n",
    "200 assignments": HEAD + "    x = lens\n" + "    x = x + lens\n" * 200 + "    return g(x, cu_seqlens=x)\n",
    "a line of a megabyte": HEAD + f"    x = '{'cu_seqlens ' * 100_000}'\n",
    "a list of 5,000": HEAD + f"    x = [{'cu_seqlens[1:], ' * 5000}]\n",
    "a large number": HEAD + f"    x = cu_seqlens + {'9' * 4000} * {'9' * 4000}\n",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_deep_nesting_is_refused_or_passed_over(here, text):
    (here / "a.py").write_text(text + "\n\n" + BAD)
    started = time.process_time()
    result = run("--fix", "--unsafe-fixes")
    assert time.process_time() - started < 20
    assert {code for _, _, code in findings(result)} in ({"VL001"}, {"VL101"}, set())
    try:
        compile(text, "a.py", "exec")
    except (SyntaxError, RecursionError, MemoryError):
        return
    assert {code for _, _, code in findings(run())} == {"VL101"}, "the other functions are judged"


def test_a_notebook_that_is_nested_too_deeply(here):
    (here / "a.ipynb").write_text('{"cells": ' + "[" * 100_000 + ' "cu_seqlens"')
    assert [code for _, _, code in findings(run())] == ["VL001"]


@pytest.fixture
def full_disk(monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(Path, "replace", refuse)


@pytest.fixture
def fixable(here):
    """A rule, and in a.py a finding of it that its fix mends."""
    rule, case = next((rule, case) for rule in RULES for case in rule.invalid if case.fixed and rule.status == "stable")
    (here / "a.py").write_text(case.code)
    return rule.code, case.code


def test_a_fix_is_written(here, fixable):
    code, text = fixable
    run("--fix", "--unsafe-fixes", select=code)
    assert (here / "a.py").read_text() != text


def test_a_full_disk_changes_no_file(here, fixable, full_disk):
    code, text = fixable
    result = run("--fix", "--unsafe-fixes", "--no-cache", select=code)
    assert result.exit_code == 2
    assert "a.py: cannot be written, the file is unchanged: No space left on device" in result.stderr
    assert (here / "a.py").read_text() == text
    assert sorted(path.name for path in here.iterdir()) == ["a.py", "pyproject.toml"]


def test_a_full_disk_means_no_cache(here, full_disk):
    (here / "a.py").write_text(BAD)
    os.utime(here / "a.py", (1e9, 1e9))
    first, second = run(), run()
    assert (first.exit_code, first.stderr) == (1, "")
    assert first.stdout == second.stdout
    assert not [path for path in here.rglob("*") if path.suffix in {".json", ".tmp"}]


def test_a_read_only_file_is_left(here, fixable, monkeypatch):
    code, text = fixable
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    result = run("--fix", "--unsafe-fixes", select=code)
    assert result.exit_code == 2
    assert "a.py: cannot be written, the file is unchanged: Permission denied" in result.stderr
    assert (here / "a.py").read_text() == text


def test_large_runs_parse_only_what_matters(here):
    (here / "a.py").write_text("print 'Python 2'\n\n\n" + BAD)
    for number in range(200):
        (here / f"b{number}.py").touch()
    assert {code for _, _, code in findings(run())} == {"VL101"}
    assert {code for _, _, code in findings(run("a.py", "."))} == {"VL001"}
    assert {code for _, _, code in findings(run("--no-cache", "a.py"))} == {"VL001"}
    assert {code for _, _, code in findings(run())} == {"VL101"}, "the cache keeps the two apart"


def test_runs_repeat_exactly():
    files = [str(path) for corpus in CORPORA for path in sorted((corpus / "cases").glob("*_bad.py"))[::8]]
    command = [sys.executable, "-P", "-m", "shapecheck", "lint", "--isolated", "--no-cache", "--exit-zero"]
    runs = [
        subprocess.Popen(
            [*command, "--jobs", jobs, "--output-format", "json", *files],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed, jobs in (("0", "1"), ("1", "2"), ("2", "1"))
    ]
    first, *others = [process.communicate()[0] for process in runs]
    assert len(json.loads(first)) > len(files) / 2
    assert others == [first, first]


TEXTS = [path.read_text() for corpus in CORPORA for path in sorted((corpus / "cases").glob("*.py"))]
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
GROUP = re.compile(r"\([^()\[\]{}]*\)|\[[^()\[\]{}]*\]|\{[^()\[\]{}]*\}")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TEXTS), st.integers(0, 2**32), st.sampled_from(["line", "token"]), st.integers(1, 4))
def test_no_mutation_of_a_file_makes_a_rule_raise(text, seed, unit, count):
    parts = text.splitlines(keepends=True) if unit == "line" else TOKEN.findall(text)
    chance = random.Random(seed)
    for _ in range(count):
        at, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        match chance.choice(["delete", "duplicate", "swap"]):
            case "delete" if len(parts) > 1:
                del parts[at]
            case "duplicate":
                parts.insert(at, parts[other])
            case _:
                parts[at], parts[other] = parts[other], parts[at]
    changed = "".join(parts)
    rows = changed.count("\n") + 1
    for whole in (True, False):
        for finding in check(changed, "a.py", RULES, CATALOGUE, whole=whole, explain=True).findings:
            assert 1 <= finding.span.start.row <= finding.span.end.row <= rows


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TEXTS), st.integers(0, 2**32), st.sampled_from(["", "()", "*x", "0", "None, None", "[]", "-1"]))
def test_no_other_arguments_or_items_make_a_rule_raise(text, seed, inner):
    groups = list(GROUP.finditer(text))
    chance = random.Random(seed)
    for group in sorted(chance.sample(groups, min(4, len(groups))), key=lambda group: -group.start()):
        text = f"{text[: group.start() + 1]}{inner}{text[group.end() - 1 :]}"
    check(text, "a.py", RULES, CATALOGUE, explain=True)
