"""An explanation as a self-contained page: no script, no network, light and dark, readable on a phone."""

import itertools
from collections.abc import Sequence

from shapecheck.compile_backend.explanation import ExplainedSite, Explanation
from shapecheck.compile_backend.show import words
from shapecheck.compile_backend.show.drawing import drawing
from shapecheck.compile_backend.show.groups import Group, groups

_STYLE = """
.shapecheck { --text: #1c2024; --soft: #5b646e; --back: #fff; --card: #f5f6f8; --line: #d5d9de; --block: #2f6fdb;
  --good: #1a7a3c; --check: #0b6e8a; --warn: #8f5a00; --bad: #b3261e; color-scheme: light dark;
  font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 62rem; margin: 0 auto;
  padding: 1rem; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { .shapecheck { --text: #e6e8ea; --soft: #a0a8b1; --back: #15181b; --card: #1e2226;
  --line: #3a4148; --block: #6ea0f5; --good: #6fd08c; --check: #67c5de; --warn: #e5b567; --bad: #ff8a80; } }
.shapecheck h1 { font-size: 1.4rem; margin: 0 0 .25rem; }
.shapecheck h2 { font-size: 1.1rem; margin: 0 0 .5rem; }
.shapecheck p { margin: .25rem 0; }
.shapecheck .soft { color: var(--soft); }
.shapecheck section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem;
  margin: 1rem 0; }
.shapecheck .site { display: flex; flex-wrap: wrap; gap: 1rem 1.5rem; }
.shapecheck .facts { flex: 1 1 20rem; min-width: 0; }
.shapecheck figure { flex: 0 1 22rem; min-width: min(16rem, 100%); margin: 0; }
.shapecheck figcaption { font-size: .875rem; color: var(--soft); }
.shapecheck svg { display: block; width: 100%; height: auto; }
.shapecheck dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .75rem; margin: 0 0 .75rem; }
.shapecheck dt { color: var(--soft); }
.shapecheck dd { margin: 0; min-width: 0; }
.shapecheck ul { list-style: none; margin: 0; padding: 0; }
.shapecheck li { margin: .3rem 0; }
.shapecheck pre { white-space: pre-wrap; margin: .25rem 0; font: .875rem/1.4 ui-monospace, monospace; }
.shapecheck .status { display: inline-block; font-size: .8rem; font-weight: 600; border: 1px solid; border-radius: 4px;
  padding: 0 .35rem; }
.shapecheck .proved, .shapecheck .guarded, .shapecheck .lowered { color: var(--good); }
.shapecheck .checked { color: var(--check); }
.shapecheck .refused, .shapecheck .left { color: var(--warn); }
.shapecheck .contradicted { color: var(--bad); }
.shapecheck .field { fill: none; stroke: var(--line); }
.shapecheck .block { fill: var(--block); stroke: var(--block); stroke-width: .75; }
.shapecheck .shade1 { fill-opacity: .55; }
.shapecheck .merged { fill-opacity: .25; stroke-dasharray: 3 2; }
.shapecheck .hatch { stroke: var(--soft); stroke-width: 1.5; }
@media (max-width: 30rem) { .shapecheck dl { grid-template-columns: 1fr; gap: 0; }
  .shapecheck dd { margin: 0 0 .4rem; } }
"""

_keys = itertools.count(1)  # ids of drawings: several explanations may stand in one notebook


def page(explanation: Explanation) -> str:
    """A whole HTML document."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>shapecheck: attentions of a compiled call</title>\n"
        "<style>html { color-scheme: light dark; } body { margin: 0; background: #fff; }\n"
        "@media (prefers-color-scheme: dark) { body { background: #15181b; } }</style>\n"
        f"</head>\n<body>\n{fragment(explanation)}\n</body>\n</html>\n"
    )


def fragment(explanation: Explanation) -> str:
    """The part that a notebook shows: one element, with its style, which touches nothing else."""
    one_graph = len(explanation.reports) == 1
    saved = words.total(explanation)
    rows = [
        f'<main class="shapecheck"><style>{_STYLE}</style>',
        "<h1>Attentions of a compiled call</h1>",
        f"<p>{words.markup(words.headline(explanation))}</p>",
        f"<p>{words.markup(saved)}</p>" if saved else "",
        *(_site(group, one_graph=one_graph) for group in groups(explanation.sites)),
        _list(
            "Graphs left as they are",
            [(f"graph {number}", one.failure) for number, one in enumerate(explanation.reports, 1) if one.failure],
        ),
        _list("Graph breaks", [(words.place(one.location) or "?", one.reason) for one in explanation.breaks]),
        "</main>",
    ]
    return "\n".join(filter(None, rows))


def _site(group: Group, *, one_graph: bool) -> str:
    one = group.sites[0]
    site, work = one.site, one.work
    outcome = "lowered" if site.lowered else "left"
    where = f" at {words.place(site.location)}" if site.location else ""
    facts = [
        ("left because", "" if site.lowered else site.reason),
        ("kernel", site.kernel),
        ("mask", ", ".join(filter(None, (site.mask, words.causality(one))))),
        ("shapes", f"q {site.q}, k {site.k}, v {site.v}"),
        ("type", f"{site.dtype} on {site.device}"),
        ("forward", words.flops(work)),
        ("not allocated", words.memory(work) if site.lowered else ""),
        ("ran", words.ran(one)),
        ("nodes", ", ".join(each.site.name for each in group.sites)),
        ("graph", "" if one_graph else words.graphs(group.sites)),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{words.markup(text)}</dd>" for name, text in facts if text)
    held = "".join(
        f'<li><span class="status {one.status}">{one.status}</span> {words.markup(one.name)}'
        f"{f'<br><span class=soft>{words.markup(one.detail)}</span>' if one.detail else ''}</li>"
        for one in site.obligations
    )
    return (
        f"<section><h2>{words.markup(group.label)}. {words.markup(site.form)}{words.markup(where)}: "
        f'<span class="{outcome}">{"lowered" if site.lowered else "left as it is"}</span></h2>'
        f'<div class="site"><div class="facts"><dl>{listed}</dl>{f"<ul>{held}</ul>" if held else ""}</div>'
        f"{_figure(one)}</div></section>"
    )


def _figure(one: ExplainedSite) -> str:
    if not one.observed:
        return ""
    seen = one.observed[0]
    segments = words.segments(seen)
    axes = f"{seen.rows_q:,} queries downwards, {seen.rows_k:,} keys to the right"
    part = f"{seen.pairs / max(seen.rows_q * seen.rows_k, 1):.1%} of the pairs are computed"
    order = "Rows stand in packed order." if seen.ordered else ""
    svg, note = drawing(
        seen,
        f"Mask of {one.site.form}: {segments}",
        f"{axes}. {words.causality(one) or 'full'} inside each segment. {part}.",
        f"shapecheck-{next(_keys)}",
    )
    caption = " ".join(filter(None, (f"{segments}; {axes}; {part}.", order, note)))
    return f"<figure>{svg}<figcaption>{words.markup(caption)}</figcaption></figure>"


def _list(title: str, rows: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<li><b>{words.markup(name)}</b><pre>{words.markup(text)}</pre></li>" for name, text in rows)
    return f"<section><h2>{title}</h2><ul>{items}</ul></section>" if rows else ""
