"""numpy functions that torch lacks."""

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.engine.transfer._registry import CallView, function


@function("numpy.insert")
def insert(call: CallView) -> Term | None:
    """`np.insert(x, 0, 0)` puts a value in front."""
    source, at, value = call.arg(0, "arr"), call.arg(1, "obj"), call.arg(2, "values")
    if source is None or at is None or value is None or not at.is_const(0):
        return None
    return call.make("cat", call.const(0), call.make("list", call.make("tensor", call.make("list", value)), source))


@function("numpy.append")
def append(call: CallView) -> Term | None:
    source, value = call.arg(0, "arr"), call.arg(1, "values")
    if source is None or value is None:
        return None
    if source.op == "const":
        source = call.make("tensor", call.make("list", source))
    return call.make("cat", call.const(0), call.make("list", source, value))


@function("numpy.add.accumulate")
def accumulate(call: CallView) -> Term | None:
    source = call.arg(0)
    return None if source is None else call.make("cumsum", source, call.const(None))


@function("numpy.int32", "numpy.int64")
def scalar(call: CallView) -> Term | None:
    return call.arg(0)
