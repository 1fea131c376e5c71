"""torch (and numpy): what changes the rows of a tensor, and what does not."""

from shapecheck.codemods.engine.terms import Pool, Term
from shapecheck.codemods.engine.transfer._registry import CallView, function, method, results, tensor_operation


@function(
    "torch.cat",
    "torch.concat",
    "torch.concatenate",
    "numpy.concatenate",
    "torch.hstack",
    "numpy.hstack",
    "torch.vstack",
)
def cat(call: CallView) -> Term | None:
    parts = call.arg(0, "tensors", "arrays")
    if parts is None:
        return None
    axis = call.arg(1, "dim", "axis") or call.const(0)
    return call.make("cat", axis, parts)


@function("torch.nn.functional.pad", "torch.functional.pad", "torch._C._nn.pad", "torch.constant_pad_nd")
def pad(call: CallView) -> Term | None:
    source, amounts = call.arg(0, "input"), call.arg(1, "pad")
    if source is None or amounts is None:
        return None
    value = call.arg(3, "value") or call.const(0)
    return call.make("pad", source, amounts, value)


@function("numpy.pad")
def numpy_pad(call: CallView) -> Term | None:
    source, amounts = call.arg(0, "array"), call.arg(1, "pad_width")
    if source is None or amounts is None or amounts.op != "tuple":
        return None
    value = call.kwargs.get("constant_values") or call.const(0)
    if all(part.op == "tuple" for part in amounts.args):
        flat = [side for pair in reversed(amounts.args) for side in pair.args]
        return call.make("pad", source, call.make("tuple", *flat), value)
    return call.make("pad", source, amounts, value) if len(amounts.args) == 2 else None


@tensor_operation(
    "view",
    "reshape",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "ravel",
    "expand",
    "expand_as",
    "view_as",
    "reshape_as",
    "atleast_1d",
    "permute",
    "transpose",
    "swapaxes",
    "movedim",
    "t",
)
def view(call: CallView) -> Term | None:
    source = call.args[0] if call.args else None
    if source is None:
        return None
    shape = [arg if arg is not None else call.make("splat") for arg in call.args[1:]]
    return call.make("view", call.path.rpartition(".")[2], source, *shape)


@tensor_operation("unbind", "chunk", "split", "tensor_split", "split_with_sizes", "array_split", "hsplit")
def split(call: CallView) -> Term | None:
    source = call.arg(0, "tensor", "input")
    if source is None:
        return None
    name = call.path.rpartition(".")[2]
    if name == "unbind":
        return call.make("unbind", source, call.arg(1, "dim") or call.const(0))
    sizes = call.arg(
        1, "chunks", "split_size_or_sections", "split_size", "indices_or_sections", "sections", "split_sizes"
    )
    axis = call.arg(2, "dim", "axis") or call.const(0)
    kind = "chunk" if name in {"chunk", "tensor_split", "array_split"} else "split"
    return None if sizes is None else call.make(kind, source, sizes, axis)


@tensor_operation(
    "index_select", "take", "gather", "take_along_dim", "select", "narrow", "masked_select", "roll", "flip", "flipud"
)
def pick(call: CallView) -> Term | None:
    name = call.path.rpartition(".")[2]
    source = call.arg(0, "input", "a")
    if source is None:
        return None
    if name in {"take", "masked_select"}:
        index = call.arg(1, "index", "indices", "mask")
        return None if index is None else call.make("item", source, index)
    if name == "index_select":
        axis, index = call.arg(1, "dim"), call.arg(2, "index")
        return None if axis is None or index is None else call.make("picked", source, axis, index)
    if name == "narrow":
        axis, start, length = call.arg(1, "dim"), call.arg(2, "start"), call.arg(3, "length")
        if axis is None or start is None or length is None:
            return None
        end = length if start.is_const(0) else call.make("Add", start, length)
        return call.make("narrow", source, axis, start, end)
    if name == "roll":
        shift, axis = call.arg(1, "shifts", "shift"), call.arg(2, "dims", "axis") or call.const(None)
        return None if shift is None else call.make("roll", source, shift, axis)
    if name in {"flip", "flipud"}:
        return call.make("flip", source)
    return None


@results("unbind")
def unbound(pool: Pool, term: Term, at: int) -> Term | None:
    return pool.make("view", "unbind", term.args[0], pool.const(at), term.args[1], node=term.node)


@tensor_operation(
    "masked_fill", "clamp", "clip", "abs", "relu", "softmax", "dropout", "round", "nan_to_num", "clamp_min", "clamp_max"
)
def elementwise(call: CallView) -> Term | None:
    source, name = call.arg(0, "input", "a"), call.path.rpartition(".")[2]
    mask = call.arg(1, "mask") if name == "masked_fill" else None
    return None if source is None else call.make("elementwise", name, source, *([] if mask is None else [mask]))


@method("numel", "dim", "ndimension", "nelement")
def numel(call: CallView) -> Term | None:
    source = call.args[0] if len(call.args) == 1 else None
    name = "numel" if call.path.rpartition(".")[2] in {"numel", "nelement"} else "dim"
    return None if source is None else call.make(name, source)


@function("torch.numel")
def numel_of(call: CallView) -> Term | None:
    source = call.arg(0, "input")
    return None if source is None else call.make("numel", source)


@method("size")
def size(call: CallView) -> Term | None:
    source = call.args[0] if call.args else None
    if source is None:
        return None
    axis = call.arg(1, "dim")
    return call.make("attr", source, "shape") if axis is None else call.make("shape", source, axis)
