import pytest
from click.testing import CliRunner

from shapecheck._cli import main
from shapecheck._draw import plain
from shapecheck._layout import Geometry


def run(*arguments):
    return CliRunner().invoke(main, ["layout", *arguments], env={"FORCE_COLOR": None})


@pytest.mark.parametrize(
    ("arguments", "geometry"),
    [
        (
            ["--part", "text=77", "--part", "video=16x22x40", "--part", "audio=126", "--align", "64"],
            Geometry.pack({"text": 77, "video": (16, 22, 40), "audio": 126}, align=64),
        ),
        (["--lengths", "5,3,8", "--align", "16"], Geometry.from_lengths([5, 3, 8], align=16)),
        (["--lengths", "5, 3", "--padding", "segment"], Geometry.from_lengths([5, 3], padding="segment")),
        (["--lengths", "5", "--tag", "tokens=4"], Geometry.from_lengths([5], tags={"tokens": 4})),
    ],
)
def test_draws(arguments, geometry):
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == plain(geometry) + "\n"


def test_tags_and_repeated_parts():
    parts = ["--part", "text=77", "--part", "ref=4", "--part", "ref=2x2"]
    result = run(*parts, "--seq-len", "90", "--tag", "text=1", "--tag", "ref=-2")
    assert result.exit_code == 0
    assert result.stdout.split("\n")[3:] == [
        "  t text          77 rows  [0, 77)   tag 1",
        "  r ref            4 rows  [77, 81)  tag -2",
        "  r ref      2x2   4 rows  [81, 85)  tag -2",
        "  . padding        5 rows  [85, 90)  tag -1",
        "",
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["--part", "text=77", "--part", "video=512", "--seq-len", "512"],
            "Error: seq_len is 512, but the parts need 589 rows\n"
            "  text 77 + video 512 = 589\n"
            "  seq_len would be derived as 589, the rows used rounded up to a multiple of 1\n"
            "  fix: leave seq_len out, or compute it again whenever the parts change\n",
        ),
        (["--part", "text=-7"], "Error: part 'text': the size is -7, expected 0 or more rows\n"),
        (["--lengths", "5,-3"], "Error: lengths[1] is -3, expected 0 or more rows\n"),
        (["--part", "a=3", "--align", "0"], "Error: align is 0, expected 1 or more\n"),
    ],
)
def test_layout_errors(arguments, error):
    result = run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", error)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "Error: Pass either --part, once or more, or --lengths."),
        (["--part", "a=1", "--lengths", "3"], "Error: Pass either --part, once or more, or --lengths."),
        (["--part", "text"], "'text' is not NAME=SIZE, such as text=77 or video=16x22x40."),
        (["--part", "=3"], "'=3' is not NAME=SIZE, such as text=77 or video=16x22x40."),
        (["--part", "a=3x"], "'a=3x' is not NAME=SIZE, such as text=77 or video=16x22x40."),
        (["--part", "a=3", "--tag", "a=x"], "'a=x' is not NAME=TAG, such as text=1."),
        (["--part", "a=3", "--tag", "7"], "'7' is not NAME=TAG, such as text=1."),
        (["--lengths", "3,,4"], "'3,,4' is not a list of lengths, such as 5,3,8."),
        (["--part", "a=3", "--padding", "tail"], "'tail' is not one of 'segment', 'none'."),
        (["--part", "a=3", "--align", "x"], "'x' is not a valid integer."),
    ],
)
def test_usage_errors(arguments, error):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert error in result.stderr
    assert "Traceback" not in result.stderr
