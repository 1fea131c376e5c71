import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

from shapecheck import LayoutError, Part
from shapecheck._layout import Geometry, Span

REQUEST = {"text": 77, "video": (16, 22, 40), "audio": 126}


def message(call, *arguments, **options):
    with pytest.raises(LayoutError) as error:
        call(*arguments, **options)
    return str(error.value)


def test_one_sample():
    geometry = Geometry.pack(REQUEST, align=64)
    assert geometry.lengths == (14283,)
    assert geometry.used == geometry.max_seqlen == 14283
    assert geometry.seq_len == 14336
    assert geometry.cu_seqlens == (0, 14283, 14336)
    assert geometry.names == geometry.kinds == ("text", "video", "audio")


def test_several_samples_as_mappings_and_parts():
    geometry = Geometry.pack([{"text": 3}, [Part("text", 2), Part("ref", 4, kind="video")], {"text": 0}], align=8)
    assert geometry.lengths == (3, 6, 0)
    assert geometry.cu_seqlens == (0, 3, 9, 9, 16)
    assert geometry.names == ("text", "ref")
    assert geometry.kinds == ("text", "video")


def test_a_list_of_parts_is_one_sample():
    assert Geometry.pack([Part("a", 1), Part("b", 2)]).lengths == (3,)
    assert Geometry.pack([[Part("a", 1)], [Part("b", 2)]]).lengths == (1, 2)


def test_padding_segment_is_appended_even_when_empty():
    assert Geometry.pack({"a": 64}, align=64).cu_seqlens == (0, 64, 64)


def test_without_padding_segment_boundaries_end_at_used():
    geometry = Geometry.pack({"a": 5}, align=4, padding="none")
    assert geometry.cu_seqlens == (0, 5)
    assert geometry.seq_len == 8


def test_explicit_seq_len():
    assert Geometry.pack({"a": 5}, seq_len=5).seq_len == 5
    assert Geometry.pack({"a": 5}, seq_len=np.int64(12), align=4).seq_len == 12


def test_nothing_but_empty_parts():
    geometry = Geometry.pack([{"a": 0}, {"a": 0}], align=64)
    assert (geometry.seq_len, geometry.max_seqlen, geometry.cu_seqlens) == (0, 0, (0, 0, 0, 0))


def test_from_lengths():
    geometry = Geometry.from_lengths([3, 5])
    assert geometry.cu_seqlens == (0, 3, 8)
    assert geometry.samples == ((Part("tokens", 3, tag=0),), (Part("tokens", 5, tag=0),))
    assert Geometry.from_lengths((n for n in (3, 5)), padding="segment", align=16).cu_seqlens == (0, 3, 8, 16)
    assert Geometry.from_lengths(np.array([3, 5])) == geometry


def test_spans_cover_the_row():
    geometry = Geometry.pack([{"a": 2, "b": (2, 2)}, {"a": 0}], align=8, tags={"a": 4, "b": 5})
    assert geometry.spans() == [
        Span("a", 0, 2, "a", 4, 0, 2),
        Span("b", 2, 6, "b", 5, 0, (2, 2)),
        Span("a", 6, 6, "a", 4, 1, 0),
        Span("padding", 6, 8, "padding", -1, None, None),
    ]
    assert Geometry.pack({"a": 8}, align=8).spans() == [Span("a", 0, 8, "a", 0, 0, 8)]


def test_tags_go_by_part_then_name_then_kind():
    sample = [Part("a", 1, "k", tag=7), Part("b", 1, "k"), Part("c", 1, "k")]
    geometry = Geometry.pack(sample, tags={"a": 1, "b": 2, "k": 3, "absent": 9})
    assert [part.tag for part in geometry.samples[0]] == [7, 2, 3]


def test_tags_without_any():
    assert Geometry.pack([Part("a", 1, "k"), Part("b", 1, "k")]).samples[0][1].tag == 0
    assert not Geometry.pack({"a": 1, "b": 1}).tagged
    assert not Geometry.pack({"a": 1, "b": 1}, tags={}).tagged


def test_a_part_without_a_tag():
    assert message(Geometry.pack, {"text": 3, "video": 4}, tags={"text": 1}) == (
        "part 'video' has no tag, and others have\n"
        "  tags names 'text'\n"
        "  fix: add the part's name or kind to tags, or give the Part a tag"
    )
    assert message(Geometry.pack, [Part("a", 3, tag=1), Part("b", 2, "k")]) == (
        "part 'b' (kind 'k') has no tag, and others have\n"
        "  tags names nothing\n"
        "  fix: add the part's name or kind to tags, or give the Part a tag"
    )


def test_seq_len_below_used():
    assert message(Geometry.pack, REQUEST, align=64, seq_len=14080) == (
        "seq_len is 14080, but the parts need 14283 rows\n"
        "  text 77 + video 14080 + audio 126 = 14283\n"
        "  seq_len would be derived as 14336, the rows used rounded up to a multiple of 64\n"
        "  fix: leave seq_len out, or compute it again whenever the parts change"
    )


def test_seq_len_sum_adds_up_names_and_stays_short():
    samples = [{"a": 3, "b": 1}, {"a": 4}]
    assert "\n  a 7 + b 1 = 8\n" in message(Geometry.pack, samples, seq_len=1)
    many = {f"p{i}": i for i in range(20)}
    line = "\n  p0 0 + p1 1 + p2 2 + p3 3 + p4 4 + p5 5 + p6 6 + 13 more 169 = 190\n"
    assert line in message(Geometry.pack, many, seq_len=1)


def test_seq_len_off_the_alignment():
    assert message(Geometry.pack, REQUEST, align=64, seq_len=14300) == (
        "seq_len is 14300, expected a multiple of align=64\n"
        "  seq_len would be derived as 14336, the rows used rounded up to a multiple of 64\n"
        "  fix: leave seq_len out, or round it up"
    )


def test_totals_beyond_int32():
    text = (
        "the layout has 2147483648 rows, more than int32 boundaries can count (2147483647)\n"
        "  a 1073741824 + b 1073741824 = 2147483648\n"
        "  fix: pack fewer samples into one row"
    )
    assert message(Geometry.pack, {"a": 2**30, "b": 2**30}) == text
    assert Geometry.pack({"a": 2**31 - 1}).seq_len == 2**31 - 1
    assert "the layout has 2147483648 rows" in message(Geometry.pack, {"a": 2**31 - 1}, align=2)
    assert "the layout has 4294967296 rows" in message(Geometry.pack, {"a": 1}, seq_len=2**32)


@pytest.mark.parametrize(
    ("samples", "options", "text"),
    [
        ([], {}, "there are no samples, expected at least one"),
        ({}, {}, "sample 0 has no parts, expected at least one (it may have 0 rows)"),
        ([{"a": 1}, {}], {}, "sample 1 has no parts, expected at least one (it may have 0 rows)"),
        ([{"a": 1}, []], {}, "sample 1 has no parts, expected at least one (it may have 0 rows)"),
        (
            [3, 5],
            {},
            "sample 0 is a int, expected a mapping of part name -> size or a sequence of Part\n"
            "  fix: for a list of lengths use PackedLayout.from_lengths",
        ),
        (
            7,
            {},
            "samples is a int, expected a mapping of part name -> size, a sequence of Part, or a list of those",
        ),
        (
            "ab",
            {},
            "samples is a str, expected a mapping of part name -> size, a sequence of Part, or a list of those",
        ),
        ([[Part("a", 1), ("b", 2)]], {}, "sample 0 holds a tuple, expected Part(name, size)"),
        ({"a": -1}, {}, "part 'a': the size is -1, expected 0 or more rows"),
        ({"a": 1}, {"align": 0}, "align is 0, expected 1 or more"),
        ({"a": 1}, {"align": 2.0}, "align is 2.0 (float), expected an integer"),
        ({"a": 1}, {"align": True}, "align is True (bool), expected an integer"),
        ({"a": 1}, {"seq_len": 4.0}, "seq_len is 4.0 (float), expected an integer"),
        ({"a": 1}, {"padding": "tail"}, "padding is 'tail', expected 'segment' or 'none'"),
        ({"a": 1}, {"pad_tag": None}, "pad_tag is None (NoneType), expected an integer"),
        ({"a": 1}, {"tags": {"a": "x"}}, "tags['a'] is 'x' (str), expected an integer"),
    ],
)
def test_bad_descriptions(samples, options, text):
    assert message(Geometry.pack, samples, **options) == text


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ([], "lengths is empty, expected at least one sequence"),
        ([3, -1], "lengths[1] is -1, expected 0 or more rows"),
        ([3, 5.0], "lengths[1] is 5.0 (float), expected an integer"),
        ([1, True], "lengths[1] is True (bool), expected an integer"),
    ],
)
def test_bad_lengths(lengths, text):
    assert message(Geometry.from_lengths, lengths) == text


def test_geometry_is_a_value():
    geometry = Geometry.pack(REQUEST, align=64)
    same = Geometry.pack(dict(REQUEST), align=64)
    assert geometry == same
    assert hash(geometry) == hash(same)
    assert geometry != Geometry.pack(REQUEST, align=32)
    assert geometry != Geometry.pack(REQUEST, align=64, padding="none")
    assert geometry != Geometry.pack(REQUEST, align=64, tags=dict.fromkeys(REQUEST, 0))
    assert geometry != 3
    assert pickle.loads(pickle.dumps(geometry)) == geometry
    assert copy.deepcopy(geometry) is copy.copy(geometry) is geometry
    assert repr(geometry) == (
        "Geometry(text 77 + video 14080 + audio 126 = 14283, seq_len 14336, align 64, padding 'segment')"
    )


def test_the_order_of_parts_is_content():
    assert Geometry.pack({"a": 1, "b": 2}) != Geometry.pack({"b": 2, "a": 1})


def test_geometry_needs_no_torch():
    code = (
        "import sys; from shapecheck._layout import Geometry; from shapecheck import Part\n"
        "from shapecheck._draw import plain; plain(Geometry.pack({'a': 3}))\n"
        "assert not {'torch', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
