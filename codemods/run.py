"""Lints many files: what the cache does not know is screened, then checked, by worker processes if it is much."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shapecheck.codemods.cache import Cache, Stamp, stamp_of
from shapecheck.codemods.config import ConfigError, Resolver, Settings, project_root
from shapecheck.codemods.contracts import ContractIndex, Memory
from shapecheck.codemods.findings import Finding, Silence
from shapecheck.codemods.patterns import check_patterns
from shapecheck.codemods.screen import Screen, words_of
from shapecheck.codemods.selection import SYNTAX, Layer

if TYPE_CHECKING:
    from shapecheck.codemods.linter import Linted, Linter, Mode, Profile

_PARALLEL_FROM = 200  # files to check from which processes pay off
_WHOLE_UP_TO = 200  # files found in folders that are parsed in full
_COMMENT = (b"shapecheck", b"VL")  # in files that may hold a suppression to report as unused


@dataclass(frozen=True)
class Options:
    """How to run.

    Attributes:
        mode: `check`, `fix`, `diff` or `add-noqa`.
        unsafe: whether to apply unsafe fixes too.
        layer: the command line's selection.
        preview: the command line's `--preview`.
        jobs: worker processes; None for as many as pay off.
        silences: whether to collect the calls that no rule could judge.
    """

    mode: "Mode" = "check"
    unsafe: bool = False
    layer: Layer = field(default_factory=Layer)
    preview: bool = False
    jobs: int | None = None
    silences: bool = False


@dataclass
class Result:
    """What a run gives.

    Attributes:
        findings: sorted.
        silences: sorted.
        diffs: sorted by path.
        applied: fixes made, or comments added.
        errors: one message for each file that could not be linted.
    """

    findings: list[Finding] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    diffs: list[str] = field(default_factory=list)
    applied: int = 0
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Task:
    path: str  # absolute
    shown: str
    profile: int
    whole: bool


@dataclass(frozen=True, slots=True)
class _Outcome:
    task: _Task
    stamp: Stamp | None = None
    linted: "Linted | None" = None
    error: str | None = None


_ONLY_AST = 0x400  # ast.PyCF_ONLY_AST


class Runner:
    """Lints files with the settings of their folders."""

    def __init__(self, resolver: Resolver, options: Options, cache: Cache | None = None) -> None:
        self._resolver = resolver
        self._options = options
        self._cache = cache
        self._plans: dict[str | None, _Plan] = {}
        self._contracts = ContractIndex()

    def run(
        self,
        files: Sequence[str],
        progress: Callable[[int, int], None] = lambda done, total: None,
        *,
        named: Collection[str] = (),
    ) -> Result:
        """Lint files given by absolute path.

        Args:
            files: each once.
            progress: is told how many of how many files are done.
            named: those that are parsed in full however many there are.

        Raises:
            ConfigError: settings are wrong.
            PatternError: a pattern in them cannot be read.
        """
        result = Result()
        self._contracts = self._index(files)
        tasks: list[_Task] = []
        for path in files:
            try:
                found = self._without_check(path, path in named or len(files) <= _WHOLE_UP_TO)
            except OSError as error:
                result.errors.append(_cannot_read(path, error))
                continue
            if isinstance(found, _Task):
                tasks.append(found)
            else:
                result.findings += found
        done = len(files) - len(tasks)
        for outcome in self._outcomes(tasks):
            done += 1
            progress(done, len(files))
            self._take(outcome, result)
        if self._cache is not None:
            self._cache.save(frozenset(files))
        result.findings.sort(key=Finding.sort_key)
        result.silences.sort(key=lambda silence: (silence.path, silence.cell or 0, silence.span, silence.argument))
        result.diffs.sort()
        result.errors.sort()
        return result

    def run_text(self, data: bytes, path: str, shown: str) -> tuple[Result, bytes]:
        """Lint bytes as if they were the file at an absolute path; also returns the bytes after all fixes.

        Raises:
            ConfigError: settings are wrong.
            PatternError: a pattern in them cannot be read.
        """
        result = Result()
        self._contracts = self._index([path])
        plan = self._plan(os.path.dirname(path))
        if not plan.may_matter(data):
            return result, data
        worker = _Worker(self._profiles(), self._options)
        outcome = worker.lint(_Task(path, shown, plan.number, True), data)
        self._take(outcome, result)
        new = None if outcome.linted is None else outcome.linted.data
        return result, data if new is None else new

    def _without_check(self, path: str, whole: bool) -> tuple[Finding, ...] | _Task:
        """A file's findings if they are known or it holds no packed metadata; else what to do.

        Raises:
            OSError: the file cannot be read.
        """
        plan = self._plan(os.path.dirname(path))
        stamp = None if self._cache is None else stamp_of(path)
        if self._cache is not None and stamp is not None and not self._options.silences:
            known = self._known(path, stamp, plan, whole)
            if known is not None and (not known or self._options.mode == "check"):
                return known
        with open(path, "rb") as file:
            data = file.read()
        if plan.may_matter(data) or (whole and not _parses(path, data)):
            return _Task(path, shown_path(path), plan.number, whole)
        if self._cache is not None and stamp is not None:
            self._cache.put(path, stamp, plan.digest(whole=True), ())
        return ()

    def _known(self, path: str, stamp: Stamp, plan: "_Plan", whole: bool) -> tuple[Finding, ...] | None:
        """What the cache has; a file that parses has the same findings whether it is parsed in full or not."""
        assert self._cache is not None
        known = self._cache.get(path, stamp, plan.digest(whole=True))
        if whole or (known is not None and not any(finding.code == SYNTAX[0] for finding in known)):
            return known
        return self._cache.get(path, stamp, plan.digest(whole=False))

    def _index(self, files: Sequence[str]) -> ContractIndex:
        """The annotated signatures of the whole project, whatever files of it are linted."""
        if not files:
            return ContractIndex()
        folder = os.path.commonpath([os.path.dirname(path) for path in files])
        memory = Memory(self._cache.folder / "contracts.json") if self._cache is not None else Memory()
        index = ContractIndex.of(project_root(Path(folder)), memory)
        memory.save()
        return index

    def _plan(self, folder: str) -> "_Plan":
        settings = self._resolver.of_folder(folder)
        key = None if settings.source is None else str(settings.source)
        if key not in self._plans:
            self._plans[key] = _Plan(len(self._plans), settings, self._options, self._contracts)
        return self._plans[key]

    def _profiles(self) -> tuple["Profile", ...]:
        return tuple(plan.profile() for plan in self._plans.values())

    def _outcomes(self, tasks: Sequence[_Task]) -> Iterator[_Outcome]:
        if not tasks:
            return
        jobs = self._options.jobs or (_cores() if len(tasks) > _PARALLEL_FROM else 1)
        jobs = min(jobs, len(tasks))
        if jobs == 1:
            worker = _Worker(self._profiles(), self._options)
            yield from map(worker.process, tasks)
        else:
            yield from _in_processes(tasks, self._profiles(), self._options, jobs)

    def _take(self, outcome: _Outcome, result: Result) -> None:
        if outcome.error is not None:
            result.errors.append(outcome.error)
        linted = outcome.linted
        if linted is None:
            return
        result.findings += linted.findings
        if self._options.silences:
            result.silences += linted.silences
        result.applied += linted.applied
        if linted.diff:
            result.diffs.append(linted.diff)
        if self._cache is not None and outcome.stamp is not None and linted.data is None:
            plan = list(self._plans.values())[outcome.task.profile]
            self._cache.put(outcome.task.path, outcome.stamp, plan.digest(whole=outcome.task.whole), linted.findings)


class _Plan:
    """What to do with the files under one settings file."""

    def __init__(self, number: int, settings: Settings, options: Options, contracts: ContractIndex) -> None:
        self.number = number
        self._contracts = contracts
        self._settings = settings
        self._options = options
        if settings.extra:
            from shapecheck.codemods.catalogue import Catalogue, CatalogueError

            try:
                Catalogue.load(settings.extra)  # a wrong entry is an error, whether or not a file needs it
            except CatalogueError as error:
                raise ConfigError(f"{settings.source}: {error}") from None
        words = tuple(words_of(settings.extra))
        self._screen = Screen(words) if words else Screen.default()
        layers = (settings.layer, options.layer)
        self._reads_comments = any(layer.select is not None or layer.extend for layer in layers)
        self._digest: str | None = None

    def may_matter(self, data: bytes) -> bool:
        """Whether a file's bytes need a check."""
        called = self._contracts.pattern
        return (
            self._screen.may_matter(data)
            or (called is not None and called.search(data) is not None)
            or (self._reads_comments and any(word in data for word in _COMMENT))
        )

    def digest(self, *, whole: bool) -> str:
        """Stands for all that decides on findings besides the file: code, settings, Python, current folder, `whole`."""
        if self._digest is None:
            import json
            import sys
            from importlib.util import source_hash

            settings = self._settings
            parts = (
                *(_code_digest(), sys.version, os.getcwd(), str(settings.root), settings.layer, self._options.layer),
                *(settings.preview or self._options.preview, settings.per_file_ignores),
                *(json.dumps(settings.extra, sort_keys=True, default=str), self._contracts.digest),
            )
            self._digest = source_hash(repr(parts).encode(errors="surrogatepass")).hex()
        return f"{self._digest}{'' if whole else '-parts'}"

    def profile(self) -> "Profile":
        """The same, for worker processes.

        Raises:
            PatternError: a pattern cannot be read.
        """
        from shapecheck.codemods.linter import Profile

        settings = self._settings
        check_patterns([pattern for pattern, _ in settings.per_file_ignores])
        return Profile(
            str(settings.root),
            (settings.layer, self._options.layer),
            settings.preview or self._options.preview,
            settings.per_file_ignores,
            settings.extra,
            self._contracts,
        )


class _Worker:
    """Lints one file after the other."""

    def __init__(self, profiles: Sequence["Profile"], options: Options) -> None:
        self._profiles = profiles
        self._options = options
        self._linters: dict[int, Linter] = {}

    def process(self, task: _Task) -> _Outcome:
        """Lint a file, and write it if it is fixed."""
        try:
            stamp = stamp_of(task.path)
        except OSError as error:
            return _Outcome(task, error=_cannot_read(task.path, error))
        outcome = self.lint(task, Path(task.path))
        data = None if outcome.linted is None else outcome.linted.data
        if data is not None and self._options.mode != "diff":
            from shapecheck.codemods.fixes import write_atomically

            try:
                write_atomically(Path(task.path), data)
            except OSError as error:
                return _Outcome(task, error=f"{task.shown}: cannot be written, the file is unchanged: {error.strerror}")
        return _Outcome(task, stamp, outcome.linted, outcome.error)

    def lint(self, task: _Task, origin: Path | bytes) -> _Outcome:
        """Lint a file or the bytes of one; nothing is written. Never raises."""
        from shapecheck.codemods.source import SourceError

        try:
            linter = self._linter(task.profile)
            return _Outcome(
                task,
                linted=linter.lint(
                    *(origin, task.path, task.shown, self._options.mode), unsafe=self._options.unsafe, whole=task.whole
                ),
            )
        except OSError as error:
            return _Outcome(task, error=_cannot_read(task.path, error))
        except SourceError as error:
            return _Outcome(task, error=f"{task.shown}: cannot be fixed: {error}")
        except Exception as error:
            import traceback

            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
            reason = f"{type(error).__name__}: {error} ({place})"
            return _Outcome(task, error=f"internal error in {task.shown}: {reason}; please report")

    def _linter(self, profile: int) -> "Linter":
        from shapecheck.codemods.linter import Linter

        if profile not in self._linters:
            self._linters[profile] = Linter(self._profiles[profile], explain=self._options.silences)
        return self._linters[profile]


_worker: _Worker | None = None  # of a worker process


def _start(profiles: Sequence["Profile"], options: Options) -> None:
    global _worker  # noqa: PLW0603 - what a process is started with has no other place
    _worker = _Worker(profiles, options)
    collect_rarely()


def _process(task: _Task) -> _Outcome:
    assert _worker is not None
    return _worker.process(task)


def _in_processes(
    tasks: Sequence[_Task], profiles: Sequence["Profile"], options: Options, jobs: int
) -> Iterator[_Outcome]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    chunk = max(1, min(16, len(tasks) // (4 * jobs)))
    done = 0
    with ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=_start, initargs=(profiles, options)
    ) as pool:
        try:
            for outcome in pool.map(_process, tasks, chunksize=chunk):
                done += 1
                yield outcome
        except BrokenProcessPool:
            left = len(tasks) - done
            message = (
                f"a worker process died (out of memory?), {left} files are not linted; --jobs 1 shows at which one"
            )
            yield from (_Outcome(task, error=message) for task in tasks[done : done + 1])


def collect_rarely() -> None:
    """Let this process collect garbage rarely: a file's trees and terms become garbage together, when it is done."""
    import gc

    gc.set_threshold(50_000, 20, 20)


def shown_path(path: str) -> str:
    """An absolute path as findings show it: relative to the current folder if below it, with forward slashes."""
    relative = os.path.relpath(path)
    return (path if relative.startswith("..") else relative).replace(os.sep, "/")


def _parses(path: str, data: bytes) -> bool:
    """Whether a file is Python; a notebook is taken to be."""
    import warnings

    if path.endswith(".ipynb"):
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes and the like are not our subject
        try:
            compile(data, path, "exec", _ONLY_AST, dont_inherit=True)  # `ast.parse` without its import
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return False
    return True


def _cannot_read(path: str, error: OSError) -> str:
    return f"{shown_path(path)}: cannot be read: {error.strerror}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _code_digest() -> str:
    """Changes with the linter's code and its catalogue."""
    from importlib.util import source_hash  # hashlib would load OpenSSL

    parts = []
    for folder, folders, files in os.walk(os.path.dirname(__file__)):
        folders.sort()
        for name in sorted(files):
            if name.endswith((".py", ".toml")):
                parts += [name.encode(), Path(folder, name).read_bytes()]
    return source_hash(b"".join(parts)).hex()
