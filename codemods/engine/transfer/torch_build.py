"""torch (and the numpy functions of the same name): how metadata is built."""

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.engine.transfer._registry import CallView, dtype_name, function, method, tensor_operation


@tensor_operation("cumsum")
def cumsum(call: CallView) -> Term | None:
    source = call.arg(0, "input", "a")
    if source is None:
        return None
    axis = call.arg(1, "dim", "axis") or call.const(None)
    total = call.with_dtype(call.make("cumsum", source, axis))
    out = call.kwargs.get("out")
    return total if out is None else call.make("filled", out, total)


@method("cumsum_")
def cumsum_in_place(call: CallView) -> Term | None:
    source = call.arg(0)
    axis = call.arg(1, "dim") or call.const(None)
    return (
        None if source is None else call.make("mutated", call.make("filled", source, call.make("cumsum", source, axis)))
    )


@tensor_operation("sum", "max", "amax", "min", "amin", "mean", "prod")
def reduce(call: CallView) -> Term | None:
    source = call.arg(0, "input", "a")
    if source is None:
        return None
    op = {"amax": "max", "amin": "min"}.get(call.path.rpartition(".")[2], call.path.rpartition(".")[2])
    axis = call.arg(1, "dim", "axis")
    if axis is not None and axis.is_const(None):
        axis = None
    if op in {"max", "min"} and axis is not None and axis.op != "const":
        return None  # torch.max(a, b): elementwise
    return call.with_dtype(call.make(op, source) if axis is None else call.make(op, source, axis))


@tensor_operation("div", "divide", "floor_divide")
def floor_divide(call: CallView) -> Term | None:
    source, by = call.arg(0, "input"), call.arg(1, "other")
    rounding = call.kwargs.get("rounding_mode")
    floors = call.path.endswith("floor_divide") or (rounding is not None and rounding.value in {"floor", "trunc"})
    return call.make("FloorDiv", source, by) if source is not None and by is not None and floors else None


@tensor_operation("count_nonzero")
def count_nonzero(call: CallView) -> Term | None:
    """Of a mask, its sum."""
    source = call.arg(0, "input", "a")
    axis = call.arg(1, "dim", "axis")
    return None if source is None or axis is None else call.make("sum", source, axis)


@tensor_operation("diff")
def diff(call: CallView) -> Term | None:
    source = call.arg(0, "input", "a")
    if source is None or len(call.args) > 1 or call.kwargs.keys() & {"prepend", "append", "n"}:
        return None
    return call.make("diff", source)


@tensor_operation("nonzero", "argwhere", "flatnonzero")
def nonzero(call: CallView) -> Term | None:
    source = call.arg(0, "input", "a")
    if source is None:
        return None
    places = call.make("nonzero", source)
    in_tuple = call.path == "numpy.nonzero" or call.kwargs.get("as_tuple", places).is_const(True)
    return call.make("tuple", places) if in_tuple else places


@function("torch.where", "numpy.where")
def where(call: CallView) -> Term | None:
    if len(call.args) == 1 and call.args[0] is not None:
        return call.make("tuple", call.make("nonzero", call.args[0]))
    return None


@function("torch.arange", "numpy.arange")
def arange(call: CallView) -> Term | None:
    if None in call.args:
        return None
    given = list(call.args)
    given += [call.kwargs[name] for name in ("start", "end", "stop", "step") if name in call.kwargs]
    if len(given) == 1:
        given = [call.const(0), *given]
    if len(given) == 2:
        given.append(call.const(1))
    if len(given) != 3:
        return None
    return call.with_dtype(call.make("arange", *given))


@function(
    "torch.zeros", "torch.empty", "torch.ones", "numpy.zeros", "numpy.empty", "numpy.ones", "torch.randn", "torch.rand"
)
def filled(call: CallView) -> Term | None:
    """`full(value, *sizes)`; the value is a constant, or opaque for empty."""
    kind = call.path.rpartition(".")[2]
    value = {"zeros": call.const(0), "ones": call.const(1), "empty": call.make("anything")}.get(kind)
    value = value or call.pool.symbol(kind, call.node)  # random values differ from call to call
    sizes = call.args[:1] if call.path.startswith("numpy") else list(call.args)
    return _full(call, value, sizes, call.kwargs.get("size") or call.kwargs.get("shape"))


@function("torch.full", "numpy.full")
def full(call: CallView) -> Term | None:
    value = call.arg(1, "fill_value")
    return (
        None
        if value is None
        else _full(call, value, call.args[:1], call.kwargs.get("size") or call.kwargs.get("shape"))
    )


@method("new_zeros", "new_ones", "new_empty")
def new_filled(call: CallView) -> Term | None:
    value = {"new_zeros": call.const(0), "new_ones": call.const(1)}.get(
        call.path.rpartition(".")[2], call.make("anything")
    )
    term = _full(call, value, list(call.args[1:]), call.kwargs.get("size"))
    return term if term is None or "dtype" in call.kwargs else _like(call, term)


@method("new_full")
def new_full(call: CallView) -> Term | None:
    value = call.arg(2, "fill_value")
    term = None if value is None else _full(call, value, call.args[1:2], call.kwargs.get("size"))
    return term if term is None or "dtype" in call.kwargs else _like(call, term)


def _full(call: CallView, value: Term, sizes: list[Term | None], named: Term | None) -> Term | None:
    given = [named] if named is not None else sizes
    if len(given) == 1 and given[0] is not None and given[0].op in {"tuple", "list"}:
        given = list(given[0].args)
    if not given or given[0] is None:
        return None
    return call.with_dtype(call.make("full", value, *(size or call.make("splat") for size in given)))


def _like(call: CallView, term: Term) -> Term:
    like = call.args[0]
    return term if like is None else call.make("typed_like", term, like)


@function(
    "torch.zeros_like",
    "torch.ones_like",
    "torch.empty_like",
    "torch.full_like",
    "torch.rand_like",
    "torch.randn_like",
    "numpy.zeros_like",
    "numpy.ones_like",
    "numpy.full_like",
    "numpy.empty_like",
)
def filled_like(call: CallView) -> Term | None:
    like = call.arg(0, "input", "a")
    if like is None:
        return None
    kind = call.path.rpartition(".")[2]
    value = {"zeros_like": call.const(0), "ones_like": call.const(1)}.get(kind)
    if kind == "full_like":
        value = call.arg(1, "fill_value")
    return call.with_dtype(call.make("full_like", like, value or call.make("anything")))


@function(
    "torch.tensor",
    "torch.as_tensor",
    "torch.asarray",
    "numpy.array",
    "numpy.asarray",
    "torch.from_numpy",
    "torch.IntTensor",
    "torch.LongTensor",
)
def tensor(call: CallView) -> Term | None:
    source = call.arg(0, "data", "object", "a")
    if source is None:
        return None
    made = call.with_dtype(call.make("tensor", source))
    if call.path == "torch.IntTensor":
        return call.make("cast", made, "int32")
    return call.make("cast", made, "int64") if call.path == "torch.LongTensor" else made


@method("new_tensor")
def new_tensor(call: CallView) -> Term | None:
    like, source = call.arg(0), call.arg(1, "data")
    if source is None or like is None:
        return None
    made = call.make("tensor", source)
    return call.with_dtype(made) if "dtype" in call.kwargs else call.make("typed_like", made, like)


@method("to", "type", "astype")
def cast(call: CallView) -> Term | None:
    source = call.args[0] if call.args else None
    if source is None:
        return None
    given = [*call.args[1:], *(call.kwargs[name] for name in ("dtype",) if name in call.kwargs)]
    for term in given:
        if term is not None and dtype_name(term) != "?":
            return call.make("cast", source, dtype_name(term))
    for term in given:
        if term is not None and term.op == "attr" and term.args[1] == "dtype":
            return call.make("typed_like", source, term.args[0])
    if "dtype" in call.kwargs or any(term is not None and "dtype" in repr(term) for term in given):
        return call.make("cast", source, "?")
    for term in given:
        # x.to("cpu") is a copy on the host; x.to(device) may be.
        if term is not None and term.is_const("cpu"):
            return call.make("host", source)
    if (
        len(given) == 1
        and given[0] is not None
        and call.path.rpartition(".")[2] == "to"
        and given[0].op not in {"attr", "const"}
    ):
        return call.make("moved", source, given[0])
    return source


@method("int", "long", "int32", "int64")
def cast_by_name(call: CallView) -> Term | None:
    source = call.args[0] if len(call.args) == 1 else None
    return (
        None
        if source is None
        else call.make(
            "cast",
            source,
            "int32" if call.path.rpartition(".")[2].startswith("int") and not call.path.endswith("64") else "int64",
        )
    )


@method("type_as")
def type_as(call: CallView) -> Term | None:
    source, like = call.arg(0), call.arg(1, "other")
    return None if source is None or like is None else call.make("typed_like", source, like)


@method("bool", "float", "half", "bfloat16", "double")
def cast_away(call: CallView) -> Term | None:
    source = call.args[0] if len(call.args) == 1 else None
    return None if source is None else call.make("cast", source, call.path.rpartition(".")[2])


@method(
    "contiguous",
    "clone",
    "detach",
    "cuda",
    "npu",
    "pin_memory",
    "requires_grad_",
    "copy",
    "record_stream",
)
def same(call: CallView) -> Term | None:
    source = call.args[0] if call.args else None
    if source is None:
        return None
    return call.make("copy", source) if call.path.endswith(".copy") else source


@method("cpu", "tolist", "item", "numpy")
def to_host(call: CallView) -> Term | None:
    source = call.args[0] if call.args else None
    return None if source is None else call.make("host", source)


@method("copy_", "fill_", "fill")
def overwrite(call: CallView) -> Term | None:
    source, value = call.arg(0), call.arg(1, "src", "value", "other")
    if source is None or value is None:
        return None
    name = call.path.rpartition(".")[2]
    return call.make(
        "mutated", call.make("filled", source, value if name == "copy_" else call.make("full_like", source, value))
    )


@method(
    "add_",
    "sub_",
    "mul_",
    "div_",
    "floor_divide_",
    "zero_",
    "masked_fill_",
    "clamp_",
    "clamp_min_",
    "clamp_max_",
    "index_copy_",
    "scatter_",
)
def change_in_place(call: CallView) -> Term | None:
    source = call.arg(0)
    name = call.path.rpartition(".")[2]
    operation = {"add_": "Add", "sub_": "Sub", "mul_": "Mult", "floor_divide_": "FloorDiv"}.get(name)
    other = call.arg(1, "other")
    if source is None:
        return None
    if name == "zero_":
        return call.make("mutated", call.make("filled", source, call.make("full_like", source, call.const(0))))
    if operation is None or other is None:
        return call.make("mutated", call.make("filled", source, call.opaque()))
    return call.make("mutated", call.make("filled", source, call.make(operation, source, other)))


@tensor_operation("repeat_interleave", "repeat")
def repeat_interleave(call: CallView) -> Term | None:
    source, times = call.arg(0, "input", "a"), call.arg(1, "repeats")
    if source is None or times is None or len(call.args) > 3:
        return None
    is_interleave = call.path.endswith("interleave") or call.path == "numpy.repeat"
    return call.make("repeat_interleave" if is_interleave else "repeat", source, times)


@tensor_operation("argsort")
def argsort(call: CallView) -> Term | None:
    """`argsort(source)`, with a second operand only where the order is descending or not known to be ascending."""
    source = call.arg(0, "input", "a")
    return None if source is None else call.make("argsort", source, *_descending(call))


def _descending(call: CallView) -> tuple[Term, ...]:
    given = call.kwargs.get("descending") if call.path.startswith("numpy") else call.arg(2, "descending")
    return () if given is None or given.is_const(False) else (given,)


@tensor_operation("sort")
def sort(call: CallView) -> Term | None:
    source = call.arg(0, "input", "a")
    if source is None:
        return None
    ordered = call.make("sorted", source, call.kwargs.get("key") or call.const(None))
    if call.path.startswith("numpy"):
        return ordered
    return call.make("tuple", ordered, call.make("argsort", source, *_descending(call)))


@function("torch.stack", "numpy.stack")
def stack(call: CallView) -> Term | None:
    source = call.arg(0, "tensors", "arrays")
    axis = call.arg(1, "dim", "axis") or call.const(0)
    return None if source is None else call.make("stack", axis, source)


@function("torch.searchsorted", "torch.bucketize", "numpy.searchsorted")
def searchsorted(call: CallView) -> Term | None:
    first, second = call.arg(0), call.arg(1)
    if first is None or second is None:
        return None
    edges, rows = (second, first) if call.path.endswith("bucketize") else (first, second)
    right = call.kwargs.get("right") or call.kwargs.get("side") or call.const(False)
    return call.make("searchsorted", edges, rows, right)


@tensor_operation("unique_consecutive", "unique")
def unique(call: CallView) -> Term | None:
    source = call.arg(0, "input", "ar")
    if source is None or any(name.startswith("return_") for name in call.kwargs):
        return None
    return call.make("unique", source)


@tensor_operation("lt", "less", "gt", "greater")
def compare(call: CallView) -> Term | None:
    left, right = call.arg(0, "input", "x1"), call.arg(1, "other", "x2")
    if left is None or right is None:
        return None
    return call.make("Lt" if call.path.rpartition(".")[2] in {"lt", "less"} else "Gt", left, right)
