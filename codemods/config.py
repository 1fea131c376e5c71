"""Settings: the nearest `shapecheck.toml` or `[tool.shapecheck]` above a file. Nothing is merged."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shapecheck.codemods.errors import UserError
from shapecheck.codemods.report import FORMATS
from shapecheck.codemods.selection import Layer, unknown_code

_FILES = (".shapecheck.toml", "shapecheck.toml", "pyproject.toml")


class ConfigError(UserError):
    """Settings that cannot be used; the message names file, key and remedy."""


@dataclass(frozen=True)
class Settings:
    """The settings for the files below a folder.

    Attributes:
        root: the folder to which patterns and paths are relative.
        source: the file they come from; None for the defaults.
        layer: which rules run.
        preview: whether prefixes select preview rules too.
        per_file_ignores: pairs of gitignore-style pattern and codes.
        exclude: patterns instead of the default folders; None for those.
        extend_exclude: patterns besides.
        respect_gitignore: whether files that git ignores are left out.
        output_format: name of a report format.
        baseline: file with known findings.
        cache_dir: folder of the cache.
        extra: `sinks`, `sources` and `names` for the catalogue.
    """

    root: Path
    source: Path | None = None
    layer: Layer = field(default_factory=Layer)
    preview: bool = False
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    output_format: str | None = None
    baseline: Path | None = None
    cache_dir: Path | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Resolver:
    """Finds the settings of folders, and remembers them.

    Attributes:
        folder: the root of the defaults, absolute.
        fixed: settings that apply everywhere, from `--config` or `--isolated`.
    """

    folder: Path
    fixed: Settings | None = None
    _known: dict[str, Settings | None] = field(default_factory=dict)

    def of_folder(self, folder: str) -> Settings:
        """The settings of the files in an absolute folder.

        Raises:
            ConfigError: the nearest settings are wrong.
        """
        return self.fixed or self._nearest(folder) or self._defaults

    @property
    def _defaults(self) -> Settings:
        return Settings(self.folder)

    def _nearest(self, folder: str) -> Settings | None:
        if folder not in self._known:
            found = next(filter(None, (_load_if_ours(os.path.join(folder, name)) for name in _FILES)), None)
            parent = os.path.dirname(folder)
            self._known[folder] = found or (None if parent == folder else self._nearest(parent))
        return self._known[folder]


def project_root(folder: Path) -> Path:
    """The nearest folder at or above an absolute one with a `pyproject.toml` or a git repository; else itself."""
    markers = ("pyproject.toml", ".git")
    return next((at for at in (folder, *folder.parents) if any((at / name).exists() for name in markers)), folder)


def load(path: Path) -> Settings:
    """The settings in a file given by name.

    Raises:
        ConfigError: the file cannot be read, has no settings or wrong ones.
    """
    data = _read(path)
    if path.name == "pyproject.toml":
        tool = data.get("tool")
        if not isinstance(tool, dict) or "shapecheck" not in tool:
            raise ConfigError(f"{path}: there is no table [tool.shapecheck]")
        data = tool["shapecheck"]
    return parse(data, path.absolute(), shown=str(path))


def parse(data: Any, path: Path, *, shown: str) -> Settings:
    """Settings from the table that a file holds; `shown` is the file's name in messages.

    Raises:
        ConfigError: an unknown key or code, or a value of the wrong type.
    """
    at = f"{shown}: [tool.shapecheck]" if path.name == "pyproject.toml" else shown
    if not isinstance(data, dict):
        raise ConfigError(f"{at} must be a table")
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in _KEYS:
            import difflib

            close = difflib.get_close_matches(key, _KEYS, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(_KEYS)}"
            raise ConfigError(f"{at}: unknown key {key!r}: {hint}")
        values[key] = _KEYS[key](value, f"{at}: {key}")
    root = path.parent
    return Settings(
        root,
        path,
        Layer(
            values.get("select"),
            values.get("extend-select", ()),
            values.get("ignore", ()) + values.get("extend-ignore", ()),
        ),
        values.get("preview", False),
        values.get("per-file-ignores", ()),
        values.get("exclude"),
        values.get("extend-exclude", ()),
        values.get("respect-gitignore", True),
        values.get("output-format"),
        root / values["baseline"] if "baseline" in values else None,
        root / values["cache-dir"] if "cache-dir" in values else None,
        {key: values[key] for key in ("sinks", "sources", "names") if key in values},
    )


def _load_if_ours(path: str) -> Settings | None:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if path.endswith("pyproject.toml"):
        if b"shapecheck" not in data:
            return None  # spares the import of a TOML parser
        tool = _toml(data, path).get("tool")
        if not isinstance(tool, dict) or "shapecheck" not in tool:
            return None
        return parse(tool["shapecheck"], Path(path), shown=_relative(path))
    return parse(_toml(data, path), Path(path), shown=_relative(path))


def _relative(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _read(path: Path) -> dict[str, Any]:
    try:
        return _toml(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def _toml(data: bytes, path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _boolean(value: Any, at: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{at} must be true or false, not {value!r}")
    return value


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{at} must be a string, not {value!r}")
    return value


def _texts(value: Any, at: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{at} must be a list of strings, not {value!r}")
    return tuple(value)


def _codes(value: Any, at: str) -> tuple[str, ...]:
    codes = _texts(value, at)
    for code in codes:
        if problem := unknown_code(code):
            raise ConfigError(f"{at}: {problem}")
    return codes


def _ignores(value: Any, at: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f'{at} must be a table such as {{ "tests/**" = ["VL1"] }}, not {value!r}')
    return tuple((pattern, _codes(codes, f"{at}.{pattern!r}")) for pattern, codes in value.items())


def _format(value: Any, at: str) -> str:
    if value not in FORMATS:
        raise ConfigError(f"{at} must be one of {', '.join(FORMATS)}, not {value!r}")
    return str(value)


def _tables(value: Any, at: str) -> Any:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ConfigError(f"{at} must be a list of tables, not {value!r}")
    return value


def _table(value: Any, at: str) -> Any:
    if not isinstance(value, dict):
        raise ConfigError(f"{at} must be a table, not {value!r}")
    return value


_KEYS: Mapping[str, Callable[[Any, str], Any]] = {
    "select": _codes,
    "ignore": _codes,
    "extend-select": _codes,
    "extend-ignore": _codes,
    "preview": _boolean,
    "per-file-ignores": _ignores,
    "exclude": _texts,
    "extend-exclude": _texts,
    "respect-gitignore": _boolean,
    "output-format": _format,
    "baseline": _text,
    "cache-dir": _text,
    "sinks": _tables,
    "sources": _tables,
    "names": _table,
}
