"""Runs a function once over abstract values: branches join, loops that append become comprehensions."""

import ast
from collections.abc import Iterable, Iterator, Sequence

from shapecheck.codemods.engine.evaluate import Evaluator, Scope
from shapecheck.codemods.engine.events import Binding, Context, Return
from shapecheck.codemods.engine.imports import imported
from shapecheck.codemods.engine.state import Place, State, join, unwritten
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.engine.walk import walk

# Methods that change their receiver in place; `evaluate` gives the new value.
_APPENDING = {"append", "extend", "insert"}
_REORDERING = {"sort", "reverse", "shuffle"}
_SHRINKING = {"pop", "popleft", "popitem", "remove", "clear"}

# Operations whose results are Python lists.
_LISTS = {"list", "each", "append", "extend"}

# Loops over displays in one another multiply; beyond this the inner ones are loops like any other.
_MOST_TIMES = 64


class Interpreter(Evaluator):
    """Interprets one function; afterwards `events` and `result` (the joined return value) are filled."""

    def __init__(self, scope: Scope, state: State) -> None:
        super().__init__(scope, state)
        self.breaks: list[Context] = []  # the conditions under which the innermost loop is left early
        self.times = 1  # how often the statements at hand are run, by the loops over displays around them

    def run(self, body: Sequence[ast.stmt]) -> State:
        """Execute a function body."""
        self.block(body)
        return self.state

    def block(self, body: Iterable[ast.stmt]) -> None:
        """Execute statements until one leaves."""
        for statement in body:
            if self.state.dead:
                return
            handler = getattr(self, f"on_{type(statement).__name__}", None)
            if handler is not None:
                handler(statement)

    # Assignments -----------------------------------------------------------------------------------------------------

    def on_Assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value, node, node.value)

    def on_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value), node, node.value)

    def on_AugAssign(self, node: ast.AugAssign) -> None:
        before = self.eval(node.target)
        added = self.eval(node.value)
        value = self.binary(type(node.op).__name__, before, added, node)
        if isinstance(node.target, ast.Name) and {before.op, added.op} & _LISTS:
            self.mutate(node.target, value, node, node.value)  # a list grows in place, under all its names
        else:
            self.assign(node.target, value, node, node.value)

    def assign(self, target: ast.expr, value: Term, node: ast.AST, value_node: ast.expr | None = None) -> None:
        """Bind `target` to `value`."""
        match target:
            case ast.Name(id=name):
                before = self.state.names.get(name)
                self.state.names[name] = value
                self.state.bound_at[name] = node
                self.state.shared.pop(name, None)
                if isinstance(value_node, ast.Name) and isinstance(node, ast.Assign):
                    group = self.state.shared.setdefault(value_node.id, id(node))
                    self.state.shared[name] = group
                self.record(Binding(node, name, value, before, self.context, value_node=value_node))
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                nodes: list[ast.expr | None] = [None] * len(elts)
                if isinstance(value_node, ast.Tuple | ast.List) and len(value_node.elts) == len(elts):
                    nodes = list(value_node.elts)
                self.unpack(elts, value, node, nodes)
            case ast.Starred(value=inner):
                self.assign(inner, value, node, value_node)
            case ast.Attribute(value=base_node, attr=attr):
                base = self.eval(base_node)
                place = (base, f".{attr}")
                before = self.state.places.get(place)
                self.state.places[place] = value
                self.record(Binding(node, ast.unparse(target), value, before, self.context, value_node=value_node))
            case ast.Subscript(value=base_node, slice=index_node):
                base, index = self.eval(base_node), self.index(index_node)
                if index.op == "const" and isinstance(index.value, str):
                    place = (base, f"[{index.value}]")
                    before = self.state.places.get(place)
                    self.state.places[place] = value
                    written = f"{ast.unparse(base_node)}[{index.value!r}]"
                    self.record(Binding(node, written, value, before, self.context, value_node=value_node))
                else:
                    self.mutate(base_node, self.make("store", base, index, value, node=node), node)

    def unpack(self, elts: list[ast.expr], value: Term, node: ast.AST, nodes: list[ast.expr | None]) -> None:
        """Bind the targets of a tuple assignment."""
        starred = next((at for at, elt in enumerate(elts) if isinstance(elt, ast.Starred)), None)
        for at, elt in enumerate(elts):
            if starred is not None and at >= starred:
                index = at - len(elts)
                part = self.symbol("rest", elt) if at == starred else self.item(value, index, elt)
            else:
                part = self.item(value, at, elt)
            self.assign(elt, part, node, nodes[at])

    def item(self, value: Term, index: int, node: ast.AST) -> Term:
        """`value[index]` with a constant index, after what a library call returns there."""
        return self.subscript(value, self.const(index), node)

    def mutate(self, target: ast.expr, value: Term, node: ast.AST, value_node: ast.expr | None = None) -> None:
        """The object that `target` names becomes `value`: `x[1:] = ...`, `x.append(...)`, `x.copy_(...)`."""
        match target:
            case ast.Name(id=name):
                group = self.state.shared.get(name)
                self.assign(target, value, node, value_node)
                if group is not None:
                    self.state.shared[name] = group
                    self.state.names.update({other: value for other, of in self.state.shared.items() if of == group})
            case ast.Attribute():
                self.assign(target, value, node)
            case ast.Subscript(value=inner, slice=index_node):
                index = self.index(index_node)
                if index.op == "const" and isinstance(index.value, str):
                    self.assign(target, value, node)
                else:
                    # x[1:].copy_(y): a view writes through.
                    base = self.eval(inner)
                    written = value.args[1] if value.op == "filled" else value
                    self.mutate(inner, self.make("store", base, index, written, node=node), node)

    def on_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Yield | ast.Await) and node.value.value is not None:
            value = self.eval(node.value.value)
            if isinstance(node.value, ast.Yield):
                self.record(Return(node, value, node.value.value, self.context, dict(self.state.names)))
            return
        value = self.eval(node.value)
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute) and value.op == "mutated":
            self.mutate(node.value.func.value, value.args[0], node)
        elif (
            isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr in _REORDERING
        ):
            self.reorder(node.value.func, value, node)
        elif value.op == "filled" and isinstance(node.value, ast.Call):
            # np.cumsum(lens, out=cu[1:])
            for given in node.value.keywords:
                if given.arg == "out":
                    self.mutate(given.value, value, node)

    def of_Call(self, node: ast.Call) -> Term:
        """A call; afterwards nothing is known about a list that lost items, or a dict that got some."""
        value = super().of_Call(node)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in _SHRINKING and not _removes_key(node):
                self.forget(node.func.value, node)
            elif node.func.attr == "update":
                self.update(node.func.value, node)
        return value

    def forget(self, target: ast.expr, node: ast.AST) -> None:
        """The object that a name stands for changed in an unknown way."""
        if isinstance(target, ast.Name):
            group = self.state.shared.get(target.id)
            changed = self.symbol("changed", node)
            for name in {
                target.id,
                *(other for other, of in self.state.shared.items() if of == group and group is not None),
            }:
                self.state.names[name] = changed
                self.state.bound_at[name] = node

    def update(self, target: ast.expr, node: ast.Call) -> None:
        """`mapping.update(key=value)`, `mapping.update({"key": value})`."""
        base = self.eval(target)
        for given in node.keywords:
            if given.arg is not None:
                self.state.places[base, f"[{given.arg}]"] = self.eval(given.value)
        for more in node.args:
            added = self.eval(more)
            if added.op == "dict" and all(
                part.op == "pair" and isinstance(part.args[0].value, str) for part in added.args
            ):
                self.state.places.update({(base, f"[{part.args[0].value}]"): part.args[1] for part in added.args})
            elif len(node.args) == 1:
                self.forget(target, node)

    def reorder(self, func: ast.Attribute, value: Term, node: ast.AST) -> None:
        """`samples.sort(key=...)`, `samples.reverse()`, `random.shuffle(samples)`: the list keeps its items in
        another order."""
        if func.attr == "shuffle":
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and len(node.value.args) == 1:
                shuffled = node.value.args[0]
                self.mutate(
                    shuffled, self.make("sorted", self.eval(shuffled), self.symbol("shuffle", node), node=node), node
                )
        elif func.attr == "reverse":
            self.mutate(func.value, self.make("flip", self.eval(func.value), node=node), node)
        elif value.op == "tuple" and value.args[0].op == "sorted":
            self.mutate(func.value, value.args[0], node)

    def on_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.state.names.pop(target.id, None)
                self.state.shared.pop(target.id, None)
            elif isinstance(target, ast.Subscript) and not _is_key(target.slice):
                self.forget(target.value, node)

    def on_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, path in imported(node):
            self.state.names[name] = self.make("module", path)

    on_ImportFrom = on_Import

    # Leaving ---------------------------------------------------------------------------------------------------------

    def on_Return(self, node: ast.Return) -> None:
        value = self.eval(node.value) if node.value is not None else self.const(None)
        self.record(Return(node, value, node.value, self.context, dict(self.state.names)))
        self.returned.append(value)
        self.state.dead = True

    def on_Raise(self, node: ast.Raise) -> None:
        self.state.dead = True

    def on_Continue(self, node: ast.Continue) -> None:
        self.state.dead = True

    def on_Break(self, node: ast.Break) -> None:
        self.breaks.append(self.context)
        self.state.dead = True

    def on_Assert(self, node: ast.Assert) -> None:
        self.asserted.append(self.eval(node.test))

    # Branches --------------------------------------------------------------------------------------------------------

    def on_If(self, node: ast.If) -> None:
        cond = self.eval(node.test)
        self.branch(cond, node.body, node.orelse)

    def branch(self, cond: Term, then: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> None:
        """Run both ways and join; only one where a comparison of texts has told which."""
        before = self.state
        if cond.op == "const" and isinstance(cond.node, ast.Compare):
            self.block(then if cond.value else other)
            return
        if cond.op == "not":
            cond, then, other = cond.args[0], other, then
        self.state = before.copy()
        self.under(cond, True, then)
        after_then = self.state
        self.state = before.copy()
        self.under(cond, False, other)
        self.state = join(self.pool, cond, after_then, self.state)

    def under(self, cond: Term, holds: bool, body: Sequence[ast.stmt]) -> None:
        """Run `body` knowing that `cond` is `holds`."""
        outer = self.context
        self.context = (*outer, (cond, holds))
        self.block(body)
        self.context = outer

    def on_Match(self, node: ast.Match) -> None:
        self.eval(node.subject)
        self._alternatives([case.body for case in node.cases], "match", node)

    def on_Try(self, node: ast.Try) -> None:
        before = self.state.copy()
        self.block(node.body)
        self.block(node.orelse)
        tried = self.state
        for handler in node.handlers:
            self.state = before.copy()
            self.block(handler.body)
            tried = join(self.pool, self.symbol("try", node), tried, self.state)
        self.state = tried
        self.block(node.finalbody)

    on_TryStar = on_Try

    def _alternatives(self, bodies: Iterable[Sequence[ast.stmt]], name: str, node: ast.AST) -> None:
        before = self.state
        joined = before.copy()
        for body in bodies:
            cond = self.symbol(name, node)
            self.state = before.copy()
            self.under(cond, True, body)
            joined = join(self.pool, cond, self.state, joined)
        self.state = joined

    def on_With(self, node: ast.With) -> None:
        for item in node.items:
            value = self.eval(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, self.make("entered", value), node)
        self.block(node.body)

    on_AsyncWith = on_With

    # Loops -----------------------------------------------------------------------------------------------------------

    def on_For(self, node: ast.For) -> None:
        source = self.eval(node.iter)
        times = self.times * len(source.few_items)
        if 0 < times <= _MOST_TIMES and not _leaves(node.body):
            # Over a display: run the body for each item, as `for t in (q, k): ...` or `for key in ("ids", "mask")`.
            outer, self.times = self.times, times
            for item in source.few_items:
                self.assign(node.target, item, node.target)
                self.block(node.body)
            self.times = outer
            return
        self.loop(node.body, source, node, node.target)
        self.block(node.orelse)

    on_AsyncFor = on_For

    def on_While(self, node: ast.While) -> None:
        self.eval(node.test)
        self.loop(node.body, self.make("while", self.symbol("times", node)), node, None)

    def loop(self, body: Sequence[ast.stmt], source: Term, node: ast.AST, target: ast.expr | None) -> None:
        """Run a loop body once, from values that stand for "some round", and say what holds after any number of
        rounds."""
        body = _without_continue(body)
        before = self.state
        entry = {}
        self.state = before.copy()
        nodes = [below for statement in body for below in walk(statement)]
        for name in _stored(nodes):
            if name in before.names:
                entry[name] = self.make("round", name, id(node))
                self.pool.first_round[entry[name]] = before.names[name]
                self.state.names[name] = entry[name]
        grown = self.grown_places(nodes, entry, node)
        outer = self.context
        self.context = (*outer, (self.make("loop", source), True))
        if target is not None:
            self.assign(target, self.make("elem", source), target)
        breaks, self.breaks = self.breaks, []
        self.block(body)
        breaks, self.breaks = self.breaks, breaks
        # Left early, only the first items of the source count: a filter like any other.
        stops = [self.make("until", *(cond for cond, _ in left[len(self.context) :])) for left in breaks]
        self.context = outer
        after = self.state
        self.state = before.copy()
        if after.dead and not _leaves(body):
            return
        for name, value in after.names.items():
            if name in entry:
                self.state.names[name] = self._after_rounds(
                    before.names[name], entry[name], value, source, after, entry, stops
                )
                self.state.bound_at[name] = after.bound_at.get(name, node)
            elif before.names.get(name) is not value:
                self.state.names[name] = self.make("last_round", value)
                self.state.bound_at[name] = after.bound_at.get(name, node)
        for place, value in after.places.items():
            if place in grown:
                start = before.places.get(place) or unwritten(self.pool, place)
                self.state.places[place] = self._after_rounds(start, grown[place], value, source, after, entry, stops)
            elif before.places.get(place) is not value:
                # What a round writes to its own item holds for each item afterwards.
                own = target is not None and _is_item_of(place[0], source) and not _leaves(body)
                self.state.places[place] = value if own else self.make("last_round", value)

    def grown_places(self, nodes: Sequence[ast.AST], entry: dict[str, Term], node: ast.AST) -> dict[Place, Term]:
        """The keys and attributes that the nodes of a loop body add to, each with the value that stands for "some
        round"."""
        grown = {}
        for name, key in dict.fromkeys(_grown(nodes)):
            base = self.state.names.get(name)
            if base is not None and name not in entry:
                place = (base, key)
                start = self.state.places.get(place) or unwritten(self.pool, place)
                grown[place] = self.state.places[place] = self.make("round", f"{name}{key}", id(node))
                self.pool.first_round[grown[place]] = start
        return grown

    def _after_rounds(
        self,
        before: Term,
        entry: Term,
        after: Term,
        source: Term,
        state: State,
        entries: dict[str, Term],
        stops: Sequence[Term],
    ) -> Term:
        """The value of a name after the loop, from its value before, at the start and at the end of a round."""
        if after is entry:
            return before
        whole = after
        after, tests = self._unbranched(after, entry)
        item = _appended(after, entry)
        if item is not None:
            running = self._running(item, before, entry, state, entries, source, tests, stops)
            if running is not None:
                return running
        tests += stops
        grown = after
        added: list[Term] = []
        while grown.op in {"append", "extend"}:
            piece = grown.args[1]
            added.append(self.make("star", piece) if grown.op == "extend" else piece)
            grown = grown.args[0]
        if grown is entry and added:
            added.reverse()
            element = added[0] if len(added) == 1 else self.make("several", *added)
            each = self.make("each", element, source, *tests, node=after.node)
            return each if before.op == "list" and not before.args else self.make("Add", before, each)
        if after.op == "Add" and after.args[0] is entry and entry not in set(after.args[1].walk()):
            piece = after.args[1]
            if _is_list(before) or _is_list(piece):
                each = self.make("each", self.make("star", piece), source, *tests, node=after.node)
                return each if before.op == "list" and not before.args else self.make("Add", before, each)
            total = self.make("sum", self.make("each", piece, source, *tests), node=after.node)
            return total if before.is_const(0) else self.make("Add", before, total)
        if after.op == "max" and after.args[0].op == "list" and len(after.args[0].args) == 2:
            # longest = max(longest, n)
            pieces = [part for part in after.args[0].args if part is not entry]
            if (
                len(pieces) == 1
                and type(before.value) is int
                and before.value <= 0
                and entry not in set(pieces[0].walk())
            ):
                return self.make("max", self.make("each", pieces[0], source, *tests), node=after.node)
        return self.make("rounds", before, whole, source, node=whole.node)

    def _unbranched(self, term: Term, entry: Term) -> tuple[Term, list[Term]]:
        """The new value of a name, and the conditions without which it keeps the value `entry`."""
        tests: list[Term] = []
        while term.op == "phi" and entry in term.args[1:]:
            cond, then, other = term.args
            tests.append(cond if other is entry else self.negated(cond))
            term = then if other is entry else other
        return term, tests

    def _running(
        self,
        added: Term,
        before: Term,
        entry: Term,
        state: State,
        entries: dict[str, Term],
        source: Term,
        tests: list[Term],
        stops: Sequence[Term],
    ) -> Term | None:
        """`cu.append(cu[-1] + n)`, and `offset += n; cu.append(offset)`: running sums."""
        if added.op != "Add":
            return None
        a, b = added.args
        last = self.pool.item(entry, self.const(-1))
        summands = _summands(added)
        if summands.count(last) == 1:
            summands.remove(last)
            step = summands[0]
            for summand in summands[1:]:
                step = self.make("Add", step, summand, node=added.node)
            if entry in set(step.walk()):
                return None
            return self.make("running", before, self.make("each", step, source, *tests, *stops), node=added.node)
        for name, value in entries.items():
            if (a is value or b is value) and self._unbranched(state.names[name], value) == (added, tests):
                step = b if a is value else a
                start = self.pool.first_round.get(value)
                if value in set(step.walk()) or start is None or not start.is_const(0):
                    return None
                return self.make("running", before, self.make("each", step, source, *tests, *stops), node=added.node)
        return None

    # Nested definitions ----------------------------------------------------------------------------------------------

    def on_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.nested.append((node, self.state.copy(), self.context))
        self.state.names[node.name] = self.make("function", id(node), node=node)

    on_AsyncFunctionDef = on_FunctionDef


def _appended(grown: Term, entry: Term) -> Term | None:
    """The one item that a list gets: `x.append(item)`, `x.extend([item])`, `x += [item]`."""
    if grown.op not in {"append", "extend", "Add"} or grown.args[0] is not entry:
        return None
    piece: Term = grown.args[1]
    if grown.op == "append":
        return piece
    item: Term | None = piece.args[0] if piece.op == "list" and len(piece.args) == 1 else None
    return None if item is None or item.op == "star" else item


def _is_list(term: Term) -> bool:
    """Whether a value is a Python list for sure."""
    match term.op:
        case "list" | "each":
            return True
        case "Mult":
            return any(side.op == "list" for side in term.args)
        case "copy":
            made = term.node
            return isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "list"
        case "Add":
            return any(_is_list(side) for side in term.args)
    return False


def _summands(term: Term) -> list[Term]:
    """The parts of a sum, left to right."""
    return [part for arg in term.args for part in _summands(arg)] if term.op == "Add" else [term]


def _without_continue(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """The same statements, with `if c: continue` written as an if around the rest of the body."""
    for at, statement in enumerate(body):
        if isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], ast.Continue):
            first, rest = statement.body[:-1], list(_without_continue(body[at + 1 :]))
            return [*body[:at], ast.copy_location(ast.If(statement.test, first, rest), statement)]
    return body


def _is_item_of(base: Term, source: Term) -> bool:
    """Whether a value is an item of a collection, or part of one."""
    while base.op in {"item", "attr"}:
        base = base.args[0]
    return base.op == "elem" and base.args[0] is source


def _stored(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that nodes may rebind or mutate."""
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.AugAssign(target=ast.Name(id=name)):
                yield name
            case ast.Subscript(value=ast.Name(id=name), slice=index, ctx=ast.Store()) if not _is_key(index):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if (
                attr in _APPENDING | _REORDERING | _SHRINKING or (attr.endswith("_") and not attr.startswith("_"))
            ):
                yield name


def _grown(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Keys and attributes that nodes add to: `batch["ids"] += ...`, `self.ids.append(...)`; as name and place."""
    for node in nodes:
        match node:
            case ast.AugAssign(target=target) | ast.Call(func=ast.Attribute(value=target, attr="append" | "extend")):
                match target:
                    case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
                        yield name, f"[{key}]"
                    case ast.Attribute(value=ast.Name(id=name), attr=attr):
                        yield name, f".{attr}"


def _removes_key(node: ast.Call) -> bool:
    """Whether a call removes a key of a dict rather than an item of a list."""
    index = node.args[0] if node.args else None
    if isinstance(index, ast.UnaryOp):
        index = index.operand
    is_place = isinstance(index, ast.Constant) and isinstance(index.value, int)
    return isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and index is not None and not is_place


def _is_key(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and isinstance(index.value, str)


def _leaves(body: Iterable[ast.stmt]) -> bool:
    """Whether a loop body may break, continue or return early."""
    return any(
        isinstance(node, ast.Break | ast.Continue | ast.Return) for statement in body for node in walk(statement)
    )
