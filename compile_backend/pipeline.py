"""The pass itself: normalize, find the attentions, prove, lower, report."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from shapecheck.compile_backend import calls_arguments, log
from shapecheck.compile_backend.calls import Calls
from shapecheck.compile_backend.calls_operators import takes_boundaries
from shapecheck.compile_backend.elements import Unknown
from shapecheck.compile_backend.emit import CannotLower
from shapecheck.compile_backend.facts import origin
from shapecheck.compile_backend.lower import Lowering
from shapecheck.compile_backend.normalize import Normalized, NormalizeError, normalize
from shapecheck.compile_backend.obligations import Refused, discharge, no_dropout
from shapecheck.compile_backend.reading import Memory, hint, location, shape, shape_text, tensor, value
from shapecheck.compile_backend.regions import Regions
from shapecheck.compile_backend.report import Obligation, Report, Site, Sizes
from shapecheck.compile_backend.sites import Attention, Mask, find, mask_of
from shapecheck.compile_backend.structure import Structure, structure
from torch import Tensor, fx


def rewrite(gm: fx.GraphModule, fakes: Sequence[Any] | None = None) -> tuple[fx.GraphModule, Report]:
    """Lower every attention of a graph whose mask is proved to be block-diagonal.

    For authors of backends: call it on the graph that Dynamo hands you, compile what comes back.

    Args:
        gm: the graph, as a backend gets it from Dynamo. It is changed in place: attentions are lowered, and boundaries
            of calls that are varlen already are checked where nothing else checks them; else not at all.
        fakes: fake values of the inputs, with symbolic sizes, for a graph whose placeholders have no
            `meta["example_value"]`.

    Returns:
        `gm`, and what was done.
    """
    started = time.perf_counter()
    report = Report()
    changed = False
    if fakes is not None:
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        for node, fake in zip(placeholders, fakes, strict=True):
            node.meta.setdefault("example_value", fake)
    if _may_attend(gm):
        regions = Regions.unshare(gm)
        try:
            found = _Pass(normalize(gm), report)
        except NormalizeError as error:
            report.failure = str(error)
        except Exception as error:  # a fault of ours must not cost the user a model that would run
            log.LOGGER.exception("the analysis failed, and the graph goes on as it was")
            report.failure = f"{type(error).__name__}: {error}"
        else:
            changed = found.run()
        regions.share()
    if changed:
        for module in gm.modules():
            if isinstance(module, fx.GraphModule):
                module.graph.lint()
                module.recompile()
    report.seconds = time.perf_counter() - started
    return gm, report


def _may_attend(gm: fx.GraphModule) -> bool:
    """Whether there is anything to look for: analysis costs time."""
    words = ("attention", "attn", "softmax")
    return any(
        any(word in str(getattr(node.target, "__name__", node.target)).lower() for word in words)
        or takes_boundaries(node.target)
        for module in gm.modules()
        if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes
    )


class _Pass:
    def __init__(self, normalized: Normalized, report: Report) -> None:
        self._normalized = normalized
        self._report = report
        self._memory = Memory(normalized)
        self._lowering = Lowering(normalized, self._memory)
        self._sites = list(find(normalized))
        self._calls = list(calls_arguments.find(normalized))
        self._caller = Calls(normalized, self._memory, report.contradictions)
        self._live = _live(normalized, self._memory, {site.output for site in self._sites})
        self._masks: dict[object, tuple[Mask, Structure] | Unknown] = {}

    def run(self) -> bool:
        """Look at every attention in the order of the graph, lower those that can be; whether the graph was changed."""
        found: list[Attention | calls_arguments.Call] = [*self._sites, *self._calls]
        for one in sorted(found, key=lambda one: self._memory.position(one.output)):
            site = self._one(one) if isinstance(one, Attention) else self._call(one)
            if site is not None:
                self._report.sites.append(site)
        return bool(self._report.lowered) or self._caller.checks.inserted > 0

    def _call(self, call: calls_arguments.Call) -> Site | None:
        try:
            return self._caller.look(call)
        except Exception:
            log.LOGGER.exception("the analysis of %s failed, and it goes on as it was", call.output.name)
            return None

    def _one(self, attention: Attention) -> Site:
        site = _site(attention, self._normalized)
        if attention.obstacle:
            return site.refused(attention.obstacle)
        if attention.form == "sdpa" and attention.mask is None:
            return replace(site, mask="none", causal=attention.causal).refused("there is no mask")
        if (attention.form == "sdpa" and attention.causal) or value(attention.output) is None:
            return site.refused("both a mask and is_causal are given")
        try:
            no_dropout(attention)
            mask, found = self._understood(attention)
            site = replace(
                site, mask=_source(found, self._memory), causal=found.causal, window=(found.left, found.right)
            )
            if not (found.tags or found.valid_q or found.valid_k or found.left >= 0 or found.right >= 0):
                return site.refused("the mask hides nothing")
            self._used_only_here(attention)
            square = _rows(attention.q) == _rows(attention.k)
            discharged = discharge(
                attention, mask, found, self._memory, square=square, trained=self._trained(attention)
            )
            site = replace(site, obligations=discharged.obligations)
            kernel, boundaries = self._lowering.lower(attention, mask, found, discharged)
        except Unknown as error:
            return site.refused(str(error))
        except Refused as error:
            return site.refused(error.obligation.detail, error.obligation)
        except CannotLower as error:
            return site.refused(str(error))
        except Exception as error:  # likewise; nothing of this attention has been changed yet
            log.LOGGER.exception("the analysis of %s failed, and it goes on as it was", site.name)
            return site.refused(f"{type(error).__name__}: {error}")
        return replace(site, lowered=True, kernel=kernel, boundaries=boundaries)

    def _trained(self, attention: Attention) -> bool:
        """Whether the result needs gradients; True where that is not known."""
        place = self._normalized.place(attention.output)
        held = None if place is None else place.node.meta.get("example_value")
        return not isinstance(held, Tensor) or held.requires_grad

    def _understood(self, attention: Attention) -> tuple[Mask, Structure]:
        square = _rows(attention.q) == _rows(attention.k)
        key = (attention.mask, attention.axes, square) if attention.mask is not None else attention.output
        if key not in self._masks:
            try:
                mask = mask_of(attention, self._normalized, self._memory)
                self._masks[key] = mask, structure(mask.formula, self._memory, square)
            except Unknown as error:
                self._masks[key] = error
        known = self._masks[key]
        if isinstance(known, Unknown):
            raise known
        return known

    def _used_only_here(self, attention: Attention) -> None:
        """Refuse an attention whose mask or weights are needed for something else: they are computed anyway."""
        rows, keys = _rows(attention.q), _rows(attention.k)
        square: list[fx.Node] = list(attention.weights)
        rest = [attention.mask] if attention.mask is not None else list(attention.weights[-1:])
        seen: set[fx.Node] = set()
        while rest:
            node = rest.pop()
            if node in seen or not isinstance(value(node), Tensor):
                continue
            seen.add(node)
            if tensor(node).dim() >= 2 and shape(node)[-2:] == (rows, keys):
                square.append(node)
                rest += node.all_input_nodes
        for node in square:
            if node in self._live:
                what = "the weights are" if node in attention.weights else "the mask is"
                detail = f"{what} used outside of attention as well ({node.name})"
                raise Refused(Obligation("the mask serves attention only", "refused", detail))


def _live(normalized: Normalized, memory: Memory, outputs: set[fx.Node]) -> set[fx.Node]:
    """What the results of a graph need, and its effects, other than through attentions.

    A write in place is an effect if its memory is an input's, or that of something else that is needed.
    """
    writes: list[fx.Node] = []
    needed: set[int | None] = set()
    rest: list[fx.Node] = []
    for node in normalized.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            needed.add(memory.storage(node))
        elif node.op == "output":
            rest.append(node)
        elif isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            (writes if memory.written(node) else rest).append(node)
    live: set[fx.Node] = set()
    while True:
        while rest:
            node = rest.pop()
            if node in live:
                continue
            live.add(node)
            needed.add(memory.storage(node))
            if node not in outputs:
                rest += node.all_input_nodes
        rest = [node for node in writes if node not in live and memory.written(node) & needed]
        if not rest:
            return live - outputs


def _rows(operand: Any) -> Any:
    return shape(operand.node)[operand.axes.index("s")]


def _source(found: Structure, memory: Memory) -> str:
    """The source of a mask in words."""
    from shapecheck.compile_backend.facts import sortedness

    parts = []
    for q, k in found.tags:
        names = []
        for tag in (q,) if q == k else (q, k):
            known = sortedness(tag.node, memory)
            came = known.origin if known is not None and known.origin else origin(tag.node)
            names.append(f"{known.why} {came}".strip() if known is not None else f"ids {came}")
        parts.append(f"equal tags ({' and '.join(names)})")
    if found.valid_k or found.valid_q:
        parts.append("padding")
    if found.causal:
        parts.append("causal")
    if found.left >= 0 or found.right > 0:
        parts.append("window")
    return ", ".join(parts) or "nothing"


def _site(attention: Attention, normalized: Normalized) -> Site:
    place = normalized.place(attention.output)
    name = attention.output.name if place is None else "/".join(node.name for node in (*place.path, place.node))
    q = tensor(attention.q.node)
    return Site(
        name=name,
        form=attention.form,
        location=location(place.node) if place is not None else "",
        q=shape_text(attention.q.node),
        k=shape_text(attention.k.node),
        v=shape_text(attention.v.node),
        dtype=str(q.dtype).removeprefix("torch."),
        device=q.device.type,
        mask="not understood",
        sizes=_numbers(attention),
    )


def _numbers(attention: Attention) -> Sizes | None:
    sizes = [
        dict(zip(operand.axes, (hint(one) for one in tensor(operand.node).shape), strict=True))
        for operand in (attention.q, attention.k, attention.v)
    ]
    if any(None in one.values() for one in sizes):
        return None
    q, k, v = ({"b": 1, "h": 1, **{axis: held or 0 for axis, held in one.items()}} for one in sizes)
    itemsize = tensor(attention.q.node).dtype.itemsize
    return Sizes(q["b"], q["h"], k["h"], q["s"], k["s"], q["d"], v["d"], itemsize)
