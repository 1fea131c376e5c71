"""The packed kernels that a call runs, also through an attribute that `__init__` set to one."""

from shapecheck.codemods.catalogue import Sink
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.view import View


def kernel_of(view: View, call: Call) -> Sink | None:
    """The catalogue's entry of what is called, an import or `imported or fallback`; None if it is no kernel."""
    if call.callee.size > 10:
        return None
    for part in call.callee.walk():
        if part.op == "module":
            for sink in view.catalogue.by_callee.get(part.args[0].rpartition(".")[2], ()):
                if sink.owns(part.args[0]):
                    return sink
    return None


def takes(sink: Sink, kind: str) -> str | None:
    """The keyword of a kernel for boundaries (`bounds`) or tags (`tags`) of all its rows; None without one."""
    return next((keyword for keyword, role in sink.keywords.items() if role == kind), None)
