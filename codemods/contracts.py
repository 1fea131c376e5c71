"""Signatures with jaxtyping annotations across a project: they are consumers like any kernel.

The index covers the whole project, whatever files are linted, so that a run on one changed file finds what a full
run finds.
"""

import ast
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import source_hash
from pathlib import Path
from stat import S_ISREG
from typing import Any

from shapecheck.codemods.engine.imports import Imports

# Folders that hold no code of the project.
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "build", "dist", "venv", "env"})


@dataclass(frozen=True)
class Parameter:
    """A parameter.

    Attributes:
        name: its name.
        dims: the dims of its annotation, such as `("S", "C")`; None without one.
        dtype: `Int32` and so on; empty without an annotation.
        covers: the dim that boundaries end at, by `PrefixSum(end=...)`.
        positional: whether it may be given by position.
    """

    name: str
    dims: tuple[str, ...] | None
    dtype: str = ""
    covers: str | None = None
    positional: bool = True


@dataclass(frozen=True)
class Signature:
    """A function, or a method without its self, with at least one annotated parameter.

    Attributes:
        module: dotted path of its file from the project's root.
        qualname: `attend` or `Model.forward`.
        path: its file.
        row: its first row.
        enforced: `contract`, `jaxtyped`, or empty if nothing checks it at run time.
        parameters: in order.
        result: dims of the annotated result, or None.
    """

    module: str
    qualname: str
    path: str
    row: int
    enforced: str
    parameters: tuple[Parameter, ...]
    result: tuple[str, ...] | None = None

    @property
    def called(self) -> str:
        """The name that a caller writes: of the function, or of the class whose instances are called."""
        owner, _, name = self.qualname.rpartition(".")
        return owner if owner and name in {"forward", "__call__"} else name


def signatures(tree: ast.Module, module: str, path: str) -> Iterator[Signature]:
    """The annotated signatures of a file."""
    jaxtyping = _jaxtyping_names(tree)
    if not jaxtyping:
        return
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            found = _signature(statement, module, "", path, jaxtyping)
            if found is not None:
                yield found
        elif isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    found = _signature(inner, module, statement.name, path, jaxtyping)
                    if found is not None:
                        yield found


def _jaxtyping_names(tree: ast.Module) -> dict[str, str]:
    """Local name -> its name in jaxtyping; empty for the module itself."""
    paths = Imports(tree.body, for_types=True).paths.items()
    return {name: path.partition(".")[2] for name, path in paths if path.split(".")[0] == "jaxtyping"}


def _signature(
    node: ast.FunctionDef | ast.AsyncFunctionDef, module: str, owner: str, path: str, jaxtyping: dict[str, str]
) -> Signature | None:
    decorators = {_last_name(decorator) for decorator in node.decorator_list}
    if decorators & {"overload", "property", "cached_property"}:
        return None
    given = [*node.args.posonlyargs, *node.args.args]
    if owner and "staticmethod" not in decorators:
        given = given[1:]
    parameters = [_parameter(arg, jaxtyping, True) for arg in given]
    parameters += [_parameter(arg, jaxtyping, False) for arg in node.args.kwonlyargs]
    if not any(parameter.dims is not None for parameter in parameters):
        return None
    enforced = "contract" if "contract" in decorators else "jaxtyped" if "jaxtyped" in decorators else ""
    result = _dims(node.returns, jaxtyping)
    return Signature(
        module,
        f"{owner}.{node.name}" if owner else node.name,
        path,
        node.lineno,
        enforced,
        tuple(parameters),
        None if result is None else result[1],
    )


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _parameter(arg: ast.arg, jaxtyping: dict[str, str], positional: bool) -> Parameter:
    annotation = _unquoted(arg.annotation)
    found = _dims(annotation, jaxtyping)
    if found is None:
        return Parameter(arg.arg, None, positional=positional)
    dtype, dims = found
    return Parameter(arg.arg, dims, dtype, _covers(annotation), positional)


def _unquoted(annotation: ast.expr | None) -> ast.expr | None:
    """An annotation that is written as a string, as an expression; None if it is none."""
    if not (isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)):
        return annotation
    try:
        return ast.parse(annotation.value, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _dims(annotation: ast.expr | None, jaxtyping: dict[str, str]) -> tuple[str, tuple[str, ...]] | None:
    """Dtype and dims of `Float[Tensor, "S C"]`, also inside Annotated, Optional and `| None`, also as a string."""
    match annotation:
        case ast.Constant(value=str()):
            return _dims(_unquoted(annotation), jaxtyping)
        case ast.BinOp(left=inner, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _dims(inner, jaxtyping)
        case ast.BinOp(left=ast.Constant(value=None), op=ast.BitOr(), right=inner):
            return _dims(inner, jaxtyping)
        case ast.Subscript(value=base, slice=inner) if _last_name(base) == "Optional":
            return _dims(inner, jaxtyping)
        case ast.Subscript(value=base, slice=ast.Tuple(elts=[inner, *_])) if _last_name(base) == "Annotated":
            return _dims(inner, jaxtyping)
        case ast.Subscript(value=base, slice=ast.Tuple(elts=[_, ast.Constant(value=str(dims))])):
            match base:
                case ast.Name(id=name) if jaxtyping.get(name):
                    return jaxtyping[name], tuple(dims.split())
                case ast.Attribute(value=ast.Name(id=name), attr=dtype) if jaxtyping.get(name) == "":
                    return dtype, tuple(dims.split())
    return None


def _covers(annotation: ast.expr | None) -> str | None:
    if annotation is None:
        return None
    for node in ast.walk(annotation):
        if isinstance(node, ast.Call) and _last_name(node) == "PrefixSum":
            for keyword in node.keywords:
                if (
                    keyword.arg == "end"
                    and isinstance(keyword.value, ast.Constant)
                    and isinstance(keyword.value.value, str)
                ):
                    return keyword.value.value
    return None


@dataclass(frozen=True)
class ContractIndex:
    """The signatures of a project."""

    root: str = ""
    signatures: tuple[Signature, ...] = ()
    exports: Mapping[str, str] = field(default_factory=dict)  # package.name -> where an `__init__.py` takes it from

    @classmethod
    def of_text(cls, text: str, path: str) -> "ContractIndex":
        """The signatures of one file alone, as for text from standard input."""
        tree = _parsed(text.encode()) if "jaxtyping" in text else None
        return cls("", () if tree is None else tuple(signatures(tree, _dotted(os.path.basename(path)), path)))

    @classmethod
    def of(cls, root: Path, memory: "Memory | None" = None) -> "ContractIndex":
        """Read every file below `root` that mentions jaxtyping; unreadable ones are passed over.

        Args:
            root: the project.
            memory: what former runs read; files that did not change since are not opened.
        """
        root = root.resolve()
        memory = memory or Memory()
        found: list[Signature] = []
        packages: list[str] = []
        for path, stamp in _python_files(str(root)):
            known = memory.get(path, stamp)
            if known is None:
                known = memory.put(path, stamp, _read(path, str(root)))
            found += known
            if path.endswith("__init__.py"):
                packages.append(path)
        exports: dict[str, str] = {}
        for path in packages if found else ():
            tree = _tree_of(path)
            exports.update(_exports(tree, _dotted(os.path.relpath(path, root))) if tree is not None else ())
        return cls(str(root), tuple(sorted(found, key=lambda one: (one.path, one.row))), exports)

    def module_of(self, path: str) -> str:
        """The dotted path of a file from the root."""
        return _dotted(os.path.relpath(path, self.root) if self.root else os.path.basename(path))

    @cached_property
    def digest(self) -> str:
        """Changes whenever a signature does."""
        text = repr((self.signatures, sorted(self.exports.items())))
        return source_hash(text.encode(errors="surrogatepass")).hex()

    @cached_property
    def pattern(self) -> "re.Pattern[bytes] | None":
        """Matches the text of files that may call one of them."""
        known = {signature.called for signature in self.signatures}
        renamed = {
            source.rpartition(".")[2] for source, target in self.exports.items() if target.rpartition(".")[2] in known
        }
        names = sorted(known | renamed)
        return re.compile(rb"\b(?:%s)\b" % b"|".join(re.escape(name.encode()) for name in names)) if names else None

    @cached_property
    def _by_qualname(self) -> dict[str, list[Signature]]:
        found: dict[str, list[Signature]] = {}
        for signature in self.signatures:
            found.setdefault(signature.qualname, []).append(signature)
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[Signature]]:
        found: dict[str, list[Signature]] = {}
        for signature in self.signatures:
            found.setdefault(signature.called, []).append(signature)
        return found

    def function(self, path: str, caller: str) -> Signature | None:
        """The function at a dotted import path, as the file `caller` sees it; None unless it is exactly one."""
        return self._resolve(path, caller, lambda name: (name,))

    def instance(self, path: str, caller: str) -> Signature | None:
        """What a call of an instance of the class at a dotted import path runs; None unless it is exactly one."""
        return self._resolve(path, caller, lambda name: (f"{name}.forward", f"{name}.__call__"))

    def method(self, owner: str, name: str, path: str) -> Signature | None:
        """A method of a class in the file `path`; a function if `owner` is empty."""
        qualname = f"{owner}.{name}" if owner else name
        found = [one for one in self._by_qualname.get(qualname, ()) if one.module == self.module_of(path)]
        return found[0] if len(found) == 1 else None

    def _resolve(self, path: str, caller: str, wanted: Callable[[str], tuple[str, ...]]) -> Signature | None:
        if not self.signatures:
            return None
        here = self.module_of(caller)
        if path.startswith("."):
            dots = len(path) - len(path.lstrip("."))
            package = here.split(".")[: len(here.split(".")) - dots + caller.endswith("__init__.py")]
            path = ".".join([*package, path.lstrip(".")])
        elif "." not in path:
            path = f"{here}.{path}"
        for _ in range(5):
            module, _, name = path.rpartition(".")
            found = [
                one
                for one in self._by_name.get(name, ())
                if one.qualname in wanted(name) and _same_module(one.module, module)
            ]
            if len(found) == 1:
                return found[0]
            onwards = next((target for source, target in self.exports.items() if _same_module(source, path)), None)
            if found or onwards is None or onwards == path:
                return None
            path = onwards
        return None


def _same_module(known: str, written: str) -> bool:
    """Whether a module known by its path from the root is the one imported: the root may lie above the import root."""
    return bool(written) and (known == written or known.endswith(f".{written}"))


def _dotted(relative: str) -> str:
    parts = relative.removesuffix(".py").split(os.sep)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def _tree_of(path: str) -> ast.Module | None:
    try:
        with open(path, "rb") as file:
            return _parsed(file.read())
    except OSError:
        return None


def _read(path: str, root: str) -> tuple[Signature, ...]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return ()
    tree = _parsed(data) if b"jaxtyping" in data else None
    return () if tree is None else tuple(signatures(tree, _dotted(os.path.relpath(path, root)), path))


def _parsed(data: bytes) -> ast.Module | None:
    try:
        return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _exports(tree: ast.Module, package: str) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                yield f"{package}.{alias.asname or alias.name}", f"{base}.{alias.name}"


_Stamp = tuple[int, int]  # mtime in ns, size

# More files are no project, but a disk.
_MOST_FILES = 50_000


def _python_files(root: str) -> Iterator[tuple[str, _Stamp]]:
    folders = [root]
    count = 0
    while folders:
        try:
            entries = sorted(os.scandir(folders.pop()), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                        folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    stat = entry.stat()
                    if not S_ISREG(stat.st_mode):
                        continue  # to read a pipe would wait for ever
                    count += 1
                    yield entry.path, (stat.st_mtime_ns, stat.st_size)
            except OSError:
                continue
            if count >= _MOST_FILES:
                return


class Memory:
    """What former runs read, in one file; faults of the file or the disk only mean that it is read again."""

    _FORMAT = 1

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, list[Any]] = {}  # path -> mtime, size, signatures if any
        self._kept: dict[str, list[Any]] = {}
        self._changed = False
        if file is not None:
            with suppress(OSError, ValueError, KeyError, TypeError):
                content = json.loads(file.read_bytes())
                if content["format"] == self._FORMAT:
                    self._known = content["files"]

    def get(self, path: str, stamp: _Stamp) -> tuple[Signature, ...] | None:
        """The signatures of a file; None if it changed."""
        entry = self._known.get(path)
        try:
            if entry is None or (entry[0], entry[1]) != stamp:
                return None
            found = tuple(_decoded(one) for one in entry[2]) if len(entry) > 2 else ()
        except (TypeError, IndexError, KeyError):
            return None
        self._kept[path] = entry
        return found

    def put(self, path: str, stamp: _Stamp, found: tuple[Signature, ...]) -> tuple[Signature, ...]:
        """Remember the signatures of a file."""
        self._kept[path] = [*stamp, *([[_encoded(one) for one in found]] if found else [])]
        self._changed = True
        return found

    def save(self) -> None:
        """Write what is new."""
        if self._file is None or not (self._changed or len(self._kept) != len(self._known)):
            return
        from shapecheck.codemods.fixes import write_atomically

        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps({"format": self._FORMAT, "files": self._kept}).encode())


def _encoded(one: Signature) -> list[Any]:
    parameters = [[p.name, p.dims, p.dtype, p.covers, p.positional] for p in one.parameters]
    return [one.module, one.qualname, one.path, one.row, one.enforced, parameters, one.result]


def _decoded(entry: list[Any]) -> Signature:
    module, qualname, path, row, enforced, parameters, result = entry
    return Signature(
        module,
        qualname,
        path,
        row,
        enforced,
        tuple(
            Parameter(name, _tuple(dims), dtype, covers, positional)
            for name, dims, dtype, covers, positional in parameters
        ),
        _tuple(result),
    )


def _tuple(dims: list[str] | None) -> tuple[str, ...] | None:
    return None if dims is None else tuple(dims)


__all__ = ["ContractIndex", "Memory", "Parameter", "Signature", "signatures"]
