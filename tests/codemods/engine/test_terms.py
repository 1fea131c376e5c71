"""Terms: equal operations are one object, displays resolve, sizes and conditions are bounded."""

import pytest
from shapecheck.codemods.engine.terms import Pool, Term


@pytest.fixture
def pool() -> Pool:
    return Pool()


def test_equal_operations_are_one_term(pool: Pool) -> None:
    x = pool.make("parameter", "x")
    assert pool.make("Add", x, pool.const(1)) is pool.make("Add", x, pool.const(1))
    assert pool.make("Add", x, pool.const(1)) is not pool.make("Add", pool.const(1), x)


def test_the_type_of_a_constant_counts(pool: Pool) -> None:
    assert pool.const(1) is not pool.const(True)
    assert pool.const(1) is not pool.const(1.0)
    assert not pool.const(True).is_const(1)
    assert pool.const(0).is_const(0)


def test_symbols_differ(pool: Pool) -> None:
    assert pool.symbol("x") is not pool.symbol("x")


def test_the_first_expression_is_remembered(pool: Pool) -> None:
    import ast

    first, second = ast.Name("a"), ast.Name("b")
    assert pool.make("parameter", "x", node=first).node is first
    assert pool.make("parameter", "x", node=second).node is first


def test_terms_of_an_operation_are_listed_once(pool: Pool) -> None:
    x = pool.make("parameter", "x")
    pool.make("diff", x)
    pool.make("diff", x)
    assert pool.by_op["diff"] == [pool.make("diff", x)]


def test_walk_visits_each_term_once(pool: Pool) -> None:
    x = pool.make("parameter", "x")
    twice = pool.make("Add", x, x)
    assert sorted(term.op for term in pool.make("list", twice, x, twice).walk()) == ["Add", "list", "parameter"]


def test_what_grows_beyond_the_limit_is_opaque(pool: Pool) -> None:
    term = pool.make("parameter", "x")
    while term.op != "sym":
        assert term.size <= Pool.LIMIT
        term = pool.make("Add", term, term)
    assert term.args[0] == "big"


def items_of(pool: Pool) -> dict[str, tuple[Term, Term, Term]]:
    a, b, k = pool.make("parameter", "a"), pool.make("parameter", "b"), pool.const("k")
    elem = pool.make("elem", pool.make("zip", a, b))
    numbered = pool.make("elem", pool.make("enumerate", a))
    entry = pool.make("elem", pool.make("items", a))
    star = pool.make("star", b)
    return {
        "of a tuple": (pool.make("tuple", a, b), pool.const(1), b),
        "from behind": (pool.make("list", a, b), pool.const(-2), a),
        "behind the end": (pool.make("list", a), pool.const(1), pool.make("item", pool.make("list", a), pool.const(1))),
        "beside a star": (
            pool.make("list", a, star),
            pool.const(0),
            pool.make("item", pool.make("list", a, star), pool.const(0)),
        ),
        "of a dict": (pool.make("dict", pool.make("pair", k, a)), k, a),
        "of the last pair": (pool.make("dict", pool.make("pair", k, a), pool.make("pair", k, b)), k, b),
        "of a starred dict": (pool.make("dict", star), k, pool.make("item", b, k)),
        "of a copy": (pool.make("copy", pool.make("dict", pool.make("pair", k, a))), k, a),
        "of a default dict": (pool.make("defaultdict", pool.make("list")), k, pool.make("list")),
        "of zip": (elem, pool.const(1), pool.make("elem", b)),
        "counter of enumerate": (numbered, pool.const(0), pool.make("index_in", a)),
        "item of enumerate": (numbered, pool.const(1), pool.make("elem", a)),
        "key of items": (entry, pool.const(0), pool.make("elem", pool.make("keys", a))),
        "value of items": (entry, pool.const(1), pool.make("elem", pool.make("values", a))),
    }


@pytest.mark.parametrize("case", sorted(items_of(Pool())))
def test_items(pool: Pool, case: str) -> None:
    base, index, expected = items_of(pool)[case]
    assert pool.item(base, index) is expected


def test_an_item_of_a_branch_is_a_branch_of_items(pool: Pool) -> None:
    a, b, c = (pool.make("parameter", name) for name in "abc")
    both = pool.phi(c, pool.make("tuple", a, b), pool.make("tuple", b, a))
    assert pool.item(both, pool.const(0)) is pool.phi(c, a, b)


def test_branches(pool: Pool) -> None:
    a, b, c = (pool.make("parameter", name) for name in "abc")
    assert pool.phi(c, a, a) is a
    assert pool.phi(pool.make("not", c), a, b) is pool.phi(c, b, a)


def test_conditions_are_collected_once_and_no_more_than_anyone_asks_for(pool: Pool) -> None:
    a, b = pool.make("parameter", "a"), pool.make("parameter", "b")
    conditions = [pool.make("parameter", f"c{at}") for at in range(20)]
    one = pool.phi(conditions[0], a, b)
    assert pool.make("Add", one, pool.make("diff", one)).conditions == (conditions[0],)
    two = pool.make("Add", one, pool.phi(conditions[1], b, a))
    assert set(two.conditions) == set(conditions[:2])
    everything = pool.make("list", *(pool.phi(cond, a, b) for cond in conditions))
    assert Pool.CONDITIONS < len(everything.conditions) < len(conditions)


def test_substitution_resolves_again(pool: Pool) -> None:
    a, b, s = pool.make("parameter", "a"), pool.make("parameter", "b"), pool.symbol("argument")
    term = pool.make("Add", pool.item(s, pool.const(0)), pool.const(1))
    assert pool.substitute(term, {s: pool.make("tuple", a, b)}) is pool.make("Add", a, pool.const(1))
    assert pool.substitute(term, {}) is term
    choice = pool.phi(s, a, b)
    assert pool.substitute(choice, {s: pool.make("not", a)}) is pool.phi(a, b, a)


@pytest.mark.parametrize(("length", "known"), [(0, False), (1, True), (8, True), (9, False)])
def test_few_items(pool: Pool, length: int, known: bool) -> None:
    display = pool.make("list", *(pool.make("parameter", str(at)) for at in range(length)))
    assert bool(display.few_items) is known
    assert pool.make("list", pool.make("star", display)).few_items == ()
    assert pool.make("set", display).few_items == ()
