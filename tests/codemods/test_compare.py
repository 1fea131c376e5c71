"""When two lists of parts describe the same rows, and how they part ways."""

import pytest
from shapecheck.codemods.compare import difference, sample_of, worlds
from shapecheck.codemods.engine.describe.rows import Change, Part
from shapecheck.codemods.engine.terms import Pool

POOL = Pool()


def parts(words: str) -> list[Part]:
    """`a b/pad *s`: values, what was done to them, and items of a collection."""
    found = []
    for word in words.split():
        name, *changes = word.lstrip("*").split("/")
        root = POOL.make("parameter", name)
        done = tuple(Change(kind, POOL.make(kind, root), (POOL.const(kind),)) for kind in changes)
        found.append(Part(root, done, each=word.startswith("*")))
    return found


@pytest.mark.parametrize(
    ("rows", "meta", "kind", "part"),
    [
        ("a b", "a", "missing", "b"),
        ("a b c", "a c", "missing", "b"),
        ("a", "a b", "extra", "b"),
        ("a b", "b a", "order", "a"),
        ("a/pad", "a", "changed", "a"),
        ("a", "a/slice", "changed", "a"),
        ("a b/pad", "a b", "changed", "b"),
        ("*s/filter", "*s", "changed", "s"),
        ("a/slice/pad", "a/slice", "changed", "a"),
    ],
)
def test_differences(rows: str, meta: str, kind: str, part: str) -> None:
    found = difference(parts(rows), parts(meta))
    assert found is not None
    assert (found.kind, found.part.root.args[0]) == (kind, part)


@pytest.mark.parametrize(
    ("rows", "meta"),
    [
        ("a b", "a b"),
        ("a/pad b", "a/pad b"),
        ("*s", "*s"),
        ("a b", "c d"),  # nothing shared: two names of one thing, perhaps
        ("a b", "a c"),  # one shared, one replaced
        ("a a", "a"),  # the same value twice
        ("a b", "a a"),
        ("a b c", "c a"),
        ("a/pad", "a/slice"),  # both changed
        ("s", "*s"),
    ],
)
def test_nothing_is_certain(rows: str, meta: str) -> None:
    assert difference(parts(rows), parts(meta)) is None


def test_which_side_changed() -> None:
    assert difference(parts("a/pad"), parts("a")).rows_changed  # type: ignore[union-attr]
    assert not difference(parts("a"), parts("a/pad")).rows_changed  # type: ignore[union-attr]


def test_fields_of_a_sample_have_its_rows() -> None:
    sample = POOL.make("elem", POOL.make("parameter", "samples"))
    assert sample_of(POOL.make("item", sample, POOL.const("ids"))) is sample
    assert sample_of(POOL.make("attr", sample, "ids")) is sample
    first = POOL.make("item", sample, POOL.const(0))
    assert sample_of(first) is first


class TestWorlds:
    a, b, c, d, e = (POOL.make("parameter", name) for name in "abcde")

    def test_without_branches_there_is_one(self) -> None:
        assert list(worlds(self.a, self.b)) == [(self.a, self.b)]

    def test_a_condition_is_the_same_for_all_terms(self) -> None:
        one, two = POOL.phi(self.c, self.a, self.b), POOL.phi(self.c, self.b, self.a)
        assert set(worlds(one, two)) == {(self.a, self.b), (self.b, self.a)}

    def test_known_conditions_are_not_asked(self) -> None:
        one = POOL.phi(self.c, self.a, self.b)
        assert list(worlds(one, context=((self.c, False),))) == [(self.b,)]

    def test_two_conditions_make_four(self) -> None:
        both = POOL.make("list", POOL.phi(self.c, self.a, self.b), POOL.phi(self.d, self.a, self.b))
        assert len(list(worlds(both))) == 4

    def test_more_conditions_are_unknown(self) -> None:
        many = POOL.make("list", *(POOL.phi(cond, self.a, self.b) for cond in (self.c, self.d, self.e)))
        assert list(worlds(many)) == []

    def test_branches_below_operations_and_items_resolve(self) -> None:
        pair = POOL.phi(self.c, POOL.make("tuple", self.a, self.b), self.d)
        item = POOL.make("item", pair, POOL.const(0))
        assert set(worlds(item)) == {(self.a,), (POOL.make("item", self.d, POOL.const(0)),)}
