"""Which files a run looks at."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shapecheck.codemods.config import Settings
from shapecheck.codemods.errors import UserError
from shapecheck.codemods.patterns import PatternError, check_patterns, verdict

# Folders that hold no code of the project, wherever they are below the folder that is walked.
DEFAULT_EXCLUDES = frozenset(
    {
        ".bzr",
        ".direnv",
        ".eggs",
        ".git",
        ".hg",
        ".hypothesis",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pants.d",
        ".pyenv",
        ".pytest_cache",
        ".pytype",
        ".ruff_cache",
        ".shapecheck_cache",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "__pypackages__",
        "_build",
        "buck-out",
        "build",
        "dist",
        "node_modules",
        "site-packages",
        "venv",
    }
)

_SUFFIXES = (".py", ".ipynb")
_Ignores = tuple[tuple[str, tuple[str, ...]], ...]  # folder and lines of each .gitignore, outermost first


class DiscoverError(UserError):
    """A path that cannot be linted; the message says why."""


@dataclass
class Discovery:
    """Finds files. Patterns exclude what is found in a folder, even in one given by name; files given by name stay.

    Attributes:
        settings_of: the settings of an absolute folder.
        force_exclude: whether excludes also hold for files and folders given by name.
        warn: takes a line about a folder that cannot be read.
    """

    settings_of: Callable[[str], Settings]
    force_exclude: bool
    warn: Callable[[str], None]

    def files(self, paths: Sequence[str]) -> list[str]:
        """The Python files and notebooks at and below some paths: absolute, sorted, each once.

        A folder's symbolic links are followed, but each file is found once, by its real path if that is below `paths`.

        Raises:
            DiscoverError: a path does not exist.
        """
        found: set[str] = set()
        walks: list[str] = []
        for path in paths:
            absolute = os.path.abspath(path)
            if not os.path.exists(absolute):
                raise DiscoverError(f"{path}: no such file or folder")
            if self.force_exclude and self.excluded_by_name(absolute):
                continue
            if os.path.isdir(absolute):
                walks.append(absolute)
            else:
                found.add(absolute)
        seen: set[tuple[int, int]] = set()
        linked_files: list[str] = []
        while walks:
            linked_folders: list[str] = []
            for root in walks:
                found.update(self._walk(root, seen, linked_folders, linked_files))
            walks = sorted(linked_folders)
        if linked_files:
            identities = {_identity(path) for path in found}
            for path in sorted(linked_files):
                if _identity(path) not in identities:
                    identities.add(_identity(path))
                    found.add(path)
        return sorted(found)

    def _excluded(self, path: str, *, folder: bool = False) -> bool:
        """Whether the settings exclude a path, not looking at the folders above it."""
        settings = self.settings_of(os.path.dirname(path))
        if settings.exclude is None and os.path.basename(path) in DEFAULT_EXCLUDES:
            return True
        patterns = (*(settings.exclude or ()), *settings.extend_exclude)
        return verdict(patterns, str(settings.root), path, folder=folder) is True

    def excluded_by_name(self, path: str) -> bool:
        """Whether a path or a folder between it and the root of its settings is excluded."""
        is_folder = os.path.isdir(path)
        root = str(self.settings_of(path if is_folder else os.path.dirname(path)).root)
        while path != root and path.startswith(os.path.join(root, "")):
            if self._excluded(path, folder=is_folder):
                return True
            path, is_folder = os.path.dirname(path), True
        return False

    def _walk(
        self, root: str, seen: set[tuple[int, int]], linked_folders: list[str], linked_files: list[str]
    ) -> Iterator[str]:
        stack = [(root, self._gitignores_above(root))]
        while stack:
            folder, above = stack.pop()
            try:
                identity = _identity(folder)
                if identity in seen:
                    continue
                seen.add(identity)
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError as error:
                self.warn(f"{folder}: cannot be read: {error.strerror}")
                continue
            ignores = self._with_gitignore(folder, above, entries)
            for entry in entries:
                is_folder = _is_folder(entry)
                if not is_folder and not entry.name.endswith(_SUFFIXES):
                    continue
                if self._excluded(entry.path, folder=is_folder) or _git_ignores(ignores, entry.path, is_folder):
                    continue
                if entry.is_symlink():
                    if is_folder:
                        linked_folders.append(entry.path)
                    elif os.path.isfile(entry.path):
                        linked_files.append(entry.path)
                elif is_folder:
                    stack.append((entry.path, ignores))
                elif entry.is_file():
                    yield entry.path

    def _with_gitignore(self, folder: str, above: _Ignores, entries: Sequence[os.DirEntry[str]]) -> _Ignores:
        if not self.settings_of(folder).respect_gitignore:
            return ()
        own = next((entry for entry in entries if entry.name == ".gitignore"), None)
        return above if own is None else (*above, *self._gitignore(folder))

    def _gitignores_above(self, root: str) -> _Ignores:
        """Those between the folder of the git repository and a folder in it."""
        folders = []
        folder = root
        while not os.path.exists(os.path.join(folder, ".git")):
            parent = os.path.dirname(folder)
            if parent == folder:
                return ()
            folders.append(folder := parent)
        return tuple(entry for folder in reversed(folders) for entry in self._gitignore(folder))

    def _gitignore(self, folder: str) -> _Ignores:
        path = os.path.join(folder, ".gitignore")
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                patterns = tuple(file.read().splitlines())
            check_patterns(patterns)
        except FileNotFoundError:
            return ()
        except PatternError as error:
            self.warn(f"{path}: left aside: {error}")
            return ()
        except OSError as error:
            self.warn(f"{path}: cannot be read: {error.strerror}")
            return ()
        return ((folder, patterns),)


def _git_ignores(ignores: _Ignores, path: str, is_folder: bool) -> bool:
    """The deepest .gitignore that has a pattern for the path decides."""
    for folder, patterns in reversed(ignores):
        decided = verdict(patterns, folder, path, folder=is_folder)
        if decided is not None:
            return decided
    return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _identity(path: str) -> tuple[int, int]:
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino
