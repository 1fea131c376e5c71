"""Values that the function itself takes for boundaries with a leading zero, wherever they come from."""

from shapecheck.codemods.engine.describe.lengths import differences, plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.slots import BOUNDS, slots
from shapecheck.codemods.view import View


def measured(view: View, term: Term) -> bool:
    """Whether lengths are taken as the differences of the value, and their maximum: it has a leading zero then."""
    same = plain(term)
    return any(whole is same for call in view.calls if (whole := _measured(call.result)) is not None)


def _measured(result: Term) -> Term | None:
    longest = plain(result)
    if longest.op != "max" or len(longest.args) != 1:
        return None
    lens = plain(longest.args[0])
    whole = lens.args[0] if lens.op == "diff" else differences(lens)
    return None if whole is None else plain(whole)


def passed_as_boundaries(view: View, term: Term) -> bool:
    """Whether the value also goes to a known consumer of boundaries, which wants the leading zero."""
    same = plain(term)
    return any(slot.sink is not None and plain(slot.term) is same for slot in slots(view, BOUNDS))
