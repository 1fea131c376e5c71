"""The role of a value that comes from outside under a name: a parameter, an attribute, a key."""

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.view import View


def role_of_value(view: View, term: Term) -> str | None:
    """The role that the name of a parameter, attribute or key stands for; None for everything else."""
    term = plain(term)
    name = None
    if term.op == "parameter":
        name = term.args[0]
    elif term.op == "attr":
        name = term.args[1]
    elif term.op == "item" and term.args[1].op == "const":
        name = term.args[1].value
    return view.catalogue.role_of(name) if isinstance(name, str) else None
