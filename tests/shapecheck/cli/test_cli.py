import subprocess
import sys

import pytest
from click.testing import CliRunner

from shapecheck._cli import main


def run(*arguments, **environment):
    return CliRunner().invoke(main, arguments, env={"FORCE_COLOR": None, "SHAPECHECK": None, **environment})


def test_help_has_examples():
    result = run("--help")
    assert result.exit_code == 0
    assert "shapecheck layout --part text=77 --part video=16x22x40 --part audio=126 --align 64" in result.stdout
    assert "  doctor   Show versions, devices, attention kernels and checks." in result.stdout
    assert "  layout   Draw a packed layout to scale." in result.stdout


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("shapecheck ")


def test_unknown_command():
    result = run("layuot")
    assert result.exit_code == 2
    assert "No such command 'layuot'" in result.stderr


def test_module_runs_without_torch_and_quickly_imported():
    code = (
        "import sys; from shapecheck._cli import main\n"
        "try: main(['layout', '--part', 'text=77', '--part', 'video=16x22x40', '--align', '64'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not {'torch', 'jaxtyping', 'beartype', 'rich'} & set(sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("14,208 rows = 14,157 used + 51 padding")


def test_python_dash_m():
    result = subprocess.run(
        [sys.executable, "-m", "shapecheck", "layout", "--part", "a=-1"], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "Error: part 'a': the size is -1, expected 0 or more rows\n"


@pytest.mark.parametrize("name", ["layout", "doctor"])
def test_commands_have_help(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: main {name}")
