"""The catalogue: consumers of packed metadata and the names it goes by, as data. Users extend it in
`[tool.shapecheck]`."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any

from shapecheck.codemods.engine.transfer.sources import NEEDS, RESULTS_OF, Helper
from shapecheck.codemods.screen import words_of

ROLES = frozenset(
    [
        "q",
        "k",
        "v",
        "qkv",
        "kv",
        "x",
        "bounds_q",
        "bounds_k",
        "bounds",
        "ends_q",
        "ends_k",
        "padded_q",
        "padded_k",
        "padded",
        "max_q",
        "max_k",
        "max",
        "lens_q",
        "lens_k",
        "lens",
        "tags_q",
        "tags_k",
        "tags",
        "positions",
        "mask",
        "rows",
    ]
)

DTYPES = ("int32", "int64")


class CatalogueError(ValueError):
    """A sink or name in the user's settings that cannot be used; the message says why."""


@dataclass(frozen=True)
class Sink:
    """A consumer.

    Attributes:
        callee: its name, the last part of its path.
        imports: prefixes of the paths from which the positions hold.
        positions: position -> role.
        keywords: keyword -> role.
        dtype: what its boundaries must have, or None where any integer type will do.
        exact: whether the rows must equal the last boundary.
    """

    callee: str
    imports: tuple[str, ...]
    positions: Mapping[int, str]
    keywords: Mapping[str, str]
    dtype: str | None = None
    exact: bool = False

    def owns(self, path: str) -> bool:
        """Whether a dotted path is this consumer."""
        return path.rpartition(".")[2] == self.callee and any(
            path == prefix or path.startswith(f"{prefix}.") for prefix in self.imports
        )


@dataclass(frozen=True)
class Catalogue:
    """All consumers and names."""

    sinks: tuple[Sink, ...]
    names: Mapping[str, tuple[str, ...]]
    helpers: Mapping[str, Helper]  # by name
    words: tuple[str, ...] = ()  # what the user's entries add to the screen

    @classmethod
    def load(cls, extra: Mapping[str, Any] | None = None) -> "Catalogue":
        """The built-in catalogue plus `sinks`, `sources` and `names` of the user's settings.

        Raises:
            CatalogueError: an entry of `extra` is malformed.
        """
        built_in = _built_in()
        if not extra:
            return built_in
        sinks = (*built_in.sinks, *(_sink(entry, at) for at, entry in enumerate(extra.get("sinks", ()))))
        names = dict(built_in.names)
        for role, added in extra.get("names", {}).items():
            _known_role(role, "names")
            if not isinstance(added, list) or not all(isinstance(name, str) for name in added):
                raise CatalogueError(f"names.{role} must be a list of names.")
            names[role] = (*names.get(role, ()), *added)
        added_helpers = [_helper(entry, at) for at, entry in enumerate(extra.get("sources", ()))]
        helpers = {**built_in.helpers, **{helper.callee: helper for helper in added_helpers}}
        return cls(sinks, names, helpers, tuple(words_of(extra)))

    @cached_property
    def by_callee(self) -> dict[str, list[Sink]]:
        """The consumers by their last name."""
        found: dict[str, list[Sink]] = {}
        for sink in self.sinks:
            found.setdefault(sink.callee, []).append(sink)
        return found

    @cached_property
    def _exact_names(self) -> dict[str, str]:
        return {name: role for role, names in self.names.items() for name in names if "*" not in name}

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        return [
            (re.compile(re.escape(name).replace(r"\*", r"\w+")), role)
            for role, names in self.names.items()
            for name in names
            if "*" in name
        ]

    @cached_property
    def _roles(self) -> dict[str, str | None]:
        return {}

    def role_of(self, name: str) -> str | None:
        """The role that a name stands for; None for all other names."""
        if name not in self._roles:
            bare = name.lstrip("_")
            found = self._exact_names.get(bare)
            if found is None:
                found = next((role for pattern, role in self._patterns if pattern.fullmatch(bare)), None)
            self._roles[name] = found
        return self._roles[name]


def _known_role(role: str, where: str) -> None:
    if role not in ROLES:
        close = difflib.get_close_matches(role, ROLES, 1)
        hint = f" Did you mean {close[0]!r}?" if close else f" Roles: {', '.join(sorted(ROLES))}."
        raise CatalogueError(f"{where}: there is no role {role!r}.{hint}")


_SINK_KEYS = {"callee", "imports", "positions", "keywords", "dtype", "exact"}


def _sink(entry: Any, at: int) -> Sink:
    where = f"sinks[{at}]"
    if not isinstance(entry, Mapping) or not isinstance(entry.get("callee"), str):
        raise CatalogueError(f'{where} must be a table with callee = "name".')
    for key in entry:
        if key not in _SINK_KEYS:
            close = difflib.get_close_matches(key, _SINK_KEYS, 1)
            raise CatalogueError(f"{where}: unknown key {key!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
    positions, keywords = entry.get("positions", {}), entry.get("keywords", {})
    if not isinstance(positions, Mapping) or not all(type(place) is int for place in positions.values()):
        raise CatalogueError(f"{where}.positions must map roles to positions, such as {{ q = 0 }}.")
    if not isinstance(keywords, Mapping) or not all(isinstance(role, str) for role in keywords.values()):
        raise CatalogueError(f'{where}.keywords must map keywords to roles, such as {{ cu_seqlens = "bounds" }}.')
    for role in (*positions, *keywords.values()):
        _known_role(role, where)
    imports = entry.get("imports", [])
    if not isinstance(imports, list) or not all(isinstance(prefix, str) for prefix in imports):
        raise CatalogueError(f"{where}.imports must be a list of dotted paths.")
    dtype, exact = entry.get("dtype"), entry.get("exact", False)
    if dtype is not None and dtype not in DTYPES:
        raise CatalogueError(f"{where}.dtype must be one of {', '.join(DTYPES)}.")
    if not isinstance(exact, bool):
        raise CatalogueError(f"{where}.exact must be true or false.")
    return Sink(
        entry["callee"],
        tuple(imports),
        {place: role for role, place in positions.items()},
        dict(keywords),
        dtype,
        exact,
    )


_HELPER_KEYS = {"callee", "arguments", "returns", "most", "dtype"}


def _helper(entry: Any, at: int) -> Helper:
    where = f"sources[{at}]"
    if not isinstance(entry, Mapping) or not isinstance(entry.get("callee"), str):
        raise CatalogueError(f'{where} must be a table with callee = "name".')
    for key in entry:
        if key not in _HELPER_KEYS:
            close = difflib.get_close_matches(key, _HELPER_KEYS, 1)
            raise CatalogueError(f"{where}: unknown key {key!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
    arguments = entry.get("arguments")
    if (
        not isinstance(arguments, Mapping)
        or not arguments
        or not all(_is_argument(given) for given in arguments.values())
    ):
        raise CatalogueError(f'{where}.arguments must say where they are, such as {{ lens = [0, "lens"] }}.')
    returns = entry.get("returns")
    kinds: list[Any] = returns if isinstance(returns, list) else [returns]
    for kind in kinds:
        if not isinstance(kind, str) or kind not in RESULTS_OF:
            close = difflib.get_close_matches(str(kind), RESULTS_OF, 1)
            hint = f" Did you mean {close[0]!r}?" if close else f" Known: {', '.join(sorted(RESULTS_OF))}."
            raise CatalogueError(f"{where}.returns: {kind!r} is not known.{hint}")
        for need in sorted(NEEDS[str(kind)] - arguments.keys()):
            raise CatalogueError(f"{where}.returns: {kind!r} needs {need!r} among the arguments.")
    most = entry.get("most")
    if most is not None and type(most) is not int:
        raise CatalogueError(f"{where}.most must be a number of arguments.")
    dtype = entry.get("dtype")
    if dtype is not None and dtype not in DTYPES:
        raise CatalogueError(f"{where}.dtype must be one of {', '.join(DTYPES)}.")
    places = {name: (given[0], tuple(given[1:])) for name, given in arguments.items()}
    return Helper(entry["callee"], places, tuple(map(str, kinds)), isinstance(returns, list), most, dtype)


def _is_argument(given: Any) -> bool:
    return (
        isinstance(given, list)
        and bool(given)
        and type(given[0]) is int
        and all(isinstance(name, str) for name in given[1:])
    )


@cache
def _built_in() -> Catalogue:
    data = tomllib.loads(resources.files("shapecheck.codemods").joinpath("data/catalogue.toml").read_text("utf-8"))
    return Catalogue(
        tuple(_sink(entry, at) for at, entry in enumerate(data["sinks"])),
        {role: tuple(names) for role, names in data["names"].items()},
        {entry["callee"]: _helper(entry, at) for at, entry in enumerate(data["sources"])},
    )
