"""Python lists, tuples, dicts and itertools."""

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.engine.transfer._registry import CallView, function, method


@function("len")
def length(call: CallView) -> Term | None:
    source = call.arg(0)
    if source is None:
        return None
    if source.op in {"list", "tuple"} and not any(part.op == "star" for part in source.children()):
        return call.const(len(source.args))
    return call.make("len", source)


@function("list", "tuple", "copy.copy", "copy.deepcopy", "set", "frozenset")
def listed(call: CallView) -> Term | None:
    source = call.arg(0)
    if source is None:
        return call.make("list") if call.path in {"list", "tuple"} and not call.args else None
    if source.op in {"list", "tuple"} and call.path in {"list", "tuple"}:
        return call.make(call.path, *source.args)
    return call.make("copy", source) if call.path not in {"set", "frozenset"} else call.opaque()


@function("dict")
def dictionary(call: CallView) -> Term | None:
    if len(call.args) > 1 or None in call.args:
        return None
    pairs = [call.make("pair", call.const(name), value) for name, value in call.kwargs.items() if name != "**"]
    if "**" in call.kwargs:
        pairs.insert(0, call.make("star", call.kwargs["**"]))
    if call.args and call.args[0] is not None:
        if not pairs:
            return call.make("copy", call.args[0])
        pairs.insert(0, call.make("star", call.args[0]))
    return call.make("dict", *(pairs or [call.make("star", call.pool.symbol("empty", call.node))]))


@function("collections.defaultdict")
def default_dictionary(call: CallView) -> Term | None:
    """A dict of its own whose missing keys hold what the factory makes; only lists are followed."""
    factory = call.arg(0)
    if factory is None or len(call.args) != 1 or call.kwargs:
        return None
    made = call.make("list") if factory.op == "global" and factory.args[0] == "list" else call.make("anything")
    return call.make("defaultdict", made, call.pool.symbol("dict", call.node))


@function("zip", "itertools.zip_longest")
def zipped(call: CallView) -> Term | None:
    return None if None in call.args or not call.args else call.make("zip", *call.args)


@function("enumerate")
def enumerated(call: CallView) -> Term | None:
    source, start = call.arg(0), call.arg(1, "start")
    if source is None:
        return None
    return call.make("enumerate", source, *([] if start is None or start.is_const(0) else [start]))


@method("items")
def items(call: CallView) -> Term | None:
    source = call.arg(0)
    return None if source is None or len(call.args) > 1 else call.make("items", source)


@method("values")
def values(call: CallView) -> Term | None:
    source = call.arg(0)
    if source is None or len(call.args) > 1:
        return None
    if source.op == "dict" and all(part.op == "pair" for part in source.args):
        return call.make("list", *(part.args[1] for part in source.args))
    return call.make("values", source)


@function("sorted")
def ordered(call: CallView) -> Term | None:
    source = call.arg(0)
    return None if source is None else call.make("sorted", source, call.kwargs.get("key") or call.const(None))


@function("reversed")
def backwards(call: CallView) -> Term | None:
    source = call.arg(0)
    return None if source is None else call.make("flip", source)


@function("filter")
def filtered(call: CallView) -> Term | None:
    test, source = call.arg(0), call.arg(1)
    if test is None or source is None:
        return None
    variable = call.make("elem", source)
    return call.make("each", variable, source, call.make("call", "filter", test, variable))


@function("map")
def mapped(call: CallView) -> Term | None:
    mapper, source = call.arg(0), call.arg(1)
    if mapper is None or source is None or len(call.args) != 2:
        return None
    variable = call.make("elem", source)
    if mapper.op == "global" and mapper.args[0] == "len":
        return call.make("each", call.make("len", variable), source)
    if mapper.op == "global" and mapper.args[0] in {"int", "list"}:
        return call.make("copy", source)
    if source.few_items:
        return call.make("list", *(call.make("call", "map", mapper, item) for item in source.few_items))
    return call.make("each", call.make("call", "map", mapper, variable), source)


@function("sum")
def total(call: CallView) -> Term | None:
    source, start = call.arg(0), call.arg(1, "start")
    if source is None:
        return None
    if start is not None and start.op == "list" and not start.args:
        return call.make("flattened", source)
    return call.make("sum", source)


@function("max", "min")
def extremum(call: CallView) -> Term | None:
    if len(call.args) == 1 and call.args[0] is not None:
        return call.make(call.path, call.args[0])
    if None in call.args:
        return None
    return call.make(call.path, call.make("list", *call.args))


@function("int", "float", "round", "math.ceil", "abs")
def number(call: CallView) -> Term | None:
    source = call.arg(0)
    if source is None or call.path in {"abs", "round", "float"}:
        return None
    return call.make("host", source) if call.path == "int" else None


@function("slice")
def cut(call: CallView) -> Term | None:
    if None in call.args or not 1 <= len(call.args) <= 3:
        return None
    none = call.const(None)
    ends = [none, *call.args] if len(call.args) == 1 else list(call.args)
    return call.make("slice", *ends, *[none] * (3 - len(ends)))


@function("range")
def counted(call: CallView) -> Term | None:
    if None in call.args or not call.args:
        return None
    given = list(call.args)
    if len(given) == 1:
        given = [call.const(0), *given]
    if len(given) == 2:
        given.append(call.const(1))
    return call.make("arange", *given)


@function("itertools.accumulate")
def accumulate(call: CallView) -> Term | None:
    source = call.arg(0)
    if source is None or call.arg(1, "func") is not None:
        return None
    total = call.make("cumsum", source, call.const(None))
    initial = call.kwargs.get("initial")
    if initial is None or initial.is_const(None):
        return total
    return call.make("cat", call.const(0), call.make("list", call.make("tensor", call.make("list", initial)), total))


@function("itertools.chain.from_iterable")
def chained(call: CallView) -> Term | None:
    source = call.arg(0)
    return None if source is None else call.make("flattened", source)


@function("itertools.chain")
def chain(call: CallView) -> Term | None:
    if None in call.args or not call.args:
        return None
    parts = [arg for arg in call.args if arg is not None]
    result = parts[0]
    for part in parts[1:]:
        result = call.make("Add", result, part)
    return result


@method("append")
def append(call: CallView) -> Term | None:
    target, value = call.arg(0), call.arg(1)
    if target is None or value is None or len(call.args) != 2:
        return None
    if target.op == "list":
        return call.make("mutated", call.make("list", *target.args, value))
    return call.make("mutated", call.make("append", target, value))


@method("extend")
def extend(call: CallView) -> Term | None:
    target, value = call.arg(0), call.arg(1)
    if target is None or value is None or len(call.args) != 2:
        return None
    if target.op == "list" and value.op in {"list", "tuple"}:
        return call.make("mutated", call.make("list", *target.args, *value.args))
    return call.make("mutated", call.make("extend", target, value))


@method("insert")
def insert(call: CallView) -> Term | None:
    target, at, value = call.arg(0), call.arg(1), call.arg(2)
    if target is None or at is None or value is None or len(call.args) != 3:
        return None
    if at.is_const(0):
        if target.op == "list":
            return call.make("mutated", call.make("list", value, *target.args))
        return call.make("mutated", call.make("Add", call.make("list", value), target))
    return call.make("mutated", call.opaque())


@method("get", "pop")
def get(call: CallView) -> Term | None:
    target, key = call.arg(0), call.arg(1)
    if target is None or key is None or key.op != "const" or not isinstance(key.value, str):
        return None
    return call.pool.item(target, key, call.node)
