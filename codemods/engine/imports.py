"""Names that a file imports, and what they stand for."""

import ast
from collections.abc import Iterable


class Imports:
    """Local name -> dotted path. Relative imports keep their dots: `.kernels.attend`.

    Imports below `if TYPE_CHECKING` count for annotations only: they are read if `for_types`.
    """

    def __init__(self, body: Iterable[ast.stmt] = (), *, for_types: bool = False) -> None:
        self.paths: dict[str, str] = {}
        self._for_types = for_types
        self._ambiguous: set[str] = set()
        self.add(body)

    def add(self, body: Iterable[ast.stmt]) -> None:
        """Read the imports of some statements, also below `if` and `try`."""
        for statement in body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                for name, path in imported(statement):
                    self._add(name, path)
            elif isinstance(statement, ast.If | ast.Try | ast.With):
                if self._for_types or not _is_for_types(statement):
                    self.add(statement.body)
                self.add(getattr(statement, "orelse", ()))
                for handler in getattr(statement, "handlers", ()):
                    self.add(handler.body)

    def _add(self, name: str, path: str) -> None:
        # `try: from flash_attn import f / except ImportError: f = None` is one meaning; two packages are two.
        if name not in self._ambiguous and self.paths.setdefault(name, path) != path:
            self._ambiguous.add(name)
            del self.paths[name]


def _is_for_types(statement: ast.stmt) -> bool:
    """Whether the body of a statement is for type checkers only."""
    match statement:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            return True
    return False


def imported(node: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """(local name, dotted path) for each name of an import statement."""
    if isinstance(node, ast.Import):
        return [
            (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0], alias.name.split(".")[0])
            for alias in node.names
        ]
    base = "." * node.level + (node.module or "")
    dot = "" if base.endswith(".") or not base else "."
    return [(alias.asname or alias.name, f"{base}{dot}{alias.name}") for alias in node.names]
