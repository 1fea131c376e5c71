"""Why no rule says anything about a call: which of its metadata is unknown, and since when. For `--explain-silence`."""

from collections.abc import Iterator, Sequence

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import lens_of, plain
from shapecheck.codemods.engine.describe.maxima import max_of
from shapecheck.codemods.engine.describe.tags import per_row_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Silence
from shapecheck.codemods.view import Argument, View

_METADATA = ("bounds", "padded", "ends", "lens", "max", "tags", "positions")


def silences(view: View, findings: Sequence[Finding]) -> Iterator[Silence]:
    """The metadata arguments of a function's consumers that could not be judged; calls with a finding are left out."""
    reported = {finding.span.start.row for finding in findings}
    for consumer in view.consumers:
        span = view.source.span(consumer.call.node)
        if any(span.start.row <= row <= span.end.row for row in reported):
            continue
        for role, argument in consumer.roles.items():
            if role.startswith(_METADATA):
                reason = _reason(view, role, argument)
                if reason is not None:
                    yield Silence(view.path, view.source.span(argument.node), consumer.call.path, argument.name, reason)


def _reason(view: View, role: str, argument: Argument) -> str | None:
    """Why an argument is not understood; None if it is."""
    term = argument.term
    if term.is_const(None):
        return None
    if len(term.conditions) > 2:
        return f"it depends on {len(term.conditions)} or more conditions; no more than 2 are told apart"
    known = {"max": max_of, "tags": per_row_of, "posi": per_row_of, "lens": lens_of}.get(role[:4], bounds_of)
    leaves = [leaf for leaf in term.branches() if known(leaf) is None]
    return _origin(view, leaves[0]) if leaves else None


def _origin(view: View, term: Term) -> str:
    root = plain(term)
    where = view.line(root.node)
    match root.op:
        case "parameter":
            return f"`{root.args[0]}` is a parameter: nothing in this function says what it describes"
        case "call":
            return f"`{root.args[0].lstrip('.')}`{where} is no function of this file and not in the catalogue"
        case "attr":
            return f"the attribute `{root.args[1]}`{where} is set outside of this function"
        case "item":
            return f"it is an item{where} of a value that is not understood"
        case "rounds" | "round" | "last_round":
            return "it changes in a loop in a way that is not understood"
        case "unbound":
            return "it is not assigned on every path"
        case "const":
            return f"it is the constant {root.value!r}, which cannot be compared with the rows"
        case "sym" | "global" | "big":
            return f"it comes from an expression{where} that is not understood"
    return f"it was made by an operation (`{root.op}`){where} from which no rule reads what it describes"
