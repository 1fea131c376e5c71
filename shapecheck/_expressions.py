"""Integer expressions over axis symbols: `B+1`, `2*S`, `S//64`. Free of torch.

The grammar is the part of jaxtyping's that says something about sizes: names, integers, `+ - * // %` and brackets.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

_OPERATORS: dict[type[ast.operator], tuple[str, Callable[[int, int], int]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}


@dataclass(frozen=True)
class Affine:
    """`sum(factor * name) + constant`, with no zero factors."""

    factors: tuple[tuple[str, int], ...]
    constant: int


@dataclass(frozen=True)
class Expression:
    """One parsed expression; equal sources are equal expressions."""

    source: str

    @cached_property
    def _tree(self) -> ast.expr:
        return ast.parse(self.source, mode="eval").body

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The symbols it reads, in order of appearance."""
        found = [node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)]
        return tuple(dict.fromkeys(found))

    def evaluate(self, symbols: Mapping[str, int]) -> int:
        """Its value; raises KeyError for an unbound symbol and ZeroDivisionError as Python does."""
        return _evaluate(self._tree, symbols)

    def code(self, rename: Callable[[str], str]) -> str:
        """Python source with every symbol renamed, safe to embed in a larger expression."""
        return _code(self._tree, rename)

    def divisors(self, rename: Callable[[str], str]) -> list[str]:
        """Source of everything that it divides by, except constants: zero there leaves the expression undefined."""
        divisors = [
            node.right
            for node in ast.walk(self._tree)
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod))
        ]
        return [_code(divisor, rename) for divisor in divisors if not isinstance(divisor, ast.Constant)]

    @cached_property
    def affine(self) -> Affine | None:
        """The affine form, or None where symbols are multiplied or divided."""
        form = _affine(self._tree)
        if form is None:
            return None
        factors, constant = form
        return Affine(tuple((name, factor) for name, factor in factors.items() if factor), constant)

    def can_solve(self, name: str) -> bool:
        """Whether `solve` finds `name` once the other symbols are bound."""
        return self.affine is not None and any(factor_name == name for factor_name, _ in self.affine.factors)

    def solve(self, value: int, symbols: Mapping[str, int]) -> int | None:
        """The one unbound symbol's size, at least 0, that makes the expression equal `value`; None if there is none.

        Only for expressions where `can_solve` holds of exactly one symbol that is not in `symbols`.
        """
        assert self.affine is not None
        rest, unknown = value - self.affine.constant, 0
        for name, factor in self.affine.factors:
            if name in symbols:
                rest -= factor * symbols[name]
            else:
                unknown = factor
        size, remainder = divmod(rest, unknown)
        return size if remainder == 0 and size >= 0 else None


@lru_cache(maxsize=1024)
def parse(source: str) -> Expression:
    """Parse `source`; raises ValueError, saying what is not understood, for anything outside the grammar."""
    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError:
        raise ValueError(f"{source!r} is not an expression") from None
    _validate(tree, source)
    return Expression(source)


def limit_names(limit: int | str | None) -> tuple[str, ...]:
    """The symbols in a limit of an invariant: a number, an expression, or None for no limit.

    Raises ValueError for what is no expression, and for one that divides by a symbol, which may be zero.
    """
    if not isinstance(limit, str):
        return ()
    expression = parse(limit)
    if expression.divisors(str):
        raise ValueError(f"{limit!r} divides by a symbol, which can be zero; only numbers can divide")
    return expression.names


def limit_value(limit: int | str | None, symbols: Mapping[str, int]) -> int | None:
    """The limit in this call; None for no limit, and where an absent optional argument leaves it open."""
    if not isinstance(limit, str):
        return limit
    if limit in symbols:
        return symbols[limit]
    expression = parse(limit)
    return expression.evaluate(symbols) if all(name in symbols for name in expression.names) else None


def limit_source(limit: int | str | None, symbols: Mapping[str, str]) -> str | None:
    """Python source of the limit, given each symbol's source; None for no limit, and where a symbol has none."""
    if not isinstance(limit, str):
        return None if limit is None else str(limit)
    expression = parse(limit)
    return expression.code(symbols.__getitem__) if all(name in symbols for name in expression.names) else None


def _validate(node: ast.expr, source: str) -> None:
    match node:
        case ast.Name():
            return
        case ast.Constant(value=value) if type(value) is int:
            return
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _validate(operand, source)
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod(), right=ast.Constant(value=0)):
            raise ValueError(f"{source!r} divides by zero")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            _validate(left, source)
            _validate(right, source)
        case _:
            part = ast.unparse(node)
            raise ValueError(f"{part!r} in {source!r} is not understood: use names, integers, + - * // % and brackets")


def _evaluate(node: ast.expr, symbols: Mapping[str, int]) -> int:
    match node:
        case ast.Name(id=name):
            return symbols[name]
        case ast.Constant(value=value):
            assert isinstance(value, int)
            return value
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, symbols)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)][1](_evaluate(left, symbols), _evaluate(right, symbols))
    raise AssertionError(ast.dump(node))


def _code(node: ast.expr, rename: Callable[[str], str]) -> str:
    match node:
        case ast.Name(id=name):
            return rename(name)
        case ast.Constant(value=value):
            return str(value)
        case ast.UnaryOp(operand=operand):
            return f"(-{_code(operand, rename)})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({_code(left, rename)} {_OPERATORS[type(op)][0]} {_code(right, rename)})"
    raise AssertionError(ast.dump(node))


def _affine(node: ast.expr) -> tuple[dict[str, int], int] | None:
    match node:
        case ast.Name(id=name):
            return {name: 1}, 0
        case ast.Constant(value=value):
            assert isinstance(value, int)
            return {}, value
        case ast.UnaryOp(operand=operand):
            return _scaled(_affine(operand), -1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            return _added(_affine(left), _scaled(_affine(right), -1 if isinstance(op, ast.Sub) else 1))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            first, second = _affine(left), _affine(right)
            if first is not None and not first[0]:
                return _scaled(second, first[1])
            if second is not None and not second[0]:
                return _scaled(first, second[1])
    return None


def _scaled(form: tuple[dict[str, int], int] | None, factor: int) -> tuple[dict[str, int], int] | None:
    if form is None:
        return None
    return {name: value * factor for name, value in form[0].items()}, form[1] * factor


def _added(
    left: tuple[dict[str, int], int] | None, right: tuple[dict[str, int], int] | None
) -> tuple[dict[str, int], int] | None:
    if left is None or right is None:
        return None
    factors = dict(left[0])
    for name, factor in right[0].items():
        factors[name] = factors.get(name, 0) + factor
    return factors, left[1] + right[1]
