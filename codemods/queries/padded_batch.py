"""Which values have one row for each sample and one column for each token."""

from shapecheck.codemods.engine.terms import Term

_SAME = {"cast", "host", "moved", "copy", "typed_like", "full_like", "store", "filled", "not", "Invert", "rounds"}
_METHODS = {".ne", ".eq", ".gt", ".lt", ".ge", ".le", ".logical_not"}
_COMPARES = {"Eq", "Gt", "GtE", "Lt", "LtE"}


def is_padded_batch(term: Term) -> bool:
    """Whether a value was made as (samples, tokens): by `pad_sequence`, for `len(samples)`, or like one of these."""
    for _ in range(40):
        match term.op:
            case "call" if str(term.args[0]) in _METHODS:
                term = term.args[1]
            case "call":
                batch_first = next(
                    (
                        arg.args[1]
                        for arg in term.args
                        if isinstance(arg, Term) and arg.op == "keyword" and arg.args[0] == "batch_first"
                    ),
                    None,
                )
                return (
                    str(term.args[0]).endswith("pad_sequence")
                    and batch_first is not None
                    and batch_first.is_const(True)
                )
            case "full":
                sizes = term.args[1:]
                return len(sizes) == 2 and sizes[0].op == "len" and sizes[1].op != "const"
            case "elementwise":
                term = term.args[1]
            case op if op in _SAME or op in _COMPARES:
                term = term.args[0]
            case "round":
                first = term.pool.first_round.get(term)
                if first is None:
                    return False
                term = first
            case _:
                return False
    return False
