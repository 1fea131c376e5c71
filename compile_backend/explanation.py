"""What `shapecheck.explain` returns."""

from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shapecheck.compile_backend.boundaries import Boundaries
from shapecheck.compile_backend.report import Report, Site

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True, slots=True)
class Work:
    """What one attention costs in one forward pass.

    Attributes:
        flops_dense: floating point operations of both matrix products with all keys for all queries. None where the
            attention as written computes less than that, as FlexAttention does, or where its sizes are unknown.
        flops: the same for the pairs that the mask lets through; None where no boundaries were seen.
        mask_bytes: of a boolean mask for one head, the least that a dense mask takes.
        scores_bytes: of one matrix of scores, for an attention that is written with one; else 0.
    """

    flops_dense: int | None
    flops: int | None
    mask_bytes: int
    scores_bytes: int


@dataclass(frozen=True, slots=True)
class ExplainedSite:
    """One attention, and what was seen when it ran.

    Attributes:
        graph: number of its graph, from 1.
        site: what the backend found and did.
        observed: the boundaries that it got, call by call; empty if it was not lowered or did not run.
    """

    graph: int
    site: Site
    observed: tuple[Boundaries, ...] = ()

    @property
    def boundaries(self) -> list[Boundaries]:
        """The distinct ones among those observed, in order."""
        kept: list[Boundaries] = []
        for one in self.observed:
            if not any(one is other or one.matches(other) for other in kept):
                kept.append(one)
        return kept

    @property
    def work(self) -> Work:
        """The cost of one call, with the first boundaries."""
        site, sizes = self.site, self.site.sizes
        if sizes is None:
            return Work(None, None, 0, 0)
        dense = site.form in {"sdpa", "softmax"}
        pairs = sizes.batch * sizes.rows_q * sizes.rows_k
        return Work(
            flops_dense=self._flops(pairs) if dense else None,
            flops=self._flops(self.observed[0].pairs) if self.observed else None,
            mask_bytes=sizes.rows_q * sizes.rows_k if dense and site.mask != "none" else 0,
            scores_bytes=pairs * sizes.heads_q * sizes.itemsize if site.form == "softmax" else 0,
        )

    def saved_flops(self) -> tuple[int, int]:
        """Forward FLOPs of all its calls, as written and as lowered; zeros where they are not known."""
        dense = self.work.flops_dense
        if dense is None:
            return 0, 0
        return dense * len(self.observed), sum(self._flops(seen.pairs) for seen in self.observed)

    def _flops(self, pairs: int) -> int:
        assert self.site.sizes is not None
        sizes = self.site.sizes
        return 2 * pairs * sizes.heads_q * (sizes.head_dim + sizes.head_dim_v)


@dataclass(frozen=True, slots=True)
class Break:
    """Where the capture of a graph ended before the function did.

    Attributes:
        reason: Dynamo's.
        location: file and line of the user's code, `""` if unknown.
    """

    reason: str
    location: str


@dataclass(frozen=True)
class Explanation:
    """What the backend made of one call. `print` shows it; notebooks show a page.

    Attributes:
        reports: one for each captured graph, in the order of capture.
        sites: the attentions of all graphs.
        breaks: the graph breaks.
        skipped: functions that ran without being captured at all.
    """

    reports: tuple[Report, ...] = ()
    sites: tuple[ExplainedSite, ...] = ()
    breaks: tuple[Break, ...] = ()
    skipped: int = 0

    @property
    def lowered(self) -> tuple[ExplainedSite, ...]:
        """The sites that were replaced."""
        return tuple(one for one in self.sites if one.site.lowered)

    def saved_flops(self) -> tuple[int, int]:
        """Forward FLOPs of the lowered sites that ran, as written and as lowered, where both are known."""
        known = [one.saved_flops() for one in self.lowered]
        return sum(dense for dense, _ in known), sum(flops for _, flops in known)

    def saved_bytes(self) -> int:
        """Bytes of masks and scores that need not be allocated, at least. A mask that sites share counts once."""
        masks = {(one.graph, one.site.boundaries or one.site.name): one.work.mask_bytes for one in self.lowered}
        return sum(masks.values()) + sum(one.work.scores_bytes for one in self.lowered)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-serializable values."""
        return {
            "graphs": [
                {"failure": report.failure, "seconds": report.seconds, "sites": len(report.sites)}
                for report in self.reports
            ],
            "sites": [_site_dict(one) for one in self.sites],
            "breaks": [asdict(one) for one in self.breaks],
            "skipped": self.skipped,
            "saved": {
                **dict(zip(("flops_dense", "flops"), self.saved_flops(), strict=True)),
                "bytes": self.saved_bytes(),
            },
        }

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """One self-contained page, with each mask drawn; also written to `path`, if given, in UTF-8."""
        from shapecheck.compile_backend.show import page

        text = page.page(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def __str__(self) -> str:
        from shapecheck.compile_backend.show import table

        return table.for_stdout(self)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from shapecheck.compile_backend.show import table

        yield from table.parts(self)

    def _repr_html_(self) -> str:
        from shapecheck.compile_backend.show import page

        return page.fragment(self)


def _site_dict(one: ExplainedSite) -> dict[str, Any]:
    values = asdict(one.site)
    values["graph"] = one.graph
    values["calls"] = len(one.observed)
    values["observed"] = [
        {
            "cu_seqlens_q": list(seen.cu_seqlens_q),
            "cu_seqlens_k": list(seen.cu_seqlens_k),
            "segments": len(seen.segments),
            "longest": list(seen.longest),
            "pairs": seen.pairs,
            "ordered": seen.ordered,
        }
        for seen in one.boundaries
    ]
    values["work"] = asdict(one.work)
    return values
