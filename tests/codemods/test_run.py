import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shapecheck.codemods import check as check_module
from shapecheck.codemods import linter, progress, rules, selection
from shapecheck.codemods.cache import Cache
from shapecheck.codemods.check import Checked
from shapecheck.codemods.config import ConfigError, Resolver
from shapecheck.codemods.discover import Discovery
from shapecheck.codemods.findings import Finding, Fix, Note, Position, Replace, Silence, Span
from shapecheck.codemods.patterns import PatternError
from shapecheck.codemods.rule import Rule
from shapecheck.codemods.run import Options, Runner
from shapecheck.codemods.selection import Layer

RULES = (Rule("VL101", "bad-call", "stable", "", None), Rule("VL102", "worse-call", "preview", "", None))
BAD = "import torch\n\ncu_seqlens = bad(x)\n"


def stand_in(text, path, rules, catalogue, contracts, **options):
    """Finds `bad` (VL101) and `worse` (VL102), which want to be `good`; cannot judge `unknown`."""
    found, silences = [], []
    codes = {rule.code: rule for rule in rules}
    for row, line in enumerate(text.split("\n"), 1):
        for match in re.finditer(r"\b(bad|worse|unknown|crash|deep)\b(?=\()", line):
            span = Span(Position(row, match.start() + 1), Position(row, match.end() + 1))
            if match[1] == "crash":
                raise KeyError("oops")
            if match[1] == "deep":
                raise RecursionError
            if match[1] == "unknown":
                silences.append(Silence(path, span, "unknown", "x", "made elsewhere"))
            elif rule := codes.get("VL101" if match[1] == "bad" else "VL102"):
                note = Note(Span(Position(1, 1), Position(1, 7)), "made here")
                fix = Fix("use good", match[1] == "bad", (Replace(span, "good"),))
                found.append(Finding(path, span, rule.code, rule.name, f"{match[1]} call", (note,), fix))
    return Checked(tuple(found), tuple(silences))


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    codes = {"VL001": "invalid-syntax", "VL901": "unused-suppression", **{rule.code: rule.name for rule in RULES}}
    for module in (selection, linter):
        monkeypatch.setattr(module, "known_codes", lambda: codes)
    monkeypatch.setattr(rules, "all_rules", lambda: RULES)
    monkeypatch.setattr(check_module, "check", stand_in)
    return tmp_path


def write(root, **files):
    """Old enough for the cache."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_nb", ".ipynb").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(path, ns=(10**18, 10**18))


def lint(root, *, cache=None, **options):
    resolver = Resolver(root)
    files = Discovery(resolver.of_folder, False, print).files([str(root)])
    return Runner(resolver, Options(**options), cache).run(files)


def places(result):
    return [f"{found.path}:{found.cell or ''}:{found.span.start.row} {found.code}" for found in result.findings]


def test_files_are_screened_checked_and_sorted(project):
    write(project, b_py=BAD, a__c_py=BAD + "cu_seqlens = bad(x)\n", a__d_py="bad(x)\n", e_py="cu_seqlens = good(x)\n")
    result = lint(project)
    assert places(result) == ["a/c.py::3 VL101", "a/c.py::4 VL101", "b.py::3 VL101"]
    assert result.errors == []


def test_suppressions_selection_and_per_file_ignores(project):
    (project / "shapecheck.toml").write_text(
        'extend-select = ["VL102"]\nper-file-ignores = { "tests/" = ["VL1"], "/c.py" = ["worse-call"] }\n'
    )
    text = BAD + "worse(cu_seqlens)\nbad(x)  # noqa: VL101\n"
    write(project, a_py=text, c_py=text, tests__t_py=text)
    assert places(lint(project)) == ["a.py::3 VL101", "a.py::4 VL102", "c.py::3 VL101"]
    assert places(lint(project, layer=Layer(ignore=("VL101",)))) == ["a.py::4 VL102"]
    (project / "shapecheck.toml").unlink()
    assert places(lint(project, preview=True, layer=Layer(("VL1",)))) == [
        f"{path}::{at}" for path in ("a.py", "c.py", "tests/t.py") for at in ("3 VL101", "4 VL102")
    ]


def test_unused_suppressions_also_in_files_without_packed_metadata(project):
    write(
        project,
        a_py="x = 1  # noqa: VL101, VL102\n",
        b_py="x = 1  # shapecheck: ignore[bad-call]\n",
        c_py="y = 1  # noqa: E501\n",
    )
    assert places(lint(project)) == []
    assert places(lint(project, layer=Layer(extend=("VL901",)))) == ["a.py::1 VL901", "b.py::1 VL901"]
    write(project, d_py=b"cu_seqlens = '\xff'  # noqa: VL101\n")
    (found, _, unread) = lint(project, layer=Layer(extend=("VL901",))).findings
    assert "VL101 is not reported" in found.message
    assert "VL102" not in found.message
    assert unread.code == "VL001"


def test_what_cannot_be_read_as_source_is_a_finding(project):
    write(
        project,
        a_py=b"cu_seqlens = '\xff'\n",
        b_py=b"cu_seqlens\0",
        c_nb=b"{cu_seqlens",
        d_py="cu_seqlens = deep(x)\n",
        e_py=b"\0",
    )
    result = lint(project)
    assert places(result) == [f"{name}::1 VL001" for name in ("a.py", "b.py", "c.ipynb", "d.py", "e.py")]
    assert result.findings[3].message == "nested too deeply to be read"
    assert places(lint(project, layer=Layer(("VL101",)))) == places(result)
    assert places(lint(project, layer=Layer(ignore=("VL001",)))) == []


def test_an_internal_error_names_the_file_and_the_rest_is_linted(project):
    write(project, a_py=BAD, b_py="cu_seqlens = crash(x)\n", c_py=BAD)
    result = lint(project)
    assert places(result) == ["a.py::3 VL101", "c.py::3 VL101"]
    (error,) = result.errors
    assert re.fullmatch(r"internal error in b.py: KeyError: 'oops' \(test_run.py:\d+\); please report", error)


def test_files_that_vanish_or_cannot_be_read(project, monkeypatch):
    write(project, a_py=BAD)
    result = Runner(Resolver(project), Options()).run([str(project / "a.py"), str(project / "gone.py")])
    assert places(result) == ["a.py::3 VL101"]
    assert result.errors == ["gone.py: cannot be read: No such file or directory"]


def test_wrong_settings_and_catalogue_entries(project):
    write(project, a_py=BAD)
    (project / "shapecheck.toml").write_text('sinks = [{ callee = "attend", unknown = 1 }]\n')
    with pytest.raises(ConfigError, match=r"shapecheck.toml: .*unknown"):
        lint(project)
    (project / "shapecheck.toml").write_text('per-file-ignores = { "!" = ["VL1"] }\n')
    with pytest.raises(PatternError, match="a pattern of"):
        lint(project)


def test_names_of_the_settings_pass_the_screen(project):
    write(project, a_py="offsets_of_docs = bad(x)\n", b_py="my_attend(bad(x))\n", c_py="bad(x)\n")
    assert places(lint(project)) == []
    (project / "shapecheck.toml").write_text(
        'sinks = [{ callee = "my_attend" }]\nnames = { bounds = ["offsets_of_*"] }\n'
    )
    assert places(lint(project)) == ["a.py::1 VL101", "b.py::1 VL101"]


def test_silences(project):
    write(project, a_py="cu_seqlens = unknown(x)\n")
    (silence,) = lint(project, silences=True).silences
    assert (silence.path, silence.callee, silence.reason) == ("a.py", "unknown", "made elsewhere")


def book(*cells):
    code = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": cell} for cell in cells
    ]
    return json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def test_notebooks(project):
    write(project, n_nb=book("import torch", "%time\n\ncu_seqlens = bad(x)", "worse(x)\nbad(y)  # noqa"))
    (found,) = lint(project).findings
    assert (found.cell, found.span.start) == (2, Position(3, 14))
    assert found.notes[0].message == "cell 1: made here"
    assert found.fix.edits[0].span == found.span
    result = lint(project, mode="fix")
    assert (result.findings, result.applied) == ([], 1)
    fixed = book("import torch", "%time\n\ncu_seqlens = good(x)", "worse(x)\nbad(y)  # noqa")
    assert (project / "n.ipynb").read_text() == fixed


def test_fix_applies_safe_fixes_and_keeps_bytes(project):
    (project / "shapecheck.toml").write_text('extend-select = ["VL102"]\n')
    text = b"\xef\xbb\xbfcu_seqlens = bad(x)\r\nworse(y)\nbad(z)  # noqa: VL101\r\n\x0c\nbad(y)"
    write(project, a_py=text, b_py="cu_seqlens = good(x)\n")
    result = lint(project, mode="fix")
    assert (places(result), result.applied) == (["a.py::2 VL102"], 2)
    fixed = b"\xef\xbb\xbfcu_seqlens = good(x)\r\nworse(y)\nbad(z)  # noqa: VL101\r\n\x0c\ngood(y)"
    assert (project / "a.py").read_bytes() == fixed
    assert (project / "b.py").stat().st_mtime_ns == 10**18
    result = lint(project, mode="fix", unsafe=True)
    assert (places(result), result.applied) == ([], 1)
    assert (project / "a.py").read_bytes() == fixed.replace(b"worse", b"good")


def test_diff_changes_nothing(project):
    write(project, b_py=BAD, a_py=BAD)
    result = lint(project, mode="diff")
    assert [diff.splitlines()[0] for diff in result.diffs] == ["--- a.py", "--- b.py"]
    assert "-cu_seqlens = bad(x)\n+cu_seqlens = good(x)\n" in result.diffs[0]
    assert result.applied == 2
    assert (project / "a.py").read_text() == BAD


def test_add_noqa(project):
    write(project, a_py=BAD, n_nb=book("cu_seqlens = [\n  bad(x)]", "y"))
    result = lint(project, mode="add-noqa")
    assert (result.findings, result.applied) == ([], 2)
    assert (project / "a.py").read_text() == BAD.replace("(x)", "(x)  # noqa: VL101")
    assert (project / "n.ipynb").read_text() == book("cu_seqlens = [\n  bad(x)]  # noqa: VL101", "y")


def test_a_file_that_cannot_be_written_stays(project, monkeypatch):
    write(project, a_py=BAD, b_py=BAD)
    replace = Path.replace

    def failing(self, target):
        if str(target).endswith("a.py"):
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    result = lint(project, mode="fix")
    assert result.errors == ["a.py: cannot be written, the file is unchanged: No space left on device"]
    assert (project / "a.py").read_text() == BAD
    assert (project / "b.py").read_text() == BAD.replace("bad", "good")
    assert sorted(os.listdir(project)) == ["a.py", "b.py"]


@pytest.fixture
def opened(monkeypatch):
    """The Python files that were read."""
    names = []
    real = open

    def spy(file, *arguments, **options):
        if str(file).endswith((".py", ".ipynb")) and "codemods" not in str(file):
            names.append(os.path.basename(file))
        return real(file, *arguments, **options)

    monkeypatch.setattr("builtins.open", spy)
    return names


def test_a_warm_run_reads_no_source(project, opened):
    write(project, a_py=BAD, b_py="x = 1\n", n_nb=book("cu_seqlens = bad(x)"))
    cold = lint(project, cache=Cache(project / ".cache"))
    assert opened
    opened.clear()
    assert lint(project, cache=Cache(project / ".cache")) == cold
    assert opened == []
    write(project, b_py="cu_seqlens = bad(x)\n")
    assert places(lint(project, cache=Cache(project / ".cache"))) == [
        "a.py::3 VL101",
        "b.py::1 VL101",
        "n.ipynb:1:1 VL101",
    ]
    assert set(opened) == {"b.py"}


def test_the_cache_heeds_settings_selection_and_current_folder(project, monkeypatch):
    write(project, sub__a_py=BAD + "worse(x)\n")

    def run(**options):
        return places(lint(project, cache=Cache(project / ".cache"), **options))

    assert run() == ["sub/a.py::3 VL101"]
    assert run(layer=Layer(("VL102",))) == ["sub/a.py::4 VL102"]
    assert run(layer=Layer(("VL1",)), preview=True) == ["sub/a.py::3 VL101", "sub/a.py::4 VL102"]
    assert run() == ["sub/a.py::3 VL101"]
    (project / "shapecheck.toml").write_text('ignore = ["VL101"]\n')
    assert run() == []
    (project / "shapecheck.toml").unlink()
    monkeypatch.chdir(project / "sub")
    assert run() == ["a.py::3 VL101"]


def test_the_cache_hides_neither_errors_nor_fixes_nor_silences(project):
    write(project, a_py=BAD, b_py="cu_seqlens = crash(x)\n", c_py="cu_seqlens = unknown(x)\n")
    for _ in range(2):
        result = lint(project, cache=Cache(project / ".cache"))
        assert (len(result.errors), len(result.findings)) == (1, 1)
    assert len(lint(project, cache=Cache(project / ".cache"), silences=True).silences) == 1
    assert lint(project, cache=Cache(project / ".cache"), mode="diff").applied == 1
    assert lint(project, cache=Cache(project / ".cache"), mode="fix").applied == 1
    assert places(lint(project, cache=Cache(project / ".cache"))) == []


def test_text_that_is_not_on_disk(project):
    (project / "shapecheck.toml").write_text('per-file-ignores = { "t.py" = ["VL1"] }\n')
    runner = Runner(Resolver(project), Options(mode="fix"))
    result, data = runner.run_text(BAD.encode(), str(project / "a.py"), "a.py")
    assert (result.applied, data) == (1, BAD.replace("bad", "good").encode())
    assert runner.run_text(BAD.encode(), str(project / "t.py"), "t.py")[1] == BAD.encode()
    assert runner.run_text(b"bad(x)", str(project / "a.py"), "a.py")[1] == b"bad(x)"
    assert list(project.glob("*.py")) == []


def test_progress(project):
    write(project, a_py=BAD, b_py="x = 1\n", c_py=BAD)
    calls = []
    files = [str(project / name) for name in ("a.py", "b.py", "c.py")]
    Runner(Resolver(project), Options()).run(files, lambda *numbers: calls.append(numbers))
    assert calls == [(2, 3), (3, 3)]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("after", "shown"), [(-1.0, True), (60.0, False)])
def test_the_progress_bar_shows_in_long_runs_only(monkeypatch, after, shown):
    monkeypatch.setattr(progress, "_AFTER_S", after)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.Progress() as bar:
        bar(1, 4)
        bar(2, 4)
    assert ("Linting" in sys.stderr.getvalue()) == shown


def test_there_is_no_progress_bar_without_a_terminal(monkeypatch):
    monkeypatch.setattr(progress, "_AFTER_S", -1.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.Progress() as bar:
        bar(1, 4)
    assert sys.stderr.getvalue() == ""


# Below: the real checker, since other processes know no stand-in.


def test_jobs_change_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(7):
        write(tmp_path, **{f"f{number}_py": "cu_seqlens = (\n" * (number % 3), f"g{number}_py": "cu_seqlens = 1\n"})
    one = lint(tmp_path, jobs=1)
    assert len(one.findings) == 4
    assert lint(tmp_path, jobs=2) == one


def test_a_worker_that_dies_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, a_py="cu_seqlens = 1\n", b_py="cu_seqlens = 1\n")
    kill = "import os, shapecheck.codemods.linter as linter\nlinter.Linter.lint = lambda *a, **b: os._exit(1)\n"
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(kill)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), *sys.path]))
    result = Runner(Resolver(tmp_path), Options(jobs=2)).run([str(tmp_path / "a.py"), str(tmp_path / "b.py")])
    (error,) = result.errors
    assert error == "a worker process died (out of memory?), 2 files are not linted; --jobs 1 shows at which one"


def test_hash_seeds_change_nothing(tmp_path):
    for number in range(5):
        write(tmp_path, **{f"f{number}_py": "cu_seqlens = (\n"})
    outputs = {
        subprocess.run(
            [sys.executable, "-P", "-m", "shapecheck", "lint", "--no-cache", "--output-format", "json", "."],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    (output,) = outputs
    assert [found["filename"] for found in json.loads(output)] == [f"f{number}.py" for number in range(5)]
