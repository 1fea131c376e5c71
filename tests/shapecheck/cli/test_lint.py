import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from shapecheck.codemods import check as check_module
from shapecheck.codemods import linter, rules, selection
from shapecheck.codemods.check import Checked
from shapecheck.codemods.findings import Finding, Fix, Position, Replace, Silence, Span
from shapecheck.codemods.rule import Rule

from shapecheck._cli import main

RULES = (Rule("VL101", "bad-call", "stable", "", None), Rule("VL102", "worse-call", "preview", "", None))
BAD = "import torch\n\ncu_seqlens = bad(x)\n"
GOOD = BAD.replace("bad", "good")
LINE = "a.py:3:14: VL101 [*] bad call"


def stand_in(text, path, rules, catalogue, contracts, **options):
    """Finds `bad` (VL101, safe fix) and `worse` (VL102, unsafe fix); cannot judge `unknown`."""
    found, silences = [], []
    codes = {rule.code: rule for rule in rules}
    for row, line in enumerate(text.split("\n"), 1):
        for match in re.finditer(r"\b(bad|worse|unknown|crash)\b(?=\()", line):
            span = Span(Position(row, match.start() + 1), Position(row, match.end() + 1))
            if match[1] == "crash":
                raise KeyError("oops")
            if match[1] == "unknown":
                silences.append(Silence(path, span, "unknown", "cu_seqlens", "made elsewhere"))
            elif rule := codes.get("VL101" if match[1] == "bad" else "VL102"):
                fix = Fix("use good", match[1] == "bad", (Replace(span, "good"),))
                found.append(Finding(path, span, rule.code, rule.name, f"{match[1]} call", fix=fix))
    return Checked(tuple(found), tuple(silences))


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    codes = {"VL001": "invalid-syntax", "VL901": "unused-suppression", **{rule.code: rule.name for rule in RULES}}
    for module in (selection, linter):
        monkeypatch.setattr(module, "known_codes", lambda: codes)
    monkeypatch.setattr(rules, "all_rules", lambda: RULES)
    monkeypatch.setattr(check_module, "check", stand_in)
    (tmp_path / "a.py").write_text(BAD)
    return tmp_path


def run(*arguments, stdin=None, concise=True, **environment):
    environment = {"NO_COLOR": None, "FORCE_COLOR": None, **environment}
    flags = ["--output-format", "concise"] if concise else []
    return CliRunner().invoke(main, ["lint", *flags, *arguments], input=stdin, env=environment)


def codes(result):
    return re.findall(r"VL\d{3}", result.stdout)


def test_findings_are_printed_and_give_1(project):
    result = run()
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith(LINE)
    assert run("a.py").stdout == run(".").stdout == result.stdout
    assert "cu_seqlens = bad(x)" in run(concise=False).stdout


def test_clean_files_give_0(project):
    (project / "a.py").write_text(GOOD)
    assert run().exit_code == 0
    assert (run("-q").stdout, run("-q").exit_code) == ("", 0)
    assert json.loads(run("--output-format", "json", "-q", concise=False).stdout) == []


def test_exit_zero(project):
    result = run("--exit-zero")
    assert result.exit_code == 0
    assert LINE in result.stdout


def test_no_files(project):
    (project / "a.py").unlink()
    result = run()
    assert (result.exit_code, result.stderr) == (0, "warning: no Python files found\n")
    assert run("-q").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "Error: nowhere.py: no such file or folder\n"),
        (["--select", "VL9x"], "Invalid value for '--select': unknown rule 'VL9x'"),
        (["--ignore", "VL101,bad-cal"], "unknown rule 'bad-cal': did you mean 'bad-call'?"),
        (["--output-format", "xml"], "Invalid value for '--output-format'"),
        (["--config", "no.toml"], "Error: no.toml: cannot be read: No such file or directory\n"),
        (["--config", "a", "--isolated"], "Pass either --config or --isolated."),
        (["--unsafe-fixes"], "--unsafe-fixes needs --fix or --diff."),
        (["--fix", "--add-noqa"], "--fix and --add-noqa do not go together."),
        (["--diff", "--diff-base", "HEAD"], "--diff and --diff-base do not go together."),
        (["--stdin-filename", "a.py"], "--stdin-filename needs `-` as the path."),
        (["-", "a.py"], "`-` (stdin) goes without other paths"),
        (["-", "--add-noqa"], "`-` (stdin) goes without other paths"),
        (["-", "--diff-base", "HEAD"], "--diff-base reads what changed from the files on the disk"),
        (["--jobs", "0"], "Invalid value for '-j' / '--jobs'"),
        (["--baseline", "no.json"], "Error: no.json: cannot be read"),
        (["--diff-base", "nowhere"], "Error: --diff-base: fatal: "),
        (["--output-file", "no/report.txt"], "Error: no/report.txt: the report cannot be written: No such file"),
    ],
)
def test_wrong_usage_gives_2(project, arguments, message, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_wrong_settings_give_2(project):
    (project / "pyproject.toml").write_text("[tool.shapecheck]\nselct = []\n")
    result = run()
    assert result.exit_code == 2
    assert result.stderr == "Error: pyproject.toml: [tool.shapecheck]: unknown key 'selct': did you mean 'select'?\n"
    assert run("--isolated").exit_code == 1


def test_selection(project):
    (project / "a.py").write_text(BAD + "worse(y)\n")
    assert codes(run()) == ["VL101"]
    assert codes(run("--preview")) == ["VL101", "VL102"]
    assert codes(run("--select", "VL102")) == ["VL102"]
    assert codes(run("--select", " VL102 ,bad-call")) == ["VL101", "VL102"]
    assert codes(run("--select", "VL101", "--select", "VL102")) == ["VL101", "VL102"]
    assert codes(run("--extend-select", "VL102")) == ["VL101", "VL102"]
    assert codes(run("--ignore", "VL101")) == codes(run("--extend-ignore", "VL1")) == []
    (project / "shapecheck.toml").write_text('ignore = ["VL101"]\n')
    assert codes(run()) == []
    assert codes(run("--extend-select", "VL101")) == codes(run("--isolated")) == ["VL101"]
    (project / "other.toml").write_text("preview = true\n")
    assert codes(run("--config", "other.toml")) == ["VL101", "VL102"]


def test_settings_choose_format_and_baseline(project):
    (project / "shapecheck.toml").write_text('output-format = "json"\nbaseline = "known.json"\n')
    run("--write-baseline", "known.json")
    assert run(concise=False).stdout == "[]\n"
    assert run("--output-format", "concise").exit_code == 0


def test_fix(project):
    (project / "a.py").write_text(BAD + "worse(y)\n")
    result = run("--fix", "--select", "ALL")
    assert (codes(result), result.exit_code) == (["VL102"], 1)
    assert result.stderr == "fixed 1 finding, 1 left\n"
    assert (project / "a.py").read_text() == GOOD + "worse(y)\n"
    result = run("--fix", "--unsafe-fixes", "--select", "ALL")
    assert (codes(result), result.exit_code) == ([], 0)
    assert (project / "a.py").read_text() == GOOD + "good(y)\n"


def test_exit_non_zero_on_fix(project):
    assert run("--fix", "--exit-non-zero-on-fix", "--exit-zero").exit_code == 1
    assert run("--fix", "--exit-non-zero-on-fix").exit_code == 0


def test_diff(project):
    result = run("--diff")
    assert (result.exit_code, result.stderr) == (1, "1 finding can be fixed, 0 cannot\n")
    assert result.stdout.startswith("--- a.py\n+++ a.py\n")
    assert run("--fix", "--diff", "--exit-zero").exit_code == 0
    assert (project / "a.py").read_text() == BAD


def test_a_file_that_cannot_be_written_gives_2_and_stays(project, monkeypatch):
    def failing(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", failing)
    result = run("--fix")
    assert result.exit_code == 2
    assert "Error: a.py: cannot be written, the file is unchanged: No space left on device\n" in result.stderr
    assert (project / "a.py").read_text() == BAD


def test_an_internal_error_gives_2_and_findings_are_printed(project):
    (project / "b.py").write_text("cu_seqlens = crash(x)\n")
    result = run("--exit-zero")
    assert (result.exit_code, codes(result)) == (2, ["VL101"])
    assert "Error: internal error in b.py: KeyError: 'oops'" in result.stderr
    assert "please report" in result.stderr


def test_add_noqa(project):
    result = run("--add-noqa")
    assert (result.exit_code, result.stderr) == (0, "added 1 suppression\n")
    assert (project / "a.py").read_text() == BAD.replace("(x)", "(x)  # noqa: VL101")


def test_stdin(project):
    result = run("-", stdin=BAD)
    assert result.stdout.startswith("<stdin>:3:14: VL101")
    (project / "shapecheck.toml").write_text('per-file-ignores = { "t/*" = ["VL101"] }\nextend-exclude = ["gen.py"]\n')
    assert run("-", "--stdin-filename", "src/b.py", stdin=BAD).stdout.startswith("src/b.py:3:14: VL101")
    assert run("-", "--stdin-filename", "t/b.py", stdin=BAD).exit_code == 0
    assert run("-", "--stdin-filename", "gen.py", stdin=BAD).exit_code == 1
    assert run("-", "--stdin-filename", "gen.py", "--force-exclude", stdin=BAD).exit_code == 0
    assert "cu_seqlens = bad(x)" in run("-", stdin=BAD, concise=False).stdout


def test_stdin_with_fix_goes_to_stdout(project):
    data = b"\xef\xbb\xbf" + BAD.replace("\n", "\r\n").encode()
    result = run("-", "--fix", stdin=data)
    assert (result.exit_code, result.stdout_bytes) == (0, data.replace(b"bad", b"good"))
    assert "fixed 1 finding, 0 left" in result.stderr
    text = "cu_seqlens = worse(x)\n"
    result = run("-", "--fix", "--select", "ALL", stdin=text)
    assert (result.exit_code, result.stdout) == (1, text)
    assert "<stdin>:1:14: VL102" in result.stderr
    (project / "shapecheck.toml").write_text('extend-exclude = ["gen.py"]\n')
    arguments = ("-", "--fix", "--force-exclude", "--stdin-filename", "gen.py")
    assert run(*arguments, stdin=BAD).stdout == BAD


def test_baseline(project):
    result = run("--write-baseline", "known.json")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "wrote 1 known finding to known.json\n")
    (project / "a.py").write_text("\n\n" + BAD + "y = bad(z)\n")
    result = run("--baseline", "known.json")
    assert (result.exit_code, codes(result)) == (1, ["VL101"])
    assert "a.py:6:" in result.stdout
    (project / "a.py").write_text(GOOD)
    result = run("--baseline", "known.json")
    assert result.exit_code == 0
    assert result.stderr == "fixed: 1 entry no longer occurs, run --write-baseline known.json\n"


def test_diff_base(project, monkeypatch):
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "a.py"], [*identity, "commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], check=True)
    (project / "a.py").write_text(BAD + "y = bad(z)\n")
    result = run("--diff-base", "HEAD")
    assert (result.exit_code, codes(result)) == (1, ["VL101"])
    assert result.stdout.startswith("a.py:4:5: VL101")


def test_output_file(project):
    result = run("--output-file", "report.txt")
    assert (result.exit_code, result.stdout) == (1, "")
    assert (project / "report.txt").read_text().startswith(LINE)


def test_statistics(project):
    assert re.search(r"^1\s+VL101", run("--statistics").stdout, re.MULTILINE)


def test_explain_silence(project):
    (project / "a.py").write_text("cu_seqlens = unknown(x)\n")
    assert run("--explain-silence").stderr == "a.py:1:14: unknown(cu_seqlens): made elsewhere\n"
    assert run().stderr == ""


def test_color(project):
    assert "\x1b[" in run("--color", "always").stdout
    assert "\x1b[" in run(FORCE_COLOR="1").stdout
    for plain in (run(), run("--color", "never", FORCE_COLOR="1"), run(NO_COLOR="1", FORCE_COLOR="1")):
        assert "\x1b[" not in plain.stdout
    run("--output-file", "report.txt", FORCE_COLOR="1")
    assert "\x1b[" not in (project / "report.txt").read_text()


def test_force_exclude(project):
    (project / "shapecheck.toml").write_text('extend-exclude = ["a.py"]\n')
    assert run("a.py").exit_code == 1
    assert run("--force-exclude", "a.py").exit_code == 0


@pytest.mark.parametrize("arguments", [[], ["--cache-dir", "else"]])
def test_cache(project, arguments):
    folder = project / (arguments[1] if arguments else ".shapecheck_cache")
    os.utime(project / "a.py", ns=(10**18, 10**18))
    run("--no-cache", *arguments)
    assert not folder.exists()
    first = run(*arguments)
    assert (folder / "findings.json").exists()
    assert run(*arguments).stdout == first.stdout


def test_the_cache_lies_in_the_projects_root(project, monkeypatch):
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    run("../a.py")
    assert (project / ".shapecheck_cache").is_dir()
    assert not (project / "sub/.shapecheck_cache").exists()


def test_file_names_that_are_no_text(project):
    (project / os.fsdecode(b"\xff.py")).write_text("cu_seqlens = (\n")
    command = [sys.executable, "-P", "-m", "shapecheck", "lint", "--no-cache"]
    result = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONUTF8": "1"}, check=False)
    assert (result.returncode, result.stderr) == (1, b"")
    assert b".py:1:14: VL001" in result.stdout


def test_help_is_grouped():
    result = run("--help", concise=False)
    assert result.exit_code == 0
    titles = re.findall(r"^(\w[\w ]*):$", result.stdout, re.MULTILINE)
    assert titles == ["Rules", "Fixes", "Known findings", "Output", "Exit status", "Files and settings", "Help"]
    for option in main.get_command(None, "lint").params[1:]:
        assert option.opts[-1] in result.stdout


def test_a_file_without_packed_metadata_loads_no_heavy_module(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    code = (
        "import sys; from shapecheck._cli import main\n"
        "try: main(['lint', 'a.py'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'torch', 'jaxtyping', 'beartype', 'rich', 'libcst', 'pathspec', 'asyncio', 'multiprocessing',\n"
        "         'concurrent.futures', 'subprocess', 'tomllib', 'importlib.metadata',\n"
        "         'shapecheck.codemods.rules', 'shapecheck.codemods.check', 'shapecheck.codemods.catalogue'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
