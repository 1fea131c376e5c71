"""`shapecheck lint`: the linter's command line. Needs no torch."""

import io
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from shapecheck.codemods.cache import Cache
from shapecheck.codemods.config import Resolver, Settings, load, project_root
from shapecheck.codemods.errors import UserError
from shapecheck.codemods.findings import Finding, Silence
from shapecheck.codemods.report import FORMATS
from shapecheck.codemods.run import Options, Result, Runner, collect_rarely, shown_path
from shapecheck.codemods.selection import Layer, unknown_code
from shapecheck.codemods.texts import Texts

_STDIN = "-"
_STDIN_NAME = "<stdin>"
_GROUPS = {
    "Rules": ("select", "ignore", "extend_select", "extend_ignore", "preview"),
    "Fixes": ("fix", "unsafe_fixes", "diff", "add_noqa"),
    "Known findings": ("baseline", "write_baseline", "diff_base"),
    "Output": ("output_format", "output_file", "statistics", "explain_silence", "color", "quiet"),
    "Exit status": ("exit_zero", "exit_non_zero_on_fix"),
    "Files and settings": ("config", "isolated", "force_exclude", "stdin_filename", "jobs", "no_cache", "cache_dir"),
}


class _Rejected(click.ClickException):
    exit_code = 2


class _Grouped(click.Command):
    """Shows the options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = {
            option.name: option.get_help_record(ctx)
            for option in self.get_params(ctx)
            if option.param_type_name == "option"
        }
        grouped = {name for group in _GROUPS.values() for name in group}
        groups = {**_GROUPS, "Help": tuple(name for name in shown if name not in grouped)}
        for title, names in groups.items():
            records = [record for name in names if (record := shown[name]) is not None]
            with formatter.section(title):
                formatter.write_dl(records)


def _codes(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Codes separated by commas, in options that may be repeated."""
    codes = tuple(code.strip() for value in values for code in value.split(",") if code.strip())
    for code in codes:
        if problem := unknown_code(code):
            raise click.BadParameter(f"{problem}.", ctx, param)
    return codes


def _code_option(name: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(name, multiple=True, metavar="CODES", callback=_codes, help=text)


@dataclass(frozen=True)
class _Given:
    """The command line; the fields are called as the options."""

    paths: tuple[str, ...]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    extend_ignore: tuple[str, ...]
    preview: bool
    fix: bool
    unsafe_fixes: bool
    diff: bool
    add_noqa: bool
    baseline: Path | None
    write_baseline: Path | None
    diff_base: str | None
    output_format: str | None
    output_file: Path | None
    statistics: bool
    explain_silence: bool
    color: str
    quiet: bool
    exit_zero: bool
    exit_non_zero_on_fix: bool
    config: Path | None
    isolated: bool
    force_exclude: bool
    stdin_filename: str | None
    jobs: int | None
    no_cache: bool
    cache_dir: Path | None

    @property
    def reads_stdin(self) -> bool:
        return _STDIN in self.paths

    def check(self) -> None:
        """Reject options that do not go together."""
        exclusive = {
            "--fix": self.fix and not self.diff,  # --fix --diff is --diff
            "--diff": self.diff,
            "--add-noqa": self.add_noqa,
            "--write-baseline": self.write_baseline,
            "--diff-base": self.diff_base,
        }
        used = [option for option, value in exclusive.items() if value]
        if len(used) > 1:
            raise click.UsageError(f"{' and '.join(used)} do not go together.")
        if self.unsafe_fixes and not (self.fix or self.diff):
            raise click.UsageError("--unsafe-fixes needs --fix or --diff.")
        if self.config and self.isolated:
            raise click.UsageError("Pass either --config or --isolated.")
        if self.reads_stdin and (len(self.paths) > 1 or self.add_noqa or self.write_baseline):
            raise click.UsageError("`-` (stdin) goes without other paths, --add-noqa and --write-baseline.")
        if self.reads_stdin and self.diff_base:
            raise click.UsageError(
                "--diff-base reads what changed from the files on the disk, so `-` (stdin) goes without."
            )
        if self.stdin_filename and not self.reads_stdin:
            raise click.UsageError("--stdin-filename needs `-` as the path.")


@dataclass(frozen=True)
class _Output:
    """Where the report goes and what it looks like."""

    format: str
    file: Path | None
    statistics: bool
    color: bool
    quiet: bool

    def note(self, message: str) -> None:
        """A line on stderr besides the report."""
        if not self.quiet:
            click.echo(message, err=True)

    def write(self, findings: Sequence[Finding], sources: Callable[[str], str], *, to_stderr: bool) -> None:
        """The report, or the statistics."""
        from shapecheck.codemods.report import render, render_statistics

        if self.quiet and not findings and self.format in {"full", "concise"}:
            text = ""
        elif self.statistics:
            text = render_statistics(findings, self.format)
        else:
            version = _version() if self.format == "sarif" else ""  # no other shows it, and to find it takes a while
            text = render(self.format, findings, sources=sources, color=self.color, version=version)
        if self.file is None:
            click.echo(text, nl=False, err=to_stderr, color=True)  # `color` has decided
            return
        try:
            self.file.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise _Rejected(f"{self.file}: the report cannot be written: {error.strerror}") from None


@click.command(cls=_Grouped)
@click.argument("paths", nargs=-1, metavar="[PATHS | -]")
@_code_option("--select", "Run these rules: codes, prefixes (VL1), names or ALL, separated by commas. Repeatable.")
@_code_option("--ignore", "Do not run these rules. The longer prefix wins over --select.")
@_code_option("--extend-select", "Run these rules besides those of the settings.")
@_code_option("--extend-ignore", "Do not run these rules either.")
@click.option("--preview", is_flag=True, help="Let prefixes select preview rules too.")
@click.option("--fix", is_flag=True, help="Apply fixes after which every correct program computes the same.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: apply the other fixes too.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option("--add-noqa", is_flag=True, help="Add `# noqa: CODE` to every row with a finding.")
@click.option(
    "--baseline", type=click.Path(path_type=Path), metavar="FILE", help="Report only what FILE does not know."
)
@click.option(
    "--write-baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Make the findings the known ones, in FILE.",
)
@click.option("--diff-base", metavar="REV", help="Report only on rows added or changed since a git revision.")
@click.option("--output-format", type=click.Choice(FORMATS), help="[default: full]")
@click.option("--output-file", type=click.Path(path_type=Path), metavar="FILE", help="Write the report to FILE.")
@click.option("--statistics", is_flag=True, help="Count findings by rule.")
@click.option("--explain-silence", is_flag=True, help="List, on stderr, the calls that no rule could judge, and why.")
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True, help="Colours."
)
@click.option("-q", "--quiet", is_flag=True, help="Print the findings and their number only.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if --fix changed a file.")
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Take the settings from FILE for all files."
)
@click.option("--isolated", is_flag=True, help="Ignore all settings files.")
@click.option("--force-exclude", is_flag=True, help="Leave out excluded files even if they are named.")
@click.option("--stdin-filename", metavar="FILE", help="With `-`: the file that stdin holds.")
@click.option(
    "-j", "--jobs", type=click.IntRange(1), metavar="N", help="Worker processes. [default: one per core if it pays]"
)
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
@click.option(
    "--cache-dir", type=click.Path(path_type=Path), metavar="DIR", help="[default: .shapecheck_cache in the project]"
)
def command(paths: tuple[str, ...], **options: Any) -> None:
    """Find packed metadata that describes other rows than the tensor it travels with.

    PATHS are Python files, notebooks and folders; the current folder by default. `-` reads stdin. In folders with more
    than 200 files only the parts that hold packed metadata are parsed, so that syntax errors elsewhere stay unseen.

    Exit status: 0 nothing found, 1 findings, 2 wrong usage or a file that could not be linted.

    \b
    Examples:
      shapecheck lint src
      shapecheck lint --select VL1,VL4 --output-format github src
      shapecheck lint --fix --unsafe-fixes model.py
      shapecheck lint --diff-base origin/main
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # file names may hold bytes that are no text
    given = _Given(paths, **options)
    given.check()
    try:
        status = _lint(given)
    except UserError as error:
        raise _Rejected(str(error)) from None
    click.get_current_context().exit(status)


def _lint(given: _Given) -> int:
    here = Path.cwd()
    root = project_root(here)
    fixed = load(given.config) if given.config else Settings(root) if given.isolated else None
    resolver = Resolver(root, fixed)
    settings = resolver.of_folder(str(here))
    options = Options(
        "diff" if given.diff else "fix" if given.fix else "add-noqa" if given.add_noqa else "check",
        given.unsafe_fixes,
        Layer(given.select or None, given.extend_select, given.ignore + given.extend_ignore),
        given.preview,
        given.jobs,
        given.explain_silence,
    )
    output = _Output(
        given.output_format or settings.output_format or "full",
        given.output_file,
        given.statistics,
        _use_color(given.color, given.output_file),
        given.quiet,
    )
    if given.reads_stdin:
        return _lint_stdin(resolver, options, output, given, settings)
    from shapecheck.codemods.discover import Discovery

    files = Discovery(
        resolver.of_folder, given.force_exclude, lambda line: click.echo(f"warning: {line}", err=True)
    ).files(given.paths or (".",))
    if not files:
        output.note("warning: no Python files found")
    collect_rarely()
    named = frozenset(map(os.path.abspath, given.paths))
    result = _run(Runner(resolver, options, _cache(given, settings)), files, named, output)
    return _report(result, files, {}, output, given, settings)


def _run(runner: Runner, files: Sequence[str], named: Collection[str], output: _Output) -> Result:
    if output.quiet or not sys.stderr.isatty():
        return runner.run(files, named=named)
    from shapecheck.codemods.progress import Progress

    with Progress() as progress:
        return runner.run(files, progress, named=named)


def _lint_stdin(resolver: Resolver, options: Options, output: _Output, given: _Given, settings: Settings) -> int:
    name = given.stdin_filename
    path = os.path.abspath(name or _STDIN_NAME)
    shown = shown_path(path)
    data = sys.stdin.buffer.read()
    if name and given.force_exclude:
        from shapecheck.codemods.discover import Discovery

        if Discovery(resolver.of_folder, True, output.note).excluded_by_name(path):
            if options.mode == "fix":
                sys.stdout.buffer.write(data)
            return 0
    result, data = Runner(resolver, options).run_text(data, path, shown)
    if options.mode == "fix":
        sys.stdout.buffer.write(data)
    return _report(result, [path], {shown: data}, output, given, settings)


def _report(
    result: Result,
    files: Sequence[str],
    given_data: dict[str, bytes],
    output: _Output,
    given: _Given,
    settings: Settings,
) -> int:
    """Write everything and give the exit status."""
    findings: Sequence[Finding] = result.findings
    texts = Texts(given_data)
    if given.write_baseline:
        from shapecheck.codemods.baseline import write

        count = write(given.write_baseline, findings, frozenset(files), texts.line_of)
        output.note(f"wrote {_count(count, 'known finding')} to {given.write_baseline}")
        findings = ()
    else:
        findings = _unknown(findings, files, texts, output, given.baseline or settings.baseline)
        if given.diff_base:
            from shapecheck.codemods.changed import check_revision, on_changed_rows

            check_revision(os.curdir, given.diff_base)
            findings = on_changed_rows(findings, given.diff_base)
        if given.diff:
            click.echo("".join(result.diffs), nl=False)
            output.note(f"{_count(result.applied, 'finding')} can be fixed, {len(findings)} cannot")
        else:
            output.write(findings, texts.text_of, to_stderr=bool(given_data) and given.fix)
            if given.fix and result.applied:
                output.note(f"fixed {_count(result.applied, 'finding')}, {len(findings)} left")
            if given.add_noqa:
                output.note(f"added {_count(result.applied, 'suppression')}")
    for silence in result.silences:
        click.echo(_silence(silence), err=True)
    for error in result.errors:
        click.echo(f"Error: {error}", err=True)
    if result.errors:
        return 2
    if given.fix and given.exit_non_zero_on_fix and result.applied:
        return 1
    found = findings or (given.diff and result.applied)
    return 1 if found and not given.exit_zero else 0


def _unknown(
    findings: Sequence[Finding], files: Sequence[str], texts: Texts, output: _Output, path: Path | None
) -> Sequence[Finding]:
    """The findings that the baseline does not know."""
    if path is None:
        return findings
    from shapecheck.codemods.baseline import compare

    compared = compare(path, findings, frozenset(files), texts.line_of)
    if compared.gone:
        entries = "1 entry no longer occurs" if compared.gone == 1 else f"{compared.gone} entries no longer occur"
        output.note(f"fixed: {entries}, run --write-baseline {path}")
    return compared.new


def _cache(given: _Given, settings: Settings) -> Cache | None:
    if given.no_cache:
        return None
    return Cache(given.cache_dir or settings.cache_dir or settings.root / ".shapecheck_cache")


def _use_color(choice: str, file: Path | None) -> bool:
    if choice != "auto":
        return choice == "always"
    if file is not None or os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def _version() -> str:
    from shapecheck._cli import installed_version

    return installed_version() or "unknown"


def _silence(silence: Silence) -> str:
    cell = f"cell {silence.cell}:" if silence.cell is not None else ""
    at = silence.span.start
    return f"{silence.path}:{cell}{at.row}:{at.column}: {silence.callee}({silence.argument}): {silence.reason}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
