import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from shapecheck import LayoutError, Part


def test_part_defaults():
    part = Part("video", (16, 22, 40))
    assert (part.name, part.size, part.kind, part.tag, part.rows) == ("video", (16, 22, 40), "video", None, 14080)


@pytest.mark.parametrize(
    ("size", "stored", "rows"),
    [
        (77, 77, 77),
        (0, 0, 0),
        (np.int64(5), 5, 5),
        ([2, 3], (2, 3), 6),
        ((np.int32(2), 0, 4), (2, 0, 4), 0),
        ((7,), (7,), 7),
        ((1, 2, 3, 4, 5), (1, 2, 3, 4, 5), 120),
    ],
)
def test_sizes(size, stored, rows):
    part = Part("a", size)
    assert part.size == stored
    assert part.rows == rows
    assert type(part.rows) is int


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (-3, "part 'a': the size is -3, expected 0 or more rows"),
        (2.0, "part 'a': the size is 2.0 (float), expected an integer"),
        (True, "part 'a': the size is True (bool), expected an integer"),
        (np.bool_(True), "part 'a': the size is np.True_ (bool), expected an integer"),
        ("7", "part 'a': the size is '7' (str), expected an integer"),
        (None, "part 'a': the size is None (NoneType), expected an integer"),
        ((2, -1), "part 'a': axis 1 of the grid (2, -1) is -1, expected 0 or more rows"),
        ((2, 1.5), "part 'a': axis 1 of the grid (2, 1.5) is 1.5 (float), expected an integer"),
        ((), "part 'a': the grid has no axes, expected rows or a grid such as (t, h, w)"),
    ],
)
def test_bad_sizes(size, message):
    with pytest.raises(LayoutError) as error:
        Part("a", size)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", 1), "a part is named '', expected a non-empty string"),
        ((3, 1), "a part is named 3, expected a non-empty string"),
        (("a", 1, ""), "part 'a': kind is '', expected a non-empty string or None"),
        (("a", 1, 5), "part 'a': kind is 5, expected a non-empty string or None"),
        (("a", 1, None, 1.5), "part 'a': tag is 1.5 (float), expected an integer"),
        (("a", 1, None, 2**63), "part 'a': tag is 9223372036854775808, which does not fit int64"),
        (
            ("padding", 1),
            "a part is named 'padding', the name of the rows that a layout appends by itself\n"
            "  fix: leave it out and pass align= or seq_len=, or choose another name",
        ),
    ],
)
def test_bad_parts(arguments, message):
    with pytest.raises(LayoutError) as error:
        Part(*arguments)
    assert str(error.value) == message


def test_part_is_a_value():
    part = Part("ref", (2, 3), kind="video", tag=0)
    assert part == Part("ref", [2, 3], "video", 0)
    assert hash(part) == hash(Part("ref", (2, 3), "video", 0))
    assert part != Part("ref", 6, "video", 0)
    assert pickle.loads(pickle.dumps(part)) == copy.deepcopy(part) == part
    assert pickle.loads(pickle.dumps(part)).rows == 6
    with pytest.raises(FrozenInstanceError):
        part.name = "other"
