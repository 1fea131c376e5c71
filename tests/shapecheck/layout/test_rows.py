import pytest
import torch

from shapecheck import LayoutError, PackedLayout, Part

ONE = PackedLayout.pack({"text": 2, "video": (1, 2, 2), "audio": 1}, align=8)
TWO = PackedLayout.pack([{"text": 2, "video": 3}, {"text": 1}], align=4)
BLOCKS = PackedLayout.pack([[Part("ref", 2), Part("a", 1), Part("ref", 1)], [Part("a", 2)], [Part("ref", 3)]])


def rows(*values):
    """[1, rows, 1]: every row holds its value."""
    return torch.tensor(values, dtype=torch.float32).reshape(1, -1, 1)


def flat(x):
    return x.flatten().tolist()


def message(call, *arguments, **options):
    with pytest.raises(LayoutError) as error:
        call(*arguments, **options)
    return str(error.value)


def test_cat_goes_by_the_layout_not_the_mapping():
    x = ONE.cat({"audio": rows(7), "video": rows(3, 4, 5, 6), "text": rows(1, 2)}, dim=1)
    assert x.shape == (1, 8, 1)
    assert flat(x) == [1, 2, 3, 4, 5, 6, 7, 0]


def test_fill_and_negative_dim():
    x = ONE.cat({"text": rows(1, 2), "video": rows(3, 4, 5, 6), "audio": rows(7)}, dim=-2, fill=-1)
    assert flat(x) == [1, 2, 3, 4, 5, 6, 7, -1]


def test_no_padding_still_copies():
    layout = PackedLayout.pack({"a": 2})
    part = torch.ones(2)
    packed = layout.cat({"a": part}, dim=0)
    packed.zero_()
    assert part.tolist() == [1, 1]


def test_several_samples():
    expected = [1, 2, 3, 4, 5, 6, 0, 0]
    assert flat(TWO.cat({"text": rows(1, 2, 6), "video": rows(3, 4, 5)}, dim=1)) == expected
    assert flat(TWO.cat({"text": [rows(1, 2), rows(6)], "video": [rows(3, 4, 5), None]}, dim=1)) == expected
    assert flat(TWO.cat({"text": [rows(1, 2), rows(6)], "video": [rows(3, 4, 5), rows()]}, dim=1)) == expected
    assert flat(TWO.cat({"text": [rows(1, 2), rows(6)], "video": rows(3, 4, 5)}, dim=1)) == expected
    assert flat(TWO.cat({"text": rows(1, 2, 6), "video": [rows(3, 4, 5)]}, dim=1)) == expected


@pytest.mark.parametrize(
    "ref",
    [
        rows(1, 2, 4, 7, 8, 9),
        [rows(1, 2, 4), None, rows(7, 8, 9)],  # per sample
        [rows(1, 2, 4), rows(), rows(7, 8, 9)],
        [[rows(1, 2), rows(4)], None, rows(7, 8, 9)],  # nested, per occurrence
        [[rows(1, 2), rows(4)], [], [rows(7, 8, 9)]],
        [rows(1, 2), rows(4), rows(7, 8, 9)],  # per occurrence: as many as samples, told apart by their rows
    ],
)
def test_repeated_parts(ref):
    assert flat(BLOCKS.cat({"ref": ref, "a": rows(3, 5, 6)}, dim=1)) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_list_for_one_sample_may_be_per_occurrence():
    layout = PackedLayout.pack([Part("ref", 2), Part("a", 1), Part("ref", 1)])
    for ref in ([rows(1, 2), rows(4)], [rows(1, 2, 4)], [[rows(1, 2), rows(4)]]):
        assert flat(layout.cat({"ref": ref, "a": rows(3)}, dim=1)) == [1, 2, 3, 4]


def test_parts_without_rows_may_be_left_out():
    layout = PackedLayout.pack({"text": 2, "audio": 0})
    for parts in ({"text": rows(1, 2)}, {"text": rows(1, 2), "audio": None}, {"text": rows(1, 2), "audio": rows()}):
        assert flat(layout.cat(parts, dim=1)) == [1, 2]


def test_split_one_sample():
    parts = ONE.split(rows(1, 2, 3, 4, 5, 6, 7, 0), dim=1)
    assert {name: flat(part) for name, part in parts.items()} == {"text": [1, 2], "video": [3, 4, 5, 6], "audio": [7]}


def test_split_several_samples():
    parts = BLOCKS.split(rows(1, 2, 3, 4, 5, 6, 7, 8, 9), dim=1)
    assert [flat(part) for part in parts["ref"]] == [[1, 2, 4], [], [7, 8, 9]]
    assert [flat(part) for part in parts["a"]] == [[3], [5, 6], []]
    assert parts["ref"][1].shape == (1, 0, 1)


def test_split_gives_views_where_it_can():
    x = torch.zeros(8, 1)
    ONE.split(x, dim=0)["video"].fill_(1)
    assert flat(x) == [0, 0, 1, 1, 1, 1, 0, 0]


def test_gradients():
    parts = {name: torch.randn(n, 2, dtype=torch.float64, requires_grad=True) for name, n in
             (("text", 2), ("video", 4), ("audio", 1))}  # fmt: skip

    def call(text, video, audio):
        x = ONE.cat({"text": text, "video": video, "audio": audio}, dim=0) ** 2
        return tuple(ONE.split(x, dim=0).values())

    assert torch.autograd.gradcheck(call, tuple(parts.values()))


def test_meta_tensors():
    x = ONE.cat({"text": rows(1, 2).to("meta"), "video": rows(1, 2, 3, 4).to("meta"), "audio": rows(1).to("meta")}, 1)
    assert x.device.type == "meta"
    assert ONE.split(x, 1)["video"].shape == (1, 4, 1)


TEXT, VIDEO, AUDIO = rows(1, 2), rows(3, 4, 5, 6), rows(7)
FIX = "\n  fix: pass all of its rows in row order, or pack the layout from the sizes that the tensors have"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (
            {"text": TEXT, "audio": AUDIO},
            "cat: part 'video' is missing, expected 4 rows (1x2x2)\n  the parts are text, video, audio",
        ),
        (
            {"text": TEXT, "video": VIDEO, "audio": None},
            "cat: part 'audio' is missing, expected 1 rows\n  the parts are text, video, audio",
        ),
        (
            {"text": TEXT, "video": VIDEO, "audio": AUDIO, "image": AUDIO},
            "cat: the layout has no part 'image'\n  its parts are text, video, audio",
        ),
        (
            {"text": TEXT, "video": VIDEO, "audio": AUDIO, "padding": AUDIO},
            "cat: 'padding' is no part, its rows are appended\n  fix: leave it out, and pass fill= for its value",
        ),
        (
            {"text": TEXT, "video": VIDEO[:, :3], "audio": AUDIO},
            "cat: part 'video' has 3 rows on axis 1, expected 4 as the layout says (1x2x2)" + FIX,
        ),
        (
            {"text": TEXT, "video": VIDEO, "audio": TEXT},
            "cat: part 'audio' has 2 rows on axis 1, expected 1 as the layout says" + FIX,
        ),
        (
            {"text": TEXT, "video": VIDEO.expand(1, 4, 3), "audio": AUDIO},
            "cat: part 'video' has 3 entries on axis 2, expected 1 like part 'text'",
        ),
        (
            {"text": TEXT, "video": VIDEO[0], "audio": AUDIO},
            "cat: part 'video' has 2 axes, expected 3 like part 'text'",
        ),
        (
            {"text": TEXT, "video": VIDEO.to("meta"), "audio": AUDIO},
            "cat: part 'video' is on meta, expected cpu like part 'text'",
        ),
        (
            {"text": TEXT, "video": VIDEO.half(), "audio": AUDIO},
            "cat: part 'video' is torch.float16, expected torch.float32 like part 'text'",
        ),
        (
            {"text": TEXT, "video": 4, "audio": AUDIO},
            "cat: part 'video' is a int, expected a tensor or a list of tensors",
        ),
        (
            {"text": TEXT, "video": ["x"], "audio": AUDIO},
            "cat: part 'video' of sample 0 is a str, expected a tensor",
        ),
        ([TEXT], "cat: got a list, expected a mapping of part name -> tensor"),
    ],
)
def test_bad_parts(parts, text):
    assert message(ONE.cat, parts, dim=1) == text


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ([rows(1, 2, 4), None, None], "cat: part 'ref' of sample 2 is None, expected 3 rows"),
        (
            [rows(1, 2), None, rows(7, 8, 9)],
            "cat: part 'ref' of sample 0 has 2 rows on axis 1, expected 2 + 1",
        ),
        (
            [rows(1, 2, 4), rows(5), rows(7, 8, 9)],
            "cat: part 'ref' of sample 1 has 1 rows on axis 1, and that sample has no part 'ref'\n"
            "  fix: pass None for it",
        ),
        (
            [rows(1, 2, 4), None, rows(7, 8)],
            "cat: part 'ref' of sample 2 has 2 rows on axis 1, expected 3 as the layout says" + FIX,
        ),
        (
            [[rows(1, 2, 4)], None, rows(7, 8, 9)],
            "cat: part 'ref' of sample 0 is a list of 1, expected one entry for each of its 2 occurrences in that "
            "sample",
        ),
        (
            [rows(1), rows(2)],
            "cat: part 'ref' is a list of 2, expected one entry for each of the 3 samples or for each of its 3 "
            "occurrences",
        ),
    ],
)
def test_bad_lists(ref, text):
    assert message(BLOCKS.cat, {"ref": ref, "a": rows(3, 5, 6)}, dim=1) == text


def test_nothing_to_cat():
    assert message(PackedLayout.pack({"a": 0}).cat, {}, dim=0) == (
        "cat: no tensor was passed\n  fix: pass at least one, of zero rows if need be: it gives the dtype and device"
    )


def test_bad_dim():
    parts = {"text": TEXT, "video": VIDEO, "audio": AUDIO}
    assert message(ONE.cat, parts, dim=3) == "cat: dim is 3, but the tensor has 3 axes"
    assert message(ONE.split, TEXT, dim=-4) == "split: dim is -4, but the tensor has 3 axes"


def test_bad_split():
    assert message(ONE.split, TEXT, dim=1) == (
        "split: the tensor has 2 rows on axis 1, expected the layout's seq_len 8 (7 used + 1 padding)"
    )
    assert message(ONE.split, [1], dim=0) == "split: got a list, expected a packed tensor"
