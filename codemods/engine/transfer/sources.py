"""Helpers that projects copy from one another: what they return is data, see `codemods/data/catalogue.toml`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shapecheck.codemods.engine.terms import Pool, Term
from shapecheck.codemods.engine.transfer._registry import CallView


@dataclass(frozen=True)
class Helper:
    """A helper.

    Attributes:
        callee: its name.
        arguments: what it reads -> position and keywords.
        returns: what it returns: one, or a tuple.
        is_tuple: whether it returns a tuple, even of one.
        most: with more positional arguments it is another function of that name; None: any number.
        dtype: of the boundaries that it returns, where the call does not say; None: unknown.
    """

    callee: str
    arguments: Mapping[str, tuple[int, tuple[str, ...]]]
    returns: tuple[str, ...]
    is_tuple: bool = False
    most: int | None = None
    dtype: str | None = None

    def result(self, call: CallView) -> Term | None:
        """What a call returns; None if an argument is missing."""
        if self.most is not None and len(call.args) > self.most:
            return None
        given: dict[str, Term] = {}
        for name, (position, keywords) in self.arguments.items():
            term = call.arg(position, *keywords)
            if term is None or term.op == "tuple":
                return None
            given[name] = term
        made = [RESULTS_OF[kind](call.pool, given) or call.make("result", call.opaque(), kind) for kind in self.returns]
        for term in made:
            term.node = term.node or call.node
        if self.is_tuple:
            # More results may follow: `rows, indices, cu_seqlens, max_seqlen, *rest`.
            return call.make("results", call.opaque(), *made)
        if not self.returns[0].startswith("bounds") or "dtype" in call.kwargs:
            return call.with_dtype(made[0])
        return call.make("cast", made[0], "?" if len(call.args) > len(self.arguments) else self.dtype or "?")


_Maker = Callable[[Pool, Mapping[str, Term]], Term | None]


def _bounds_of_lens(pool: Pool, given: Mapping[str, Term]) -> Term:
    cumulated = pool.make("cumsum", given["lens"], pool.const(-1))
    return pool.make("pad", cumulated, pool.make("tuple", pool.const(1), pool.const(0)), pool.const(0))


def _rows_of_mask(pool: Pool, given: Mapping[str, Term]) -> Term:
    return pool.make("unpadded", given["rows"], pool.make("mask_indices", given["mask"]))


# What a helper may return -> how it is written as a term, and of which argument.
RESULTS_OF: dict[str, _Maker] = {
    "bounds_of_lens": _bounds_of_lens,
    "max_of_lens": lambda pool, given: pool.make("max", given["lens"]),
    "lens_of_bounds": lambda pool, given: pool.make("diff", given["bounds"]),
    "max_of_bounds": lambda pool, given: pool.make("max", pool.make("diff", given["bounds"])),
    "positions_of_bounds": lambda pool, given: pool.make("positions_of", given["bounds"]),
    "tags_of_bounds": lambda pool, given: pool.make("tags_of", given["bounds"]),
    "bounds_of_mask": lambda pool, given: pool.make("mask_bounds", given["mask"]),
    "max_of_mask": lambda pool, given: pool.make("mask_max", given["mask"]),
    "lens_of_mask": lambda pool, given: pool.make("sum", given["mask"], pool.const(-1)),
    "indices_of_mask": lambda pool, given: pool.make("mask_indices", given["mask"]),
    "rows_of_mask": _rows_of_mask,
    "rows_of_indices": lambda pool, given: pool.make("unpadded", given["rows"], given["indices"]),
    "padded_rows": lambda pool, given: pool.make("repadded", given["rows"], given["indices"]),
    "same": lambda pool, given: given["rows"],
    "unknown": lambda pool, given: None,
}

# The arguments that a result is about, which the entry has to name.
NEEDS: dict[str, frozenset[str]] = {
    kind: frozenset({kind.rpartition("_")[2]} | ({"rows"} if kind.startswith("rows") else set())) for kind in RESULTS_OF
} | {"padded_rows": frozenset({"rows", "indices"}), "same": frozenset({"rows"}), "unknown": frozenset()}
