"""Terms: what an expression denotes, as a value number. Two expressions with the same term hold the same value.

A term is an operation on terms and constants, such as `cat(0, list(text, video))`. Terms are interned in a `Pool`,
so that
equality is identity. The recognizers in `codemods.engine.describe` read lengths, boundaries, maxima, tags and rows
off them.
"""

import ast
from collections.abc import Iterator
from typing import Any


class Term:
    """One operation.

    Attributes:
        node: the first expression that produced it.
        size: how many terms it is made of, with repetitions.
        depth: how many terms lie on the longest way down, itself included.
        parts: the terms among its arguments.
        rounds: whether it holds a value that stands for "some round" of a loop.
        conditions: what it depends on by branches below it, each once; only the first few, see `Pool.CONDITIONS`.
    """

    __slots__ = ("args", "conditions", "depth", "node", "op", "parts", "pool", "rounds", "size")

    def __init__(
        self,
        pool: "Pool",
        op: str,
        args: tuple[Any, ...],
        parts: tuple["Term", ...],
        node: ast.AST | None,
        size: int,
        depth: int,
    ) -> None:
        self.pool = pool
        self.op = op
        self.args = args
        self.parts = parts
        self.node = node
        self.size = size
        self.depth = depth
        self.rounds = op == "round"
        self.conditions: tuple[Term, ...] = ()
        conditions: tuple[Term, ...] = (parts[0],) if op == "phi" else ()
        for part in parts:
            if part.rounds:
                self.rounds = True
            if part.conditions and part.conditions is not conditions and len(conditions) <= pool.CONDITIONS:
                conditions = (
                    (*conditions, *(one for one in part.conditions if one not in conditions))
                    if conditions
                    else part.conditions
                )
        self.conditions = conditions

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args))})"

    @property
    def value(self) -> Any:
        """The value of a constant; None for everything else (and for the constant None)."""
        return self.args[1] if self.op == "const" else None

    def is_const(self, value: Any) -> bool:
        """Whether it is this very constant (`True` is not 1)."""
        return self.op == "const" and type(self.args[1]) is type(value) and bool(self.args[1] == value)

    @property
    def few_items(self) -> tuple["Term", ...]:
        """The items of a list or tuple display with at most 8, all known; none for everything else."""
        shown = (
            self.op in {"tuple", "list"} and len(self.args) <= 8 and not any(part.op == "star" for part in self.parts)
        )
        return self.args if shown else ()

    def children(self) -> tuple["Term", ...]:
        """The terms it is made of."""
        return self.parts

    def branches(self) -> Iterator["Term"]:
        """The values that it may be, by the branches at its top."""
        if self.op == "phi":
            yield from self.args[1].branches()
            yield from self.args[2].branches()
        else:
            yield self

    def walk(self) -> Iterator["Term"]:
        """Itself and everything below, each term once."""
        seen = {self}
        stack = [self]
        while stack:
            term = stack.pop()
            yield term
            for part in term.parts:
                if part not in seen:
                    seen.add(part)
                    stack.append(part)


class Pool:
    """Interns the terms of one module."""

    # Beyond it a value is opaque: such terms come from generated code, where nothing is proved anyway.
    LIMIT = 4000
    # Recognizers call themselves on the parts of a term, a few frames of Python's stack for each level.
    DEPTH = 150
    # Whoever asks for conditions gives up at fewer.
    CONDITIONS = 8

    def __init__(self) -> None:
        self._terms: dict[tuple[Any, ...], Term] = {}
        self._symbols = 0
        self.first_round: dict[Term, Term] = {}  # a name's value in some round of a loop -> in the first one
        self.by_op: dict[str, list[Term]] = {}  # the terms of an operation, for rules about one operation

    def make(self, op: str, *args: Any, node: ast.AST | None = None) -> Term:
        """The term `op(*args)`; arguments are terms or hashable constants."""
        key = (op, *args)
        found = self._terms.get(key)
        if found is None:
            parts = tuple([arg for arg in args if isinstance(arg, Term)])
            size = depth = 1
            for part in parts:
                size += part.size
                if part.depth >= depth:
                    depth = part.depth + 1
            if size > self.LIMIT or depth > self.DEPTH:
                return self.symbol("big", node)
            found = self._terms[key] = Term(self, op, args, parts, node, size, depth)
            self.by_op.setdefault(op, []).append(found)
        return found

    def const(self, value: Any, node: ast.AST | None = None) -> Term:
        """A constant; the type is part of its identity."""
        return self.make("const", type(value).__name__, value, node=node)

    def symbol(self, name: str, node: ast.AST | None = None) -> Term:
        """A value about which nothing is known, different from every other."""
        self._symbols += 1
        return self.make("sym", name, self._symbols, node=node)

    def item(self, base: Term, index: Term, node: ast.AST | None = None) -> Term:
        """`base[index]`, resolved where `base` is a display."""
        if index.op == "const" and isinstance(index.value, int) and not isinstance(index.value, bool):
            at = index.value
            if base.op == "results":
                return (
                    base.args[1 + at]
                    if 0 <= at < len(base.args) - 1
                    else self.make("item", base.args[0], index, node=node)
                )
            shown = base.op in {"tuple", "list"} and -len(base.args) <= at < len(base.args)
            if shown and not any(part.op == "star" for part in base.parts):
                found: Term = base.args[at]
                return found
            if base.op == "item" and base.args[0].op == "attr" and base.args[0].args[1] == "shape" and at >= 0:
                bounds = base.args[1]
                if bounds.op == "slice" and bounds.args[2].is_const(None):
                    start = 0 if bounds.args[0].is_const(None) else bounds.args[0].value
                    if isinstance(start, int):
                        return self.make("shape", base.args[0].args[0], self.const(start + at), node=node)
            if base.op == "elem" and base.args[0].op == "zip" and 0 <= at < len(base.args[0].args):
                return self.make("elem", base.args[0].args[at], node=node)
            if base.op == "elem" and base.args[0].op == "enumerate":
                source = base.args[0].args[0]
                if at == 1:
                    return self.make("elem", source, node=node)
                place = self.make("index_in", source, node=node)
                return self.make("Add", place, *base.args[0].args[1:], node=node) if base.args[0].args[1:] else place
            if base.op == "elem" and base.args[0].op == "items":
                source = base.args[0].args[0]
                return self.make("elem", self.make("values" if at == 1 else "keys", source), node=node)
        if index.op == "const" and isinstance(index.value, str):
            if base.op == "defaultdict":
                missing: Term = base.args[0]
                return missing
            if base.op == "dict":
                for part in reversed(base.args):
                    if part.op == "pair" and part.args[0] is index:
                        value: Term = part.args[1]
                        return value
                    if part.op == "star":
                        return self.item(part.args[0], index, node)
            if base.op == "copy":
                return self.item(base.args[0], index, node)
        if base.op == "phi" and base.args[1].op in {"tuple", "list", "dict"} and base.args[2].op == base.args[1].op:
            return self.phi(base.args[0], self.item(base.args[1], index, node), self.item(base.args[2], index, node))
        return self.make("item", base, index, node=node)

    def phi(self, cond: Term, then: Term, other: Term, node: ast.AST | None = None) -> Term:
        """`then` where `cond` holds, else `other`."""
        if then is other:
            return then
        if cond.op == "const" and isinstance(cond.value, bool):
            return then if cond.value else other
        if cond.op == "not":
            return self.phi(cond.args[0], other, then, node)
        return self.make("phi", cond, then, other, node=node)

    def compared(self, op: str, left: Term, right: Term, node: ast.AST | None = None) -> Term:
        """A comparison; its outcome where both sides are texts, as in a loop over the keys of a batch."""
        if isinstance(left.value, str):
            if op == "Eq" and isinstance(right.value, str):
                return self.const(left.value == right.value, node)
            if op == "In" and right.few_items and all(isinstance(item.value, str) for item in right.few_items):
                return self.const(left.value in {item.value for item in right.few_items}, node)
        return self.make(op, left, right, node=node)

    def negated(self, cond: Term) -> Term:
        """`not cond`."""
        if cond.op == "const" and isinstance(cond.value, bool):
            return self.const(not cond.value)
        negated: Term = cond.args[0] if cond.op == "not" else self.make("not", cond)
        return negated

    def substitute(self, term: Term, known: dict[Term, Term], node: ast.AST | None = None) -> Term:
        """`term` with symbols replaced."""
        if term in known:
            return known[term]
        if not term.parts:
            return term
        args = tuple(self.substitute(arg, known, node) if isinstance(arg, Term) else arg for arg in term.args)
        if args == term.args:
            result = term
        elif term.op == "item":
            result = self.item(args[0], args[1], node or term.node)
        elif term.op == "phi":
            result = self.phi(args[0], args[1], args[2], node or term.node)
        elif term.op in {"Eq", "In"} and len(args) == 2:
            result = self.compared(term.op, args[0], args[1], node or term.node)
        elif term.op == "not":
            result = self.negated(args[0])
        else:
            result = self.make(term.op, *args, node=node or term.node)
        known[term] = result
        return result
