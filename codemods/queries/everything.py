"""Every value that a function computes."""

from collections.abc import Iterator

from shapecheck.codemods.engine.events import Binding, Call, Return
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.view import View


def values(view: View) -> Iterator[Term]:
    """The terms below everything that is bound, passed or returned, each once."""
    stack: list[Term] = []
    for event in view.function.events:
        match event:
            case Binding():
                stack.append(event.value)
            case Return():
                stack.append(event.value)
            case Call():
                stack += [arg for arg in event.args if arg is not None]
                stack += event.kwargs.values()
    seen: set[Term] = set()
    while stack:
        term = stack.pop()
        if term not in seen:
            seen.add(term)
            yield term
            stack.extend(term.children())
