"""What the backend found and did: one `Site` per attention, each with its obligations."""

from dataclasses import dataclass, field, replace
from typing import Literal

Status = Literal["proved", "guarded", "checked", "refused", "contradicted"]
"""How an obligation was discharged.

proved: by construction, for every call. guarded: under the guards of this graph, so for every call that runs it.
checked: at run time, in every call. refused: not discharged. contradicted: known to be false.
"""


@dataclass(frozen=True, slots=True)
class Obligation:
    """Something that must hold for the lowered attention to equal what was written.

    Attributes:
        name: what must hold, in a few words.
        status: how it was discharged.
        detail: by which fact, or why not.
    """

    name: str
    status: Status
    detail: str


@dataclass(frozen=True, slots=True)
class Site:
    """One attention of the graph.

    Attributes:
        name: the node in Dynamo's graph, with the calls whose bodies hold it (`wrap_body_0/attn`).
        form: how it is written: "sdpa", "softmax", "flex_attention" or the varlen operator's name.
        location: file and line of the user's code, `""` if unknown.
        q: shape of the queries as text, symbols included, such as `"[1, 8, s0, 64]"`; keys and values likewise.
        dtype: of the queries, such as `"float32"`.
        device: kind of device, such as `"cpu"`.
        mask: the source of the mask in words, `"none"` without one.
        obligations: in the order in which they were looked at.
        lowered: whether the attention was replaced.
        reason: why it was left as it is; `""` for a lowered one.
        kernel: the kernel that runs it; `""` where it was left.
        causal: whether the mask has the causal part.
        window: rows visible to the left and to the right, -1 without bound.
        sizes: queries, keys, heads, head dim and samples (batch) as numbers: symbols by their hints.
        boundaries: name of the node that holds the boundaries, `""` where there are none; the same for all sites that
            share one.
    """

    name: str
    form: str
    location: str
    q: str
    k: str
    v: str
    dtype: str
    device: str
    mask: str
    obligations: tuple[Obligation, ...] = ()
    lowered: bool = False
    reason: str = ""
    kernel: str = ""
    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    sizes: "Sizes | None" = None
    boundaries: str = ""

    def refused(self, reason: str, *obligations: Obligation) -> "Site":
        """This site, left as it is."""
        return replace(self, reason=reason, obligations=(*self.obligations, *obligations))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of one attention as numbers; of symbols, the hints of the call that was captured."""

    batch: int
    heads_q: int
    heads_k: int
    rows_q: int
    rows_k: int
    head_dim: int
    head_dim_v: int
    itemsize: int


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Metadata of a call that cannot fit together, whatever the values of the inputs are.

    Attributes:
        operator: that is called, such as `"torch_attn::_varlen_attn"`.
        location: file and line of the call, `""` if unknown.
        argument: of the operator.
        problem: what is wrong with it, in words.
        sources: where the argument and what it contradicts come from, one line each.
        expected: what would fit.
        actual: what was found.
        bound_by: the argument that it contradicts; None if it is none.
        hint: how to mend the call.
    """

    operator: str
    location: str
    argument: str
    problem: str
    sources: tuple[str, ...]
    expected: object
    actual: object
    bound_by: str | None
    hint: str


@dataclass(slots=True)
class Report:
    """What became of one graph.

    Attributes:
        sites: the attentions, in the order of the graph.
        contradictions: what the graph says of itself that cannot be.
        failure: why the graph could not be analysed at all; `""` where it was.
        seconds: what the analysis and the rewriting took, wall clock.
    """

    sites: list[Site] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)
    failure: str = ""
    seconds: float = 0.0

    @property
    def lowered(self) -> list[Site]:
        """The sites that were replaced."""
        return [site for site in self.sites if site.lowered]
