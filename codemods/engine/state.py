"""What is known at one point of a function: names and places, each with its term."""

import ast
from dataclasses import dataclass, field

from shapecheck.codemods.engine.terms import Pool, Term

# A place is an attribute or a key of a value: (value, ".name") or (value, "[key]").
Place = tuple[Term, str]


@dataclass
class State:
    """Bindings of names and of places that were written; `dead` after return, raise, break or continue."""

    names: dict[str, Term] = field(default_factory=dict)
    places: dict[Place, Term] = field(default_factory=dict)
    bound_at: dict[str, ast.AST] = field(default_factory=dict)  # the statement that last bound a name
    shared: dict[str, int] = field(default_factory=dict)  # equal for names of one object, as after `a = b`
    dead: bool = False

    def copy(self) -> "State":
        """An independent copy."""
        return State(dict(self.names), dict(self.places), dict(self.bound_at), dict(self.shared), self.dead)

    def become(self, other: "State") -> None:
        """Take over what `other` knows."""
        self.names, self.places, self.bound_at = other.names, other.places, other.bound_at
        self.shared = other.shared
        self.dead = other.dead


def join(pool: Pool, cond: Term, then: State, other: State) -> State:
    """What holds after either branch; a branch that left the function does not count."""
    if then.dead:
        return other
    if other.dead:
        return then
    shared = dict(then.shared.items() & other.shared.items())
    result = State(dict(other.names), dict(other.places), dict(other.bound_at), shared)
    missing = pool.make("unbound")
    for name in then.names.keys() | other.names.keys():
        a, b = then.names.get(name, missing), other.names.get(name, missing)
        if a is not b:
            result.names[name] = pool.phi(cond, a, b)
            # The branch that changed the name is where a reader looks.
            if name in then.bound_at:
                result.bound_at[name] = then.bound_at[name]
        else:
            result.names[name] = a
    for place in then.places.keys() | other.places.keys():
        a = then.places.get(place) or unwritten(pool, place)
        b = other.places.get(place) or unwritten(pool, place)
        result.places[place] = pool.phi(cond, a, b)
    return result


def unwritten(pool: Pool, place: Place) -> Term:
    """What a place holds that was never written."""
    base, key = place
    if base.op == "defaultdict":
        return base.args[0] if isinstance(base.args[0], Term) else pool.make("anything")
    if key.startswith("."):
        return pool.make("attr", base, key[1:])
    return pool.item(base, pool.const(key[1:-1]))
