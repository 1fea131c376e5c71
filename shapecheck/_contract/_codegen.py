"""Straight-line Python for one contract: readable, printable, traceable by Dynamo without a break.

The code only finds *that* a call is wrong; `_diagnose` says what is wrong. So the path that good calls take has
nothing on it but comparisons, one `.shape` a tensor.
"""

import inspect
import keyword
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import NamedTuple

from shapecheck._contract._dims import Dim, positions
from shapecheck._contract._plan import Header, Match, MatchRun, Plan, Step, symbols
from shapecheck._contract._spec import Argument, Owner, Spec, identifier
from shapecheck._invariants import Elementwise, Operand
from shapecheck._levels import Level

# What the generated code takes from its globals, under these names unless the user's own names are among them.
HELPERS = (
    "Tensor",
    "accelerated",
    "accept_hints",
    "accept_result",
    "assert_on_device",
    "check_values",
    "contract",
    "fetch",
    "float",
    "function",
    "int",
    "is_compiling",
    "isinstance",
    "len",
    "level_in_force",
    "missing",
    "refuse",
    "tuple",
    "went_on",
    "violated",
)


class Generated(NamedTuple):
    """Source of the functions `refuse` and `checked`, and the name in it of each global, by what it stands for."""

    source: str
    names: Mapping[str, str]


def generate(
    spec: Spec,
    signature: inspect.Signature,
    level: Level,
    hinted: Sequence[str],
    *,
    fixed: bool = True,
    is_async: bool = False,
    passes_on: bool = False,
) -> Generated:
    """The wrapper, a function `checked` with the parameters of `signature`.

    Args:
        level: what is checked; where it is not `fixed`, unless `configure` says otherwise at the call.
        hinted: arguments whose hints beartype enforces, and `"return"`.
        passes_on: whether the function is another decorator's wrapper, which must get exactly what the caller passed:
            no defaults filled in, keywords as keywords.
    """
    writer = _Writer(spec, signature, level, hinted, fixed, is_async, passes_on)
    return Generated(writer.write(), writer.names)


def dtypes_key(argument: Argument) -> str:
    """What the dtypes allowed for `argument` are called among the globals."""
    return f"dtypes_{identifier(argument.name)}"


def getter_key(owner: str) -> str:
    """What the function that gives metadata `owner` is called among the globals."""
    return f"get_{identifier(owner)}"


def default_key(parameter: str) -> str:
    """What a parameter's default is called among the globals."""
    return f"default_{parameter}"


class _Writer:
    def __init__(
        self,
        spec: Spec,
        signature: inspect.Signature,
        level: Level,
        hinted: Sequence[str],
        fixed: bool,
        is_async: bool,
        passes_on: bool,
    ) -> None:
        self.passes_on, self.fixed = passes_on, fixed
        self.spec, self.signature, self.level, self.hinted, self.is_async = spec, signature, level, hinted, is_async
        self.plan: Plan = spec.plan
        self.lines: list[str] = []
        self.depth = 1
        symbols_used = {
            name.lstrip("*") for step in (*spec.plan.arguments, *spec.plan.returns) for name in symbols(step)
        }
        self.taken = {*signature.parameters, *keyword.kwlist}
        self.names: dict[str, str] = {}
        shadowed = self.taken | symbols_used
        defaults = [default_key(name) for name in signature.parameters]
        getters = [getter_key(owner.name) for owner in spec.owners if owner.bound]
        inner = ("bound", "call", "keywords", "level", "passed", "reported", "returned", "whole")
        for key in (*HELPERS, *defaults, *getters, *map(dtypes_key, spec.by_name.values()), "checked", *inner):
            self.names[key] = self.fresh(key, shadowed)
        self.globals = SimpleNamespace(**self.names)
        self.symbols: dict[str, str] = {}  # symbol -> variable, once it may be bound
        self.bound: set[str] = set()  # symbols surely bound once the lines held back in a group are written
        self.unsure: set[str] = set()  # symbols whose variable may hold None
        self.shapes: dict[str, str] = {}  # argument -> variable of its shape
        self.result = ""  # variable of what the function returned
        self.results: list[str] = []  # source of each single result
        self.places = {argument.name: argument.name for argument in spec.arguments}  # argument -> its variable
        for argument in spec.arguments:
            if argument.name not in signature.parameters:
                self.places[argument.name] = self.fresh(identifier(argument.name), symbols_used)
        for owner in spec.owners:
            if owner.name not in signature.parameters and owner.name not in self.places:
                self.places[owner.name] = self.fresh(identifier(owner.name), symbols_used)

    # -- text ------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def indented(self, header: str) -> Iterator[None]:
        self.line(header)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, name: str, shadowed: Collection[str] = ()) -> str:
        """`name`, with as many underscores as keep it apart from every other name."""
        while name in self.taken or name in shadowed:
            name += "_"
        self.taken.add(name)
        return name

    def symbol(self, name: str) -> str:
        if name not in self.symbols:
            self.symbols[name] = self.fresh(name.replace("*", "run_"))
        return self.symbols[name]

    def definite_symbols(self) -> dict[str, str]:
        return {name: self.symbols[name] for name in self.bound}

    def sized(self, names: Iterable[str]) -> list[str]:
        """Conditions under which the named symbols have a size."""
        return [f"{self.symbols[name]} is not None" for name in names if name in self.unsure]

    # -- the function ----------------------------------------------------------------------------------------------

    def write(self) -> str:
        n = self.globals
        self.depth = 0
        self.refusal()
        self.line("")
        self.line("")
        asynchronous = "async " if self.is_async else ""
        awaited = "await " if self.is_async else ""
        name, parameters, call = n.checked, self.parameters(), f"{awaited}{self.call()}"
        if self.passes_on:
            with self.indented(f"{asynchronous}def {n.checked}(*{n.passed}, **{n.keywords}):"):
                with self.indented(f"def {n.call}():"):
                    self.line(f"return {n.function}(*{n.passed}, **{n.keywords})")
                self.line(f"return {awaited}{n.bound}({n.call}, *{n.passed}, **{n.keywords})")
            self.line("")
            self.line("")
            separator = "" if inspect.Parameter.POSITIONAL_ONLY in self.kinds() else "/, "
            name, parameters = n.bound, f"{n.call}, {separator}{parameters}"
        with self.indented(f"{asynchronous}def {name}({parameters}):"):
            if not self.fixed:
                self.line(f"{n.level} = {n.level_in_force}({int(self.level)})")
                with self.indented(f"if {n.level} == {int(Level.OFF)}:"):
                    self.line(f"return {call}")
            self.fields()
            self.declare(name for step in self.plan.arguments for name in symbols(step))
            self.steps(self.plan.arguments)
            self.static_invariants()
            self.number_invariants()
            self.hints()
            if not self.fixed or self.level >= Level.HOST:
                self.values()
            if not self.fixed or self.level is Level.DEVICE:
                self.device_values()
            if not self.spec.returns and "return" not in self.hinted:
                self.line(f"return {call}")
            else:
                self.returned(call)
        return "\n".join(self.lines) + "\n"

    def declare(self, names: Iterable[str]) -> None:
        """Start with None the symbols that only an optional value can bind."""
        for name in names:
            if name not in self.plan.definite and name not in self.symbols:
                self.unsure.add(name)
                self.line(f"{self.symbol(name)} = None")

    def parameters(self) -> str:
        parts: list[str] = []
        kinds = [parameter.kind for parameter in self.signature.parameters.values()]
        starred = False
        for i, parameter in enumerate(self.signature.parameters.values()):
            default = "" if parameter.default is parameter.empty else f"={self.names[default_key(parameter.name)]}"
            if parameter.kind is parameter.VAR_POSITIONAL:
                parts.append(f"*{parameter.name}")
                starred = True
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                parts.append(f"**{parameter.name}")
                continue
            if parameter.kind is parameter.KEYWORD_ONLY and not starred:
                parts.append("*")
                starred = True
            parts.append(parameter.name + default)
            if parameter.kind is parameter.POSITIONAL_ONLY and (
                i + 1 == len(kinds) or kinds[i + 1] is not parameter.POSITIONAL_ONLY
            ):
                parts.append("/")
        return ", ".join(parts)

    def kinds(self) -> list[object]:
        return [parameter.kind for parameter in self.signature.parameters.values()]

    def forwarded(self) -> str:
        prefixes: dict[object, str] = {
            inspect.Parameter.VAR_POSITIONAL: "*{0}",
            inspect.Parameter.VAR_KEYWORD: "**{0}",
            inspect.Parameter.KEYWORD_ONLY: "{0}={0}",
        }
        parameters = self.signature.parameters.values()
        return ", ".join(prefixes.get(parameter.kind, "{0}").format(parameter.name) for parameter in parameters)

    def call(self) -> str:
        """Source of the call of the function itself."""
        n = self.globals
        return f"{n.call}()" if self.passes_on else f"{n.function}({self.forwarded()})"

    # -- metadata --------------------------------------------------------------------------------------------------

    def fields(self) -> None:
        """Read the fields of metadata into variables."""
        variables = [place for name, place in self.places.items() if name not in self.signature.parameters]
        if variables:
            self.line(f"{' = '.join(variables)} = None")
        for owner in self.spec.owners:
            place = self.places.get(owner.name, owner.name)
            if owner.bound:
                self.line(f"{place} = {self.names[getter_key(owner.name)]}()")
            if not owner.fields:
                continue
            self.line(f"# the fields of {owner.name}")
            if owner.optional:
                with self.indented(f"if {place} is not None:"):
                    self.fields_of(owner, place)
            else:
                self.fields_of(owner, place)

    def fields_of(self, owner: Owner, place: str) -> None:
        n = self.globals
        for one in owner.fields:
            variable = self.places[one.argument]
            self.line(f"{variable} = {n.fetch}({place}, {one.key!r}, {one.required})")
            if one.required:
                self.refuse(f"{variable} is {n.missing}")
            if one.symbol:
                self.refuse(f"not {n.isinstance}({variable}, {n.int})")
                self.symbols[one.symbol] = variable
                self.bound.add(one.symbol)

    # -- refusing --------------------------------------------------------------------------------------------------

    def refuse(self, condition: str) -> None:
        """Report the call if `condition` is true, and go on with the function unless that raised."""
        n = self.globals
        values = self.refused()
        if self.result:
            several = self.spec.returns_tuple and self.results  # known to be a tuple of the right length
            values.append(f"{n.returned}={self.result}" if several else f"{n.returned}=({self.result},)")
            values.append(f"{n.whole}={self.result}")
        with self.indented(f"if {condition}:"):
            self.line(f"return {'await ' if self.is_async else ''}{n.refuse}({', '.join(values)})")

    def refused(self) -> list[str]:
        """The variables that `refuse` is given: all arguments, as the function and the contract know them."""
        n = self.globals
        extra = [place for name, place in self.places.items() if name not in self.signature.parameters]
        return [*([n.call] if self.passes_on else []), *self.signature.parameters, *extra]

    def refusal(self) -> None:
        """Write `refuse`, which reports a call. It is off the good call's path, so it may look at everything again: at
        the shape that the result should have, so that a trace can go on until the report at run time."""
        n = self.globals
        awaited = "await " if self.is_async else ""
        names = [self.places[argument.name] for argument in self.spec.arguments]
        with self.indented(
            f"{'async ' if self.is_async else ''}def {n.refuse}("
            f"{', '.join([*self.refused(), '*', f'{n.returned}=()', f'{n.whole}=None'])}):"
        ):
            wanted = [
                name
                for argument in self.spec.returns
                for dim in (argument.tensor.axes if argument.tensor else ())
                for name in _size_names(dim)
                if name not in self.spec.constants
            ]
            sources: dict[str, str] = {}
            for name in dict.fromkeys(wanted):
                sources[name] = self.fresh(name)
                self.line(f"{sources[name]} = {self.anywhere(name)}")
            shapes = [self.result_shape(argument, sources) for argument in self.spec.returns]
            known = " and ".join(f"{source} is not None" for source in sources.values())
            listed = f"[{', '.join(map(str, shapes))}]" if shapes and all(shapes) else "None"
            if known and listed != "None":
                listed = f"{listed} if {known} else None"
            given = f"[{', '.join([*names, f'*{n.returned}'])}]"
            self.line(f"{n.reported} = {n.violated}({n.contract}, {given}, {listed})")
            with self.indented(f"if {n.reported} is not {n.went_on}:"):
                self.line(f"return {n.reported}")
            if self.spec.returns or "return" in self.hinted:
                with self.indented(f"if {n.returned}:"):
                    self.line(f"return {n.whole}")
            self.line(f"return {awaited}{self.call()}")
        self.taken -= set(sources.values())

    def anywhere(self, name: str) -> str:
        """Source of the size of an axis symbol, from whichever argument has it; None where none has."""
        n = self.globals
        source = "None"
        for step in reversed(self.plan.arguments):
            if isinstance(step, Match) and step.dim.kind == "name" and step.dim.name == name:
                place, axes = self.places[step.argument.name], step.argument.tensor.axes if step.argument.tensor else ()
                fits = f"{n.isinstance}({place}, {n.Tensor}) and {place}.dim() {_rank_operator(axes)}"
                source = f"{place}.shape[{step.axis}] if {fits} else {source}"
        return source

    def result_shape(self, argument: Argument, sources: Mapping[str, str]) -> str | None:
        if argument.tensor is None or argument.tensor.dims is None:
            return None
        sizes: list[str] = []
        for dim in argument.tensor.axes:
            if dim.kind in ("any", "run") or dim.broadcast or dim.attributes:
                return None
            if dim.kind == "fixed":
                sizes.append(str(dim.size))
            elif dim.kind == "name":
                sizes.append(sources[dim.name])
            elif dim.expression.divisors(str):
                return None
            else:
                sizes.append(dim.expression.code(sources.__getitem__))
        return f"[{', '.join(sizes)}]"

    # -- shapes ----------------------------------------------------------------------------------------------------

    def steps(self, steps: Iterable[Step], places: Mapping[str, str] | None = None) -> None:
        """Write steps, those of one argument that follow each other under one comment and one `is not None`.

        Args:
            places: source of each argument's value where it is not its own name, for results.
        """
        # Results may bind what absent arguments left open, so that arguments are looked at again with them.
        sources = {**self.places, **(places or {})}
        groups: list[list[Step]] = []
        for step in steps:
            if groups and groups[-1][0].argument is step.argument:
                groups[-1].append(step)
            else:
                groups.append([step])
        for group in groups:
            argument = group[0].argument
            place = sources[argument.name]
            assert argument.tensor is not None
            if isinstance(group[0], Header):
                self.line(f"# {argument.name}: {argument.tensor.text}{' | None' if argument.optional else ''}")
            if argument.open:
                with self.indented(f"if {self.is_there(argument, place)}:"):
                    self.group(group, place)
            else:
                self.group(group, place)

    def group(self, group: Sequence[Step], place: str) -> None:
        n = self.globals
        argument = group[0].argument
        conditions: list[str] = []
        if isinstance(group[0], Header):
            self.refuse(f"not {n.isinstance}({place}, {n.Tensor})")
            conditions = self.header(argument, place)
        binds: dict[str, str] = {}
        for step in group:
            match step:
                case Match():
                    self.match(step, conditions, binds)
                case MatchRun():
                    self.match_run(step, conditions, binds)
        self.flush(conditions, binds)

    def flush(self, conditions: list[str], binds: dict[str, str]) -> None:
        """Write the comparisons held back, then the assignments: symbol -> source of its size."""
        if conditions:
            self.refuse(" or ".join(conditions))
        for name, size in binds.items():
            self.line(f"{self.symbol(name)} = {size}")
        conditions.clear()
        binds.clear()

    def header(self, argument: Argument, place: str) -> list[str]:
        n = self.globals
        tensor = argument.tensor
        assert tensor is not None
        conditions: list[str] = []
        if tensor.dims is not None:
            shape = self.shapes[argument.name] = self.fresh(f"shape_{identifier(argument.name)}")
            self.line(f"{shape} = {place}.shape")
            runs = sum(dim.kind == "run" for dim in tensor.axes)
            conditions.append(f"{n.len}({shape}) {'<' if runs else '!='} {len(tensor.axes) - runs}")
        if tensor.dtypes is not None:
            dtypes = self.names[dtypes_key(argument)]
            operator = "is not" if len(tensor.dtypes) == 1 else "not in"
            conditions.append(f"{place}.dtype {operator} {dtypes}")
        for axis, dim in positions(tensor.axes):
            if dim.kind == "fixed":
                size = f"{self.shapes[argument.name]}[{axis}]"
                wrong = f"{size} != {dim.size}"
                conditions.append(f"({size} != 1 and {wrong})" if dim.broadcast else wrong)
        return conditions

    def match(self, step: Match, conditions: list[str], binds: dict[str, str]) -> None:
        size = f"{self.shapes[step.argument.name]}[{step.axis}]"
        names = step.dim.expression.names if step.dim.kind == "expression" else (step.dim.name,)
        source = step.dim.expression.code(self.symbol) if step.dim.kind == "expression" else self.symbol(step.dim.name)
        if step.dim.broadcast:
            self.broadcast(step, size, source, conditions, binds)
            return
        if self.bound.issuperset(names):
            if not binds.keys().isdisjoint(names):
                self.flush(conditions, binds)  # bound by this very argument
            conditions.append(self.guarded_division(step, f"{size} != {source}"))
            return
        if step.dim.kind == "name" and step.dim.name not in self.unsure:
            self.bound.add(step.dim.name)
            binds[step.dim.name] = size
            return
        self.flush(conditions, binds)
        if step.dim.kind == "name":
            with self.indented(f"if {source} is None:"):
                self.line(f"{source} = {size}")
            self.refuse(f"{source} != {size}")
            return
        self.expression(step, size, source)

    def broadcast(self, step: Match, size: str, source: str, conditions: list[str], binds: dict[str, str]) -> None:
        """`#S`: 1, or the size of S, which the first other size binds where no other axis did."""
        if step.dim.name in self.bound:
            conditions.append(f"({size} != 1 and {size} != {source})")
            return
        self.flush(conditions, binds)
        with self.indented(f"if {source} is None and {size} != 1:"):
            self.line(f"{source} = {size}")
        self.refuse(f"{size} != 1 and {size} != {source}")

    def guarded_division(self, step: Match, condition: str) -> str:
        """`S//P` says nothing where P is 0, and must not raise."""
        if step.dim.kind != "expression":
            return condition
        divisors = step.dim.expression.divisors(self.symbol)
        return f"({' and '.join([*(f'{divisor} != 0' for divisor in divisors), condition])})" if divisors else condition

    def expression(self, step: Match, size: str, source: str) -> None:
        """An expression that may have to be solved for a symbol, statically or by what the call brought."""
        expression = step.dim.expression
        unsure = [name for name in expression.names if name not in self.bound]
        if len(unsure) == 1 and expression.can_solve(unsure[0]) and unsure[0] not in self.unsure:
            self.solve(step, size, unsure[0])
            self.bound.add(unsure[0])
            return
        known = " and ".join(f"{self.symbol(name)} is not None" for name in unsure)
        self.refuse(f"{known} and {self.guarded_division(step, f'{size} != {source}')}")
        for name in unsure:
            if expression.can_solve(name):
                others = [f"{self.symbol(other)} is not None" for other in unsure if other != name]
                with self.indented(f"if {' and '.join([f'{self.symbol(name)} is None', *others])}:"):
                    self.solve(step, size, name)

    def solve(self, step: Match, size: str, name: str) -> None:
        affine = step.dim.expression.affine
        assert affine is not None
        factor = dict(affine.factors)[name]
        rest = size if affine.constant == 0 else f"{size} - {affine.constant}".replace("- -", "+ ")
        for other, other_factor in affine.factors:
            if other != name:
                rest += f" - {other_factor} * {self.symbol(other)}".replace("- -", "+ ")
        variable = self.symbol(name)
        if factor == 1:
            self.line(f"{variable} = {rest}")
        else:
            self.refuse(f"({rest}) % {factor} != 0")
            self.line(f"{variable} = ({rest}) // {factor}")
        self.refuse(f"{variable} < 0")

    def match_run(self, step: MatchRun, conditions: list[str], binds: dict[str, str]) -> None:
        n = self.globals
        shape, key = self.shapes[step.argument.name], f"*{step.dim.name}"
        run = f"{shape}[{step.front or ''}:{f'{n.len}({shape}) - {step.back}' if step.back else ''}]"
        variable = self.symbol(key)
        if key in self.bound:
            conditions.append(f"{run} != {variable}")
        elif key not in self.unsure:
            self.bound.add(key)
            binds[key] = run
        else:
            self.flush(conditions, binds)
            with self.indented(f"if {variable} is None:"):
                self.line(f"{variable} = {run}")
            self.refuse(f"{variable} != {run}")

    # -- invariants ------------------------------------------------------------------------------------------------

    def operands(self, names: Iterable[str]) -> dict[str, Operand]:
        """Those of the named arguments that are tensors."""
        return {
            name: Operand(self.places[name], self.shapes.get(name, f"{self.places[name]}.shape"))
            for name in names
            if self.spec.by_name[name].tensor is not None
        }

    def is_there(self, argument: Argument, place: str) -> str:
        """Condition under which an argument that need not be a tensor is one."""
        n = self.globals
        return f"{n.isinstance}({place}, {n.Tensor})" if argument.mixed else f"{place} is not None"

    def present(self, names: Iterable[str]) -> list[str]:
        """Conditions under which the named arguments are there."""
        found = [self.spec.by_name[name] for name in dict.fromkeys(names)]
        return [self.is_there(argument, self.places[argument.name]) for argument in found if argument.open]

    def static_invariants(self) -> None:
        for argument in self.spec.arguments:
            for own in self.operands([argument.name]).values():
                self.static_invariants_of(argument, own)

    def static_invariants_of(self, argument: Argument, own: Operand) -> None:
        for invariant in argument.invariants:
            others = self.operands(invariant.arguments())
            code = invariant.refusal_code(own, self.symbols, others)
            if code is None:
                continue
            conditions = [*self.present([argument.name, *others]), *self.sized(invariant.symbols())]
            code = f"({code})" if conditions and " or " in code else code
            self.line(f"# {argument.name}: {invariant!r}")
            self.refuse(" and ".join([*conditions, code]))

    def number_invariants(self) -> None:
        n = self.globals
        for argument in self.spec.arguments:
            for invariant in self.spec.guards(argument):
                place = self.places[argument.name]
                code = invariant.number_code(place, self.symbols) if isinstance(invariant, Elementwise) else None
                if code is None:
                    continue
                self.line(f"# {argument.name}: {invariant!r}")
                conditions = [*self.present([argument.name]), *self.sized(invariant.symbols())]
                self.refuse(
                    " and ".join(
                        [
                            *conditions,
                            f"not ({n.isinstance}({place}, ({n.int}, {n.float})) and {code})",
                        ]
                    )
                )

    def hints(self) -> None:
        n = self.globals
        names = [self.places[name] for name in self.hinted if name != "return"]
        if names:
            # Not in a compiled region: to read a number there makes Dynamo guard on its value, one more graph.
            self.refuse(f"not {n.is_compiling}() and not {n.accept_hints}({', '.join(names)})")

    def values(self) -> None:
        n = self.globals
        if not self.spec.valued:
            return
        operands = ", ".join(self.places[name] for name in self.spec.value_operands)
        sizes = ", ".join(str(self.symbols.get(name)) for name in self.spec.value_symbols)
        sync = str(self.level is Level.SYNC) if self.fixed else f"{n.level} == {int(Level.SYNC)}"
        conditions = [] if self.fixed else [f"{n.level} >= {int(Level.HOST)}"]
        deciding = self.deciding()
        if sync != "True" and deciding:
            on_host = [] if self.fixed else [sync]
            for argument in deciding:
                place = self.places[argument.name]
                there = self.is_there(argument, place)
                on_host.append(f"({there} and {place}.is_cpu)" if argument.open else f"{place}.is_cpu")
            some = " or ".join(on_host)
            conditions.append(f"({some})" if len(on_host) > 1 else some)
        self.line("# values on the host" if sync != "True" else "# values, wherever they are")
        check = f"not {n.check_values}({n.contract}, [{operands}], [{sizes}], {sync})"
        self.refuse(" and ".join([*conditions, check]))

    def deciding(self) -> list[Argument]:
        """Tensors of which one must be on the host for the value checks to say anything; none where they may anyhow."""
        names: list[str] = []
        for argument in self.spec.valued:
            others = [name for one in self.spec.value_invariants(argument) for name in one.arguments()]
            if argument.tensor is not None:
                names.append(argument.name)
            elif argument.number and all(self.spec.by_name[name].tensor is not None for name in others):
                names += others
            else:
                return []
        return [self.spec.by_name[name] for name in dict.fromkeys(names)]

    def device_values(self) -> None:
        n = self.globals
        checks: dict[tuple[str, ...], list[str]] = {}  # by the tensors that must be on an accelerator
        for argument in self.spec.valued:
            if argument.tensor is None and not argument.number:
                continue
            for invariant in self.spec.value_invariants(argument):
                others = self.operands(invariant.arguments())
                absent = [name for name in others if self.spec.by_name[name].open]
                if absent or (argument.number and argument.optional):
                    continue
                code = invariant.condition_code(self.places[argument.name], self.definite_symbols(), others)
                if code is not None:
                    tensors = (argument.name, *others) if argument.tensor is not None else tuple(others)
                    checks.setdefault(tensors, []).append(code)
        if not checks:
            return
        self.line("# values on an accelerator: asserted there, without a sync")
        if self.fixed:
            self.assertions(checks)
        else:
            with self.indented(f"if {n.level} == {int(Level.DEVICE)}:"):
                self.assertions(checks)

    def assertions(self, checks: Mapping[tuple[str, ...], Sequence[str]]) -> None:
        n = self.globals
        conditions = self.fresh("conditions")
        self.line(f"{conditions} = []")
        for tensors, codes in checks.items():
            there = " and ".join(f"{n.accelerated}({self.places[name]})" for name in tensors)
            with self.indented(f"if {there}:"):
                self.line(f"{conditions}.append({' & '.join(codes)})")
        with self.indented(f"if {conditions}:"):
            self.line(f"{n.assert_on_device}({conditions}, {device_message(self.spec)!r})")

    # -- results ---------------------------------------------------------------------------------------------------

    def returned(self, call: str) -> None:
        n = self.globals
        self.result = self.fresh("result")
        self.line(f"{self.result} = {call}")
        if "return" in self.hinted:
            self.refuse(f"not {n.is_compiling}() and not {n.accept_result}({self.result})")
        if self.spec.returns_tuple:
            count = len(self.spec.returns)
            self.refuse(f"not {n.isinstance}({self.result}, {n.tuple}) or {n.len}({self.result}) != {count}")
            self.results = [f"{self.result}[{i}]" for i in range(count)]
        else:
            self.results = [self.result]
        if self.unsure or any(argument.open for argument in self.spec.returns):
            self.declare(name for step in self.plan.returns for name in symbols(step))
        places = {argument.name: place for argument, place in zip(self.spec.returns, self.results, strict=False)}
        self.steps(self.plan.returns, places)
        self.line(f"return {self.result}")


def device_message(spec: Spec) -> str:
    """Short ASCII without quotes, backslashes or newlines: all that a device assertion can carry (CUDA: 255 bytes)."""
    parts = [f"{argument.name}: {', '.join(map(repr, spec.value_invariants(argument)))}" for argument in spec.valued]
    text = f"shapecheck: {spec.function}: broken is one of {'; '.join(parts)} (SHAPECHECK=sync tells which)"
    plain = text.encode("ascii", "replace").decode().translate({ord(c): None for c in "\"'\\\n\r"})
    return plain if len(plain) <= 240 else plain[:237] + "..."


def _size_names(dim: Dim) -> tuple[str, ...]:
    if dim.kind == "expression":
        return dim.expression.names
    return (dim.name,) if dim.kind == "name" else ()


def _rank_operator(axes: Sequence[Dim]) -> str:
    runs = sum(dim.kind == "run" for dim in axes)
    return f"{'>=' if runs else '=='} {len(axes) - runs}"
