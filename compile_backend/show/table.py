"""An explanation as text: a table of the attentions, then what is known about each.

One layout, made by rich; without colour it is ASCII and never cut, for it is read in logs and pull requests too.
"""

import io
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text
from shapecheck.compile_backend.explanation import ExplainedSite, Explanation
from shapecheck.compile_backend.report import Report
from shapecheck.compile_backend.show import words
from shapecheck.compile_backend.show.groups import Group as Alike
from shapecheck.compile_backend.show.groups import groups

_PLAIN_WIDTH = 110
_MIN_WIDTH = 40
_MIN_OVERVIEW = 88
_MAX_NAMES = 3
_STYLES = {"proved": "green", "guarded": "green", "checked": "cyan", "refused": "yellow", "contradicted": "red"}


def for_stdout(explanation: Explanation) -> str:
    """As wide as the terminal and coloured, where stdout is one; plain when piped."""
    if not sys.stdout.isatty():
        return _render(parts(explanation), _PLAIN_WIDTH, colour=False)
    width = max(shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns, _MIN_WIDTH)
    return _render(parts(explanation), width, colour="NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb")


def for_log(report: Report) -> str:
    """The attentions of one graph, plain."""
    return _render(
        _sites([ExplainedSite(1, site) for site in report.sites], one_graph=True), _PLAIN_WIDTH, colour=False
    )


def parts(explanation: Explanation) -> Iterator[RenderableType]:
    """What rich prints, from top to bottom."""
    yield Text(_ascii(f"shapecheck: {words.headline(explanation)}"), style="bold")
    if saved := words.total(explanation):
        yield Text(_ascii(saved))
    if explanation.sites:
        yield ""
        yield from _sites(explanation.sites, one_graph=len(explanation.reports) == 1)
    failures = [(number, one.failure) for number, one in enumerate(explanation.reports, 1) if one.failure]
    if failures:
        yield ""
        yield Text("graphs left as they are", style="bold")
        yield _fields([(f"graph {number}", failure, "yellow") for number, failure in failures])
    if explanation.breaks:
        yield ""
        yield Text("graph breaks", style="bold")
        yield _fields([(words.place(one.location) or "?", one.reason, "") for one in explanation.breaks])
    if explanation.skipped:
        yield ""
        yield Text(f"{words.count(explanation.skipped, 'function')} not captured: TORCH_LOGS=graph_breaks tells why")


def _sites(sites: Sequence[ExplainedSite], *, one_graph: bool) -> Iterator[RenderableType]:
    found = groups(sites)
    yield _Overview(found, one_graph)
    for number, group in enumerate(found):
        if number:
            yield ""
        yield _detail(group, one_graph=one_graph)


@dataclass(frozen=True, slots=True)
class _Overview:
    """One row for each group, where there is room for the columns; what it says, the details say too."""

    groups: Sequence[Alike]
    one_graph: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= _MIN_OVERVIEW:
            yield self._table()
            yield ""

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for column in ("#", *(() if self.one_graph else ("graph",)), "attention", "at", "queries", "FLOPs", "result"):
            table.add_column(column, overflow="fold")
        for group in self.groups:
            one = group.sites[0]
            site, work = one.site, one.work
            cells = (
                group.label,
                *(() if self.one_graph else (words.graphs(group.sites),)),
                site.form,
                os.path.basename(site.location),
                site.q,
                f"{words.times(work.flops_dense / work.flops)} times less" if work.flops_dense and work.flops else "",
            )
            outcome = ("lowered", "green") if site.lowered else ("left as it is", "yellow")
            table.add_row(*(Text(_ascii(cell)) for cell in cells), Text(*outcome))
        return table


def _detail(group: Alike, *, one_graph: bool) -> RenderableType:
    one = group.sites[0]
    site, work = one.site, one.work
    names = ", ".join(each.site.name for each in group.sites[:_MAX_NAMES])
    more = f" and {len(group.sites) - _MAX_NAMES} more" if len(group.sites) > _MAX_NAMES else ""
    title = f"{group.label}  {site.form} {site.dtype} on {site.device}: {names}{more}"
    facts = [
        ("graph", "" if one_graph else words.graphs(group.sites), ""),
        ("at", words.place(site.location), ""),
        ("left", "" if site.lowered else site.reason, "yellow"),
        ("kernel", site.kernel, ""),
        ("mask", ", ".join(filter(None, (site.mask, words.causality(one)))), ""),
        ("shapes", f"q {site.q}, k {site.k}, v {site.v}", ""),
        *(("packing", words.segments(seen), "") for seen in one.observed[:1]),
        ("forward", words.flops(work), ""),
        ("ran", words.ran(one), ""),
        ("saves", words.memory(work) if site.lowered else "", ""),
    ]
    checks = [
        (held.status, f"{held.name}: {held.detail}" if held.detail else held.name, _STYLES[held.status])
        for held in site.obligations
    ]
    rows = [fact for fact in facts if fact[1]] + checks
    return Group(Text(_ascii(title), style="bold"), _fields(rows))


def _fields(rows: Sequence[tuple[str, str, str]]) -> Table:
    """Label, text and the style of the label, one below the other."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold", min_width=12)
    grid.add_column(overflow="fold", ratio=1)
    for label, text, style in rows:
        grid.add_row("", Text(_ascii(label), style=style), Text(_ascii(text)))
    return grid


def _render(renderables: Iterator[RenderableType], width: int, *, colour: bool) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, color_system="standard" if colour else None, force_terminal=colour, highlight=False
    )
    for one in renderables:
        console.print(one)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().split("\n"))


def _ascii(text: str) -> str:
    """Without anything that a terminal might act on or an encoding lacks; lines stay lines."""
    return "\n".join(ascii(line)[1:-1].replace("\\'", "'").replace("\\\\", "\\") for line in text.splitlines())
