import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from shapecheck.codemods.rules import all_rules

from shapecheck._cli.rule import command


def run(*arguments):
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize("name", ["VL103", "vl103", "missing-leading-zero", "Missing-Leading-Zero"])
def test_explains(name):
    result = run(name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("# missing-leading-zero (VL103)\n\nStable: on by default.")
    assert "\n## Why is this bad?\n" in result.stdout
    assert "\x1b" not in result.stdout


def test_json():
    result = run("VL103", "--output-format", "json")
    assert result.exit_code == 0
    rule = json.loads(result.stdout)
    assert list(rule) == ["code", "name", "status", "summary", "doc", "fixable", "url"]
    assert (rule["code"], rule["name"], rule["status"]) == ("VL103", "missing-leading-zero", "stable")
    assert rule["url"] == "docs/rules/missing-leading-zero.md"


def test_all():
    result = run("--all", "--output-format", "json")
    assert [rule["code"] for rule in json.loads(result.stdout)] == [rule.code for rule in all_rules()]
    text = run("--all").stdout
    assert all(f"# {rule.name} ({rule.code})" in text for rule in all_rules())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("VLL103", "did you mean VL103?"),
        ("missing-leading-zeros", "did you mean missing-leading-zero?"),
        ("xyzzy", "`shapecheck rule --all` shows all of them."),
    ],
)
def test_unknown_rule(name, hint):
    result = run(name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"Error: There is no rule {name!r}; {hint}\n")


@pytest.mark.parametrize("arguments", [(), ("VL103", "--all")])
def test_one_rule_or_all(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Pass either a rule's code or name, or --all." in result.stderr


def test_piped_text_imports_no_rich():
    code = (
        "import sys; from shapecheck._cli.rule import command\n"
        "command(['VL103'], standalone_mode=False)\n"
        "assert 'rich' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("# missing-leading-zero")


def test_a_terminal_gets_rendered_markdown(monkeypatch):
    class Terminal:
        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    command(["VL103"], standalone_mode=False)
    assert "missing-leading-zero (VL103)" in terminal.text
    assert "```" not in terminal.text
