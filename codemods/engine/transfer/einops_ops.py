"""einops: a rearrangement keeps rows unless it splits or merges the token axis with a name other than batch."""

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.engine.transfer._registry import CallView, function


@function("einops.rearrange", "einops.repeat")
def rearrange(call: CallView) -> Term | None:
    source, pattern = call.arg(0, "tensor"), call.arg(1, "pattern")
    if source is None or pattern is None:
        return None
    if call.path.endswith("repeat"):
        return call.make("repeat", source, pattern)
    return call.make("view", "rearrange", source, pattern)
