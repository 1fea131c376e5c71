"""What one element of a tensor is, as a function of its index.

A mask is understood through its elements: whatever views, broadcasts and operators it was made with, element (i, j) of
a document mask is `tag[i] == tag[j]`. Three kinds of elements: integers (`Affine`), truth values (`Formula`), and
numbers (`Number`) as additive masks and attention scores hold them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import sympy  # type: ignore[import-untyped]
from torch import fx


@dataclass(frozen=True, slots=True)
class Var:
    """An index that runs: `b` over samples, `h` over heads, `i` over queries, `j` over keys."""

    name: str


@dataclass(frozen=True, slots=True)
class Read:
    """The element of `node`, a node of the normalized graph, at `index`."""

    node: fx.Node
    index: tuple["Affine", ...]


@dataclass(frozen=True, slots=True)
class Quotient:
    """`dividend // divisor` or, if `remainder`, `dividend % divisor`; both at least 0."""

    dividend: "Affine"
    divisor: sympy.Expr
    remainder: bool = False


@dataclass(frozen=True, slots=True)
class Absolute:
    """The absolute value of `inner`."""

    inner: "Affine"


Atom = Var | Read | Quotient | Absolute


@dataclass(frozen=True, slots=True)
class Affine:
    """An integer: the sum of `coefficient * atom`, plus `const`, which may hold symbolic sizes."""

    terms: frozenset[tuple[Atom, int]]
    const: sympy.Expr

    @classmethod
    def of(cls, value: "Atom | int | sympy.Expr") -> "Affine":
        """The integer that is just `value`."""
        if isinstance(value, Var | Read | Quotient | Absolute):
            return cls(frozenset({(value, 1)}), sympy.S.Zero)
        return cls(frozenset(), sympy.sympify(value))

    def __add__(self, other: "Affine") -> "Affine":
        return _collect(self, other, 1)

    def __sub__(self, other: "Affine") -> "Affine":
        return _collect(self, other, -1)

    def times(self, factor: int) -> "Affine":
        """This integer, `factor` times."""
        if factor == 0:
            return Affine.of(0)
        return Affine(frozenset((atom, factor * c) for atom, c in self.terms), sympy.expand(factor * self.const))

    @property
    def atom(self) -> Atom | None:
        """The atom that this integer is, or None if it is more or less than one atom."""
        if len(self.terms) == 1 and self.const == 0:
            ((atom, coefficient),) = self.terms
            return atom if coefficient == 1 else None
        return None

    @property
    def number(self) -> int | None:
        """This integer's value, or None if it depends on anything."""
        return int(self.const) if not self.terms and self.const.is_Integer else None

    def variables(self) -> frozenset[str]:
        """The names of the running indices that this integer depends on."""
        return frozenset(name for atom, _ in self.terms for name in _variables(atom))

    def reads(self) -> Iterator[Read]:
        """The reads at any depth."""
        for atom, _ in self.terms:
            yield from _reads(atom)


def _collect(a: Affine, b: Affine, sign: int) -> Affine:
    terms: dict[Atom, int] = dict(a.terms)
    for atom, coefficient in b.terms:
        total = terms.get(atom, 0) + sign * coefficient
        if total:
            terms[atom] = total
        else:
            terms.pop(atom, None)
    return Affine(frozenset(terms.items()), sympy.expand(a.const + sign * b.const))


def _variables(atom: Atom) -> frozenset[str]:
    match atom:
        case Var(name):
            return frozenset({name})
        case Read(_, index):
            return frozenset().union(*(one.variables() for one in index)) if index else frozenset()
        case Quotient(inner, _, _) | Absolute(inner):
            return inner.variables()


def _reads(atom: Atom) -> Iterator[Read]:
    match atom:
        case Read(_, index):
            yield atom
            for one in index:
                yield from one.reads()
        case Quotient(inner, _, _) | Absolute(inner):
            yield from inner.reads()
        case Var():
            return


@dataclass(frozen=True, slots=True)
class Compare:
    """`value == 0`, `value != 0` or `value <= 0`."""

    relation: Literal["eq", "ne", "le"]
    value: Affine


@dataclass(frozen=True, slots=True)
class Truth:
    """The truth value that a tensor holds; of numbers, whether they are not 0."""

    read: Read


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of `inner`, which is a `Truth`: comparisons are turned instead."""

    inner: Truth


@dataclass(frozen=True, slots=True)
class All:
    """Every one of `parts` holds."""

    parts: frozenset["Formula"]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one of `parts` holds."""

    parts: frozenset["Formula"]


Formula = bool | Compare | Truth | Not | All | Some


def conjunction(*parts: Formula) -> Formula:
    """Every part holds."""
    return _join(parts, All, neutral=True)


def disjunction(*parts: Formula) -> Formula:
    """Some part holds."""
    return _join(parts, Some, neutral=False)


def _join(parts: tuple[Formula, ...], kind: type[All] | type[Some], neutral: bool) -> Formula:
    flat: set[Formula] = set()
    for part in parts:
        if isinstance(part, bool):
            if part is not neutral:
                return part
        elif isinstance(part, kind):
            flat |= part.parts
        else:
            flat.add(part)
    if any(negation(part) in flat for part in flat):
        return not neutral
    if not flat:
        return neutral
    return flat.pop() if len(flat) == 1 else kind(frozenset(flat))


def negation(formula: Formula) -> Formula:
    """`formula` does not hold."""
    match formula:
        case bool():
            return not formula
        case Compare("eq", value):
            return Compare("ne", value)
        case Compare("ne", value):
            return Compare("eq", value)
        case Compare(_, value):  # not (v <= 0), so -v + 1 <= 0
            return Compare("le", value.times(-1) + Affine.of(1))
        case Truth():
            return Not(formula)
        case Not(inner):
            return inner
        case All(parts):
            return disjunction(*map(negation, parts))
        case Some(parts):
            return conjunction(*map(negation, parts))


def compare(relation: str, left: Affine, right: Affine) -> Formula:
    """`left` eq, ne, lt, le, gt or ge `right`."""
    match relation:
        case "eq" | "ne":
            value = left - right
            if value.number is not None:
                return (value.number == 0) is (relation == "eq")
            return Compare(relation, _oriented(value))
        case "le":
            value = left - right
        case "lt":
            value = left - right + Affine.of(1)
        case "ge":
            value = right - left
        case "gt":
            value = right - left + Affine.of(1)
        case _:
            raise ValueError(relation)
    return value.number <= 0 if value.number is not None else Compare("le", value)


def _oriented(value: Affine) -> Affine:
    """`value` or its opposite, whichever: the same for both, so that equal statements are equal."""
    signs = sorted((repr(atom), coefficient) for atom, coefficient in value.terms)
    first = signs[0][1] if signs else 1
    return value.times(-1) if first < 0 else value


def conjuncts(formula: Formula) -> frozenset[Formula]:
    """The statements that must all hold; none for True."""
    if formula is True:
        return frozenset()
    return formula.parts if isinstance(formula, All) else frozenset({formula})


def reads_of(formula: Formula) -> Iterator[Read]:
    """Every read in a formula."""
    match formula:
        case Compare(_, value):
            yield from value.reads()
        case Truth(read) | Not(Truth(read)):
            yield from _reads(read)
        case All(parts) | Some(parts):
            for part in parts:
                yield from reads_of(part)


def variables_of(formula: Formula) -> frozenset[str]:
    """The names of the running indices that a formula depends on."""
    match formula:
        case Compare(_, value):
            return value.variables()
        case Truth(read) | Not(Truth(read)):
            return _variables(read)
        case All(parts) | Some(parts):
            return frozenset().union(*map(variables_of, parts))
        case _:
            return frozenset()


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that is the same in every call with this graph.

    Attributes:
        value: the number.
        blurred: whether a score was added, of which something may remain.
        added: whether a score was added: it gets gradients, though nothing of it remains.
    """

    value: float
    blurred: bool = False
    added: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """An attention score: the element (b, h, i, j) of the product `node`, times every factor.

    A factor is a number, or the Dynamo node of a float that varies from call to call, with the power 1 or -1.
    """

    node: fx.Node
    factors: tuple[tuple[float | fx.Node, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Select:
    """`yes` where `condition` holds, else `no`."""

    condition: Formula
    yes: "Number"
    no: "Number"


Number = Constant | Score | Select


def leaves(number: Number, when: Formula = True) -> Iterator[tuple[Formula, Constant | Score]]:
    """The values that a number can have, each with the condition under which it has it."""
    if isinstance(number, Select):
        yield from leaves(number.yes, conjunction(when, number.condition))
        yield from leaves(number.no, conjunction(when, negation(number.condition)))
    elif when is not False:
        yield when, number


def within(value: Affine, sizes: Mapping[str, sympy.Expr]) -> Affine:
    """`value` with quotients worked out where that is exact, given that each running index is below its size."""
    total = Affine.of(value.const)
    for atom, coefficient in value.terms:
        known = _quotient(atom, sizes) if isinstance(atom, Quotient) else Affine.of(atom)
        total += known.times(coefficient)
    return total


def _quotient(atom: Quotient, sizes: Mapping[str, sympy.Expr]) -> Affine:
    """`atom`; where its dividend is `divisor * whole + rest` with a rest below the divisor, that whole or that rest."""
    dividend, divisor = within(atom.dividend, sizes), atom.divisor
    whole = Affine.of(0)
    if divisor.is_Integer:
        number = int(divisor)
        multiples = frozenset((one, c // number) for one, c in dividend.terms if c % number == 0)
        const = dividend.const // number if dividend.const.is_Integer else sympy.S.Zero
        whole = Affine(multiples, const)
        rest = dividend - whole.times(number)
    else:
        rest = dividend
    if _below(rest, divisor, sizes):
        return rest if atom.remainder else whole
    return Affine.of(Quotient(dividend, divisor, atom.remainder))


def _below(value: Affine, bound: sympy.Expr, sizes: Mapping[str, sympy.Expr]) -> bool:
    """Whether `value` is known to lie between 0 and `bound`, without it."""
    most = value.const
    for atom, coefficient in value.terms:
        if not isinstance(atom, Var) or atom.name not in sizes or coefficient < 0:
            return False
        most += coefficient * (sizes[atom.name] - 1)
    return value.const.is_nonnegative is True and sympy.expand(bound - most).is_positive is True


def substitute(index: tuple[Affine, ...], values: Mapping[str, Affine]) -> tuple[Affine, ...]:
    """`index` with running indices replaced where they stand alone."""
    done = []
    for one in index:
        total = Affine.of(one.const)
        for atom, coefficient in one.terms:
            replaced = values.get(atom.name) if isinstance(atom, Var) else None
            total += (replaced or Affine.of(atom)).times(coefficient)
        done.append(total)
    return tuple(done)
