"""Expressions to terms."""

import ast
import builtins
from collections.abc import Callable, Mapping
from types import EllipsisType
from typing import Any, Protocol

from shapecheck.codemods.engine.events import Call, Context, Event
from shapecheck.codemods.engine.state import State
from shapecheck.codemods.engine.terms import Pool, Term
from shapecheck.codemods.engine.transfer import FUNCTIONS, METHODS, RESULTS, CallView
from shapecheck.codemods.engine.transfer.sources import Helper

_BUILTINS = frozenset(dir(builtins))

# Binary operations on two integer constants; sizes are often written as arithmetic.
_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mult": lambda a, b: a * b,
}


class Scope(Protocol):
    """What an evaluator asks of the module around it."""

    pool: Pool
    imports: dict[str, str]
    helpers: Mapping[str, Helper]

    def summary(self, callee: ast.expr, call: CallView, receiver: Term | None) -> Term | None:
        """What a function of this file returns for these arguments; None if unknown."""

    def constant(self, name: str) -> Term | None:
        """The value of a name that the file assigns once, at its top level; None if unknown."""


class Evaluator:
    """Evaluates expressions in a state and records the calls."""

    def __init__(self, scope: Scope, state: State) -> None:
        self.scope = scope
        self.pool = scope.pool
        self.state = state
        self.events: list[Event] = []
        self.context: Context = ()
        self.returned: list[Term] = []
        self.asserted: list[Term] = []
        self.nested: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, State, Context]] = []
        self.make = self.pool.make
        self.const = self.pool.const
        self.symbol = self.pool.symbol

    def record(self, event: Event) -> None:
        """Append to the events."""
        event.order = len(self.events)
        self.events.append(event)

    def eval(self, node: ast.expr) -> Term:
        """The term of an expression."""
        handler = getattr(self, f"of_{type(node).__name__}", None)
        if handler is None:
            return self.symbol(type(node).__name__, node)
        term: Term = handler(node)
        return term

    # Leaves ----------------------------------------------------------------------------------------------------------

    def of_Constant(self, node: ast.Constant) -> Term:
        value = node.value
        return (
            self.const(value, node)
            if isinstance(value, int | str | float | bool | EllipsisType | None)
            else self.symbol("constant", node)
        )

    def of_Name(self, node: ast.Name) -> Term:
        known = self.state.names.get(node.id)
        if known is not None:
            return known
        if node.id in self.scope.imports:
            return self.make("module", self.scope.imports[node.id])
        constant = self.scope.constant(node.id)
        if constant is not None:
            return constant
        return self.make("global", node.id, node=node)

    def of_Attribute(self, node: ast.Attribute) -> Term:
        base = self.eval(node.value)
        if base.op == "module":
            return self.make("module", f"{base.args[0]}.{node.attr}")
        written = self.state.places.get((base, f".{node.attr}"))
        if written is not None:
            return written
        if node.attr in {"data", "mT"}:
            return base
        if node.attr == "T":
            return self.make("view", "T", base, node=node)
        return self.make("attr", base, node.attr, node=node)

    def of_Subscript(self, node: ast.Subscript) -> Term:
        base, index = self.eval(node.value), self.index(node.slice)
        return self.subscript(base, index, node)

    def index(self, node: ast.expr) -> Term:
        """What stands in brackets; `x[()]` is `x[...]`, so that a tuple there has items."""
        index = self.eval(node)
        return self.const(...) if index.op == "tuple" and not index.args else index

    def subscript(self, base: Term, index: Term, node: ast.AST) -> Term:
        """`base[index]`."""
        if index.op == "const":
            if base.op == "attr" and base.args[1] == "shape":
                return self.make("shape", base.args[0], index, node=node)
            if isinstance(index.value, str):
                written = self.state.places.get((base, f"[{index.value}]"))
                if written is not None:
                    return written
                if base.op == "phi":
                    # d = dict(d) in a branch: the key may have been written there.
                    then, other = (self.subscript(side, index, node) for side in base.args[1:])
                    if then.op != "item" or other.op != "item":
                        return self.pool.phi(base.args[0], then, other, node)
            elif isinstance(index.value, int) and base.op in RESULTS:
                result = RESULTS[base.op](self.pool, base, index.value)
                if result is not None:
                    return result
            elif type(index.value) is int and index.value >= 0 and base.op == "item" and base.args[0].op == "results":
                start = _first_of(base.args[1])
                if start is not None:  # unpad_input(x, mask)[:4][1]
                    return self.subscript(base.args[0], self.const(start + index.value), node)
        return self.pool.item(base, index, node)

    def of_Slice(self, node: ast.Slice) -> Term:
        none = self.const(None)
        ends = [self.eval(part) if part is not None else none for part in (node.lower, node.upper, node.step)]
        return self.make("slice", *ends, node=node)

    # Displays --------------------------------------------------------------------------------------------------------

    def of_Tuple(self, node: ast.Tuple) -> Term:
        return self.make("tuple", *self.parts(node.elts), node=node)

    def of_List(self, node: ast.List) -> Term:
        return self.make("list", *self.parts(node.elts), node=node)

    def of_Set(self, node: ast.Set) -> Term:
        return self.make("set", *self.parts(node.elts), node=node)

    def parts(self, nodes: list[ast.expr]) -> list[Term]:
        """The items of a display; a starred display is spliced in."""
        found: list[Term] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.eval(node.value)
                if inner.op in {"tuple", "list"}:
                    found.extend(inner.args)
                else:
                    found.append(self.make("star", inner, node=node))
            else:
                found.append(self.eval(node))
        return found

    def of_Starred(self, node: ast.Starred) -> Term:
        return self.make("star", self.eval(node.value), node=node)

    def of_Dict(self, node: ast.Dict) -> Term:
        pairs = []
        for key, value in zip(node.keys, node.values, strict=True):
            term = self.eval(value)
            pairs.append(
                self.make("star", term) if key is None else self.make("pair", self.eval(key), term, node=value)
            )
        if not pairs:
            # Two empty dicts are two places to store into, though they are equal now.
            pairs = [self.make("star", self.symbol("empty", node))]
        return self.make("dict", *pairs, node=node)

    def of_JoinedStr(self, node: ast.JoinedStr) -> Term:
        return self.symbol("text", node)

    def of_Lambda(self, node: ast.Lambda) -> Term:
        outer = self.state
        self.state = outer.copy()
        for name in _parameters(node.args):
            self.state.names[name] = self.make("lambda_argument", name, id(node))
        plain = [*node.args.posonlyargs, *node.args.args]
        for arg, default in zip(reversed(plain), reversed(node.args.defaults), strict=False):
            self.state.names[arg.arg] = self.eval(default)  # `lambda x, layer=layer: layer(x)`
        body = self.eval(node.body)
        self.state = outer
        return self.make("lambda", body, node=node)

    # Operators -------------------------------------------------------------------------------------------------------

    def of_BinOp(self, node: ast.BinOp) -> Term:
        return self.binary(type(node.op).__name__, self.eval(node.left), self.eval(node.right), node)

    def binary(self, op: str, left: Term, right: Term, node: ast.AST) -> Term:
        """`left op right`."""
        if op in _FOLD and isinstance(left.value, int) and isinstance(right.value, int):
            return self.const(_FOLD[op](left.value, right.value), node)
        if op == "Add":
            if left.op == "list" and not left.args and right.op not in {"list", "tuple"}:
                return self.make("copy", right, node=node)
            if left.op in {"list", "tuple"} and right.op == left.op:
                return self.make(left.op, *left.args, *right.args, node=node)
            if left.is_const(0):
                return right
            if right.is_const(0):
                return left
        return self.make(op, left, right, node=node)

    def of_UnaryOp(self, node: ast.UnaryOp) -> Term:
        operand = self.eval(node.operand)
        if isinstance(node.op, ast.USub) and type(operand.value) is int:
            return self.const(-operand.value, node)
        if isinstance(node.op, ast.Not):
            return self.negated(operand)
        return self.make(type(node.op).__name__, operand, node=node)

    def negated(self, cond: Term) -> Term:
        """`not cond`."""
        return self.pool.negated(cond)

    def of_BoolOp(self, node: ast.BoolOp) -> Term:
        values = [self.eval(value) for value in node.values]
        is_and = isinstance(node.op, ast.And)
        if any(value.is_const(not is_and) for value in values):
            return self.const(not is_and)
        open_ones = [value for value in values if not value.is_const(is_and)]
        if len(open_ones) < 2:
            return open_ones[0] if open_ones else self.const(is_and)
        return self.make("and" if is_and else "or", *open_ones, node=node)

    def of_Compare(self, node: ast.Compare) -> Term:
        left = self.eval(node.left)
        terms = []
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node)
            name = type(op).__name__
            # One spelling for each pair, so that `x is None` and `x is not None` are known to be opposites.
            opposite = {"IsNot": "Is", "NotEq": "Eq", "NotIn": "In"}.get(name)
            compared = self.pool.compared(opposite or name, left, right, node)
            terms.append(self.negated(compared) if opposite else compared)
            left = right
        return terms[0] if len(terms) == 1 else self.make("and", *terms, node=node)

    def of_IfExp(self, node: ast.IfExp) -> Term:
        cond = self.eval(node.test)
        return self.pool.phi(cond, self.eval(node.body), self.eval(node.orelse), node)

    def of_NamedExpr(self, node: ast.NamedExpr) -> Term:
        value = self.eval(node.value)
        self.state.names[node.target.id] = value
        self.state.bound_at[node.target.id] = node
        return value

    def of_Await(self, node: ast.Await) -> Term:
        return self.eval(node.value)

    def of_Yield(self, node: ast.Yield) -> Term:
        if node.value is not None:
            self.eval(node.value)
        return self.symbol("sent", node)

    # Comprehensions --------------------------------------------------------------------------------------------------

    def of_ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Term:
        return self.comprehension(node.elt, node.generators, node)

    of_GeneratorExp = of_ListComp
    of_SetComp = of_ListComp

    def of_DictComp(self, node: ast.DictComp) -> Term:
        inner = self.comprehension(ast.Tuple([node.key, node.value], ast.Load()), node.generators, node)
        if inner.op == "list" and all(pair.op == "tuple" for pair in inner.args):
            return self.make("dict", *(self.make("pair", *pair.args, node=node) for pair in inner.args), node=node)
        return self.make("dict_of", inner, node=node)

    def comprehension(self, elt: ast.expr, generators: list[ast.comprehension], node: ast.AST) -> Term:
        """`[elt for ... in ... if ...]` as `each(elt, source, conditions...)`; nested ones are flattened.

        Over a display it is a display: `[f(t) for t in (q, k)]`.
        """
        outer = self.state
        self.state = outer.copy()
        context = self.context
        sources: list[tuple[Term, list[Term]]] = []
        for generator in generators:
            source = self.eval(generator.iter)
            self.context = (*self.context, (self.make("loop", source), True))
            self.bind_target(generator.target, self.make("elem", source))
            sources.append((source, [self.eval(test) for test in generator.ifs]))
        term = self.eval(elt)
        self.context = context
        self.state = outer
        source, tests = sources[0]
        if len(sources) == 1 and not tests and source.few_items:
            variable = self.make("elem", source)
            return self.make(
                "list", *(self.pool.substitute(term, {variable: item}) for item in source.few_items), node=node
            )
        for depth, (source, tests) in enumerate(reversed(sources)):
            if depth == 0 and source.few_items and not tests:
                variable = self.make("elem", source)  # [row for part in parts for row in (first, part)]
                shown = (self.pool.substitute(term, {variable: item}) for item in source.few_items)
                term = self.make("list", *shown, node=node)
                continue
            element = term if depth == 0 else self.make("star", term)
            term = self.make("each", element, source, *tests, node=node)
        return term

    def bind_target(self, target: ast.expr, value: Term) -> None:
        """Bind the variable of a comprehension."""
        if isinstance(target, ast.Name):
            self.state.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for at, part in enumerate(target.elts):
                self.bind_target(part, self.subscript(value, self.const(at), part))

    # Calls -----------------------------------------------------------------------------------------------------------

    def of_Call(self, node: ast.Call) -> Term:
        func = node.func
        receiver: Term | None = None
        if isinstance(func, ast.Attribute):
            base = self.eval(func.value)
            if base.op == "module":
                callee = self.make("module", f"{base.args[0]}.{func.attr}")
            else:
                receiver = base
                callee = self.state.places.get((base, f".{func.attr}")) or self.make("attr", base, func.attr)
        else:
            callee = self.eval(func)
        args: list[Term | None] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                inner = self.eval(arg.value)
                if inner.op in {"tuple", "list"}:
                    args.extend(inner.args)
                else:
                    args.append(None)
            else:
                args.append(self.eval(arg))
        kwargs: dict[str, Term] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif value.op == "dict" and all(part.op == "pair" and part.args[0].op == "const" for part in value.args):
                kwargs.update({str(part.args[0].value): part.args[1] for part in value.args})
            else:
                kwargs["**"] = value
        path, imported = self.callee_path(func, callee)
        result = self.call_result(node, path, imported, receiver, args, kwargs)
        event = Call(
            node,
            path,
            path.rpartition(".")[2],
            imported,
            callee,
            receiver,
            args,
            kwargs,
            result,
            self.context,
            dict(self.state.names),
        )
        self.record(event)
        return result

    def callee_path(self, func: ast.expr, callee: Term) -> tuple[str, bool]:
        """The dotted path of a callee, and whether it came from an import."""
        if callee.op == "module":
            return callee.args[0], True
        if callee.op == "global":
            return callee.args[0], callee.args[0] in _BUILTINS
        parts: list[str] = []
        node: ast.expr = func
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        parts.append(node.id if isinstance(node, ast.Name) else "?")
        return ".".join(reversed(parts)), False

    def call_result(
        self,
        node: ast.Call,
        path: str,
        imported: bool,
        receiver: Term | None,
        args: list[Term | None],
        kwargs: dict[str, Term],
    ) -> Term:
        """What a call returns."""
        name = path.rpartition(".")[2]
        view = CallView(self.pool, node, args, kwargs, path)
        term: Term | None = None
        if receiver is None or not self._is_own(receiver):
            transfer = FUNCTIONS.get(path) if imported else None
            helper = self.scope.helpers.get(name) if transfer is None and receiver is None else None
            if transfer is not None:
                term = transfer(view)
            elif helper is not None:
                term = helper.result(view)
            elif receiver is not None and name in METHODS:
                term = METHODS[name](CallView(self.pool, node, [receiver, *args], kwargs, path))
        if term is None:
            term = self.scope.summary(node.func, view, receiver)
        if term is None:
            if receiver is not None:
                view = CallView(self.pool, node, [receiver, *args], kwargs, f".{name}")
            term = view.opaque()
            if term.node is not node and _may_differ(path):
                term = self.symbol(path, node)
        return term

    def _is_own(self, receiver: Term) -> bool:
        """Whether a method is called on `self`: its own methods may have any name."""
        return receiver.op == "self"


def _first_of(index: Term) -> int | None:
    """The index at which a slice with constant ends starts."""
    if index.op != "slice" or not index.args[2].is_const(None):
        return None
    start = index.args[0].value
    return 0 if index.args[0].is_const(None) else start if isinstance(start, int) and start >= 0 else None


def _may_differ(path: str) -> bool:
    """Whether two calls with the same arguments may return different values."""
    name = path.rpartition(".")[2]
    return name in {"next", "read", "recv", "pop", "input", "rand", "randn", "randint", "randperm"}


def _parameters(args: ast.arguments) -> list[str]:
    names = [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return names + [arg.arg for arg in (args.vararg, args.kwarg) if arg is not None]
