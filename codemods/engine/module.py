"""A file: its imports, its functions, and what they return about their arguments."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from shapecheck.codemods.engine.chunks import Chunk, cut, of_tree
from shapecheck.codemods.engine.events import Binding, Call, Context, Event, Return
from shapecheck.codemods.engine.imports import Imports
from shapecheck.codemods.engine.interpret import Interpreter
from shapecheck.codemods.engine.state import State
from shapecheck.codemods.engine.terms import Pool, Term
from shapecheck.codemods.engine.transfer import CallView
from shapecheck.codemods.engine.transfer.sources import Helper
from shapecheck.codemods.engine.walk import walk

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

# A helper of more rows is followed only if it is wanted for itself.
_SHORT = 20

# A helper whose result is bigger than this says nothing useful about its arguments.
_SUMMARY_LIMIT = 400


@dataclass(eq=False)
class Function:
    """One interpreted function.

    Attributes:
        node: its definition.
        module: the file.
        owner: the class it is a method of.
        parameters: name -> the symbol that stands for the argument.
        events: calls, bindings and returns in order.
        final: what holds at the end.
        outer: the conditions around a nested definition.
    """

    node: FunctionNode
    module: "Module"
    owner: "Owner | None"
    parameters: dict[str, Term]
    events: list[Event]
    final: State
    returned: list[Term]
    asserted: list[Term]
    outer: Context = ()
    nested: list["Function"] = field(default_factory=list)

    @property
    def calls(self) -> list[Call]:
        """The calls, in order."""
        return [event for event in self.events if isinstance(event, Call)]

    @property
    def bindings(self) -> list[Binding]:
        """The assignments, in order."""
        return [event for event in self.events if isinstance(event, Binding)]

    @property
    def returns(self) -> list[Return]:
        """The return statements, in order."""
        return [event for event in self.events if isinstance(event, Return)]


class Owner:
    """A class: its methods are parsed when they are asked for."""

    def __init__(self, name: str, chunk: Chunk, node: ast.ClassDef | None = None) -> None:
        self.name = name
        self.chunk = chunk
        self.node = node
        self.members: dict[str, list[Chunk]] = {}
        if node is None:
            for member in chunk.members():
                if member.kind == "function":
                    self.members.setdefault(member.name, []).append(member)
        self.methods: dict[str, FunctionNode | None] = {}


# The targets of an assignment to attributes of self, and their names.
_STORE = re.compile(r"^[ \t]*(self\.\w+[^=\n(]*?)=(?!=)", re.MULTILINE)
_OF_SELF = re.compile(r"self\.(\w+)")


class Module:
    """One file. Only the parts that are asked for are parsed.

    Raises:
        SyntaxError: here and in `definitions`: the file, or the way it was cut, is wrong. Pass `tree` then.
    """

    def __init__(self, text: str, tree: ast.Module | None = None, helpers: Mapping[str, Helper] | None = None) -> None:
        self.helpers = helpers or {}
        self.pool = Pool()
        self._wanted: Callable[[str], bool] = lambda text: True
        self.owners: dict[FunctionNode, Owner] = {}
        self._parsed: dict[Chunk, list[ast.stmt]] = {} if tree is None else of_tree(tree, text)
        self._chunks = list(self._parsed) or cut(text)
        self._texts: dict[str, list[Chunk]] = {}  # functions and classes, not yet parsed
        self._assigned: dict[str, list[Chunk]] = {}
        self._nested: dict[str, FunctionNode | Owner] = {}  # defined below `if` and `try`
        self._owners: dict[Chunk, Owner] = {}
        self._constants: dict[str, Term | None] = {}
        self._done: dict[FunctionNode, Function] = {}
        self._running: set[FunctionNode] = set()
        self._generators: dict[FunctionNode, bool] = {}
        self._attributes: dict[Owner, dict[str, Term]] = {}
        imports = Imports()
        for chunk in self._chunks:
            if chunk.kind != "other":
                self._texts.setdefault(chunk.name, []).append(chunk)
            elif chunk.name in _READ:
                body = self._parse(chunk)
                imports.add(body)
                for inner in _definitions(body):
                    self._nested[inner.name] = (
                        inner if isinstance(inner, FunctionNode) else Owner(inner.name, chunk, inner)
                    )
            else:
                self._assigned.setdefault(chunk.name, []).append(chunk)
        self.imports = {name: path for name, path in imports.paths.items() if name not in self._texts}

    def _parse(self, chunk: Chunk) -> list[ast.stmt]:
        if chunk not in self._parsed:
            self._parsed[chunk] = chunk.parse()
        return self._parsed[chunk]

    def definitions(self, wanted: Callable[[str], bool]) -> Iterator[FunctionNode]:
        """Functions and methods whose text is wanted, in order; nested ones come with their outer function.

        Raises:
            SyntaxError: a wanted part does not parse.
        """
        self._wanted = wanted
        for chunk in self._chunks:
            if (chunk.kind == "other" and chunk.name not in _READ) or not wanted(chunk.text):
                continue
            if chunk.kind == "class":
                yield from self._wanted_methods(self._owner(chunk), wanted)
                continue
            for statement in _definitions(self._parse(chunk)):
                if isinstance(statement, FunctionNode):
                    yield statement
                elif isinstance(owner := self._nested.get(statement.name), Owner):
                    yield from self.methods(owner).values()

    def _wanted_methods(self, owner: "Owner", wanted: Callable[[str], bool]) -> Iterator[FunctionNode]:
        if not owner.members:
            yield from self.methods(owner).values()
        for name, parts in owner.members.items():
            if any(wanted(part.text) for part in parts):
                node = self.method(owner, name)
                if node is not None:
                    yield node

    def _owner(self, chunk: Chunk) -> "Owner":
        if chunk not in self._owners:
            node = None
            if chunk in self._parsed:
                node = next((one for one in self._parsed[chunk] if isinstance(one, ast.ClassDef)), None)
            self._owners[chunk] = Owner(chunk.name, chunk, node)
        return self._owners[chunk]

    def function(self, name: str) -> FunctionNode | None:
        """A function of the file; None if there is none or more than one."""
        found = self._defined(name)
        return None if isinstance(found, Owner) else found

    def class_of(self, name: str) -> "Owner | None":
        """A class of the file; None if there is none or more than one."""
        found = self._defined(name)
        return found if isinstance(found, Owner) else None

    def all_classes(self) -> "Iterator[Owner]":
        """The classes of the file that are defined once."""
        names = [name for name, parts in self._texts.items() if parts[0].kind == "class"]
        for name in (*names, *self._nested):
            found = self.class_of(name)
            if found is not None:
                yield found

    def _defined(self, name: str) -> "FunctionNode | Owner | None":
        candidates = self._texts.get(name)
        if candidates is None:
            return self._nested.get(name)
        if len(candidates) > 1:
            return None
        if candidates[0].kind == "class":
            return self._owner(candidates[0])
        try:
            found = next(_definitions(self._parse(candidates[0])), None)
        except SyntaxError:
            return None
        return found if isinstance(found, FunctionNode) else None

    def methods(self, owner: "Owner") -> dict[str, FunctionNode]:
        """The methods of a class."""
        names = owner.members or [node.name for node in _definitions(self.body(owner))]
        found = {name: self.method(owner, name) for name in names}
        return {name: node for name, node in found.items() if node is not None}

    def method(self, owner: "Owner", name: str) -> FunctionNode | None:
        """A method of a class; of several with one name (overloads, property setters) the last."""
        if name not in owner.methods:
            parts = owner.members.get(name, [])
            body = self._parse(parts[-1]) if parts else [] if owner.members else self.body(owner)
            named = [one for one in _definitions(body) if isinstance(one, FunctionNode) and one.name == name]
            owner.methods[name] = named[-1] if named else None
            if named:
                self.owners[named[-1]] = owner
        return owner.methods[name]

    def body(self, owner: "Owner") -> list[ast.stmt]:
        """All statements of a class."""
        if owner.node is None:
            owner.node = next((one for one in self._parse(owner.chunk) if isinstance(one, ast.ClassDef)), None)
        return [] if owner.node is None else owner.node.body

    def constant(self, name: str) -> Term | None:
        """The value of a name that the file assigns once, at its top level; None if unknown."""
        if name not in self._constants:
            self._constants[name] = None
            found = self._assigned.get(name, [])
            if len(found) == 1:
                try:
                    body = self._parse(found[0])
                except SyntaxError:
                    body = []
                if len(body) == 1 and isinstance(body[0], ast.Assign | ast.AnnAssign) and body[0].value is not None:
                    evaluator = Interpreter(self, State())
                    self._constants[name] = evaluator.eval(body[0].value)
        return self._constants[name]

    def interpret(self, node: FunctionNode) -> Function:
        """Run a function of this file over abstract arguments; cached."""
        if node in self._done:
            return self._done[node]
        self._running.add(node)
        owner = self.owners.get(node)
        state = State()
        function = self._run(node, state, owner, ())
        self._running.discard(node)
        self._done[node] = function
        return function

    def _run(self, node: FunctionNode, state: State, owner: "Owner | None", outer: Context) -> Function:
        parameters: dict[str, Term] = {}
        args = node.args
        ordered = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        for at, arg in enumerate(ordered):
            if at == 0 and owner is not None and args.args and arg.arg in {"self", "cls"}:
                parameters[arg.arg] = self.pool.make("self", owner.name)
            else:
                parameters[arg.arg] = self.pool.make("parameter", arg.arg, id(node), node=arg)
        for rest in (args.vararg, args.kwarg):
            if rest is not None:
                parameters[rest.arg] = self.pool.make("parameter", rest.arg, id(node), node=rest)
        state.names.update(parameters)
        if owner is not None and node.name != "__init__" and "self" in parameters:
            base = parameters["self"]
            for name, term in self._class_attributes(owner).items():
                state.places[base, f".{name}"] = term
        interpreter = Interpreter(self, state)
        interpreter.run(node.body)
        function = Function(
            node,
            self,
            owner,
            parameters,
            interpreter.events,
            interpreter.state,
            interpreter.returned,
            interpreter.asserted,
            outer,
        )
        for inner, closure, context in interpreter.nested:
            # A closure sees the names as they are at the end of the outer function.
            for name, term in interpreter.state.names.items():
                closure.names[name] = term
            closure.dead = False
            function.nested.append(self._run(inner, closure, None, context))
        return function

    def _class_attributes(self, owner: "Owner") -> dict[str, Term]:
        """Attributes of self that `__init__` alone assigns, once."""
        if owner in self._attributes:
            return self._attributes[owner]
        self._attributes[owner] = {}
        init = self.method(owner, "__init__")
        if init is None or init in self._running:
            return {}
        stores = Counter(name for target in _STORE.findall(owner.chunk.text) for name in _OF_SELF.findall(target))
        function = self.interpret(init)
        base = function.parameters.get("self")
        found = {
            place[1][1:]: term
            for place, term in function.final.places.items()
            if place[0] is base and place[1].startswith(".") and stores.get(place[1][1:]) == 1 and term.op != "phi"
        }
        self._attributes[owner] = found
        return found

    # Scope, for the evaluator ----------------------------------------------------------------------------------------

    def summary(self, callee: ast.expr, call: CallView, receiver: Term | None) -> Term | None:
        """What a function of this file returns, in terms of the call's arguments."""
        text = self._text_of(callee, receiver)
        if text is not None and text.count("\n") > _SHORT and not self._wanted(text):
            return None  # long, and says nothing about rows: the price of following it is too high
        node = self._definition(callee, receiver)
        if node is None or node in self._running or None in call.args or "**" in call.kwargs:
            return None
        if node.decorator_list or self._yields(node):
            return None
        function = self.interpret(node)
        if len(function.returned) != 1 or function.returned[0].size > _SUMMARY_LIMIT or function.asserted:
            return None
        result = self._with_writes(function)
        arguments = dict(call.kwargs)
        names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
        if receiver is not None and names[:1] in (["self"], ["cls"]):
            names = names[1:]
        if node.args.vararg is not None or node.args.kwarg is not None or len(call.args) > len(names):
            return None
        arguments.update({name: arg for name, arg in zip(names, call.args, strict=False) if arg is not None})
        defaults = dict(
            zip(
                reversed([a.arg for a in (*node.args.posonlyargs, *node.args.args)]),
                reversed(node.args.defaults),
                strict=False,
            )
        )
        known: dict[Term, Term] = {}
        for name, symbol in function.parameters.items():
            if name in arguments:
                known[symbol] = arguments[name]
            elif symbol.op == "self":
                continue
            elif name in defaults and isinstance(defaults[name], ast.Constant):
                known[symbol] = self.pool.const(defaults[name].value)  # type: ignore[attr-defined]
            else:
                return None
        return self.pool.substitute(result, known, call.node)

    def _with_writes(self, function: Function) -> Term:
        """What a function returns; a dict made here with the keys that were written to it since."""
        result = function.returned[0]
        if result.op not in {"dict", "copy"} or not isinstance(function.node.body[-1], ast.Return):
            return result
        written = [
            (key, value)
            for (base, key), value in function.final.places.items()
            if base is result and key.startswith("[")
        ]
        pairs = [self.pool.make("pair", self.pool.const(key[1:-1]), value) for key, value in written]
        whole = self.pool.make("dict", self.pool.make("star", result), *pairs, node=result.node) if pairs else result
        return whole if whole.size <= _SUMMARY_LIMIT else result

    def _yields(self, node: FunctionNode) -> bool:
        if node not in self._generators:
            self._generators[node] = any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in walk(node))
        return self._generators[node]

    def _text_of(self, callee: ast.expr, receiver: Term | None) -> str | None:
        """The text of the function that is called; None if it is not one that can be told without parsing."""
        parts: list[Chunk] = []
        if isinstance(callee, ast.Name):
            parts = self._texts.get(callee.id, [])
        elif isinstance(callee, ast.Attribute) and receiver is not None and receiver.op == "self":
            owner = self.class_of(receiver.args[0])
            parts = [] if owner is None else owner.members.get(callee.attr, [])
        return parts[-1].text if parts and parts[-1].kind == "function" else None

    def _definition(self, callee: ast.expr, receiver: Term | None) -> FunctionNode | None:
        if isinstance(callee, ast.Name):
            return self.function(callee.id)
        if isinstance(callee, ast.Attribute) and receiver is not None and receiver.op == "self":
            owner = self.class_of(receiver.args[0])
            return None if owner is None else self.method(owner, callee.attr)
        return None


# Statements that are parsed right away: they import, or may define under a condition.
_READ = frozenset({"import", "from", "try", "if", "with"})


def _definitions(body: list[ast.stmt]) -> Iterator[FunctionNode | ast.ClassDef]:
    """The definitions of a module or class, also those below `if` and `try`."""
    for statement in body:
        if isinstance(statement, FunctionNode | ast.ClassDef):
            yield statement
        elif isinstance(statement, ast.If | ast.Try):
            yield from _definitions([*statement.body, *statement.orelse])
            for handler in getattr(statement, "handlers", ()):
                yield from _definitions(handler.body)
