"""Sites that look alike are shown once: a model has dozens of equal layers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shapecheck.compile_backend.explanation import ExplainedSite


@dataclass(frozen=True, slots=True)
class Group:
    """Sites that differ in nothing but their node.

    Attributes:
        numbers: of the sites, from 1.
        sites: the sites.
    """

    numbers: tuple[int, ...]
    sites: tuple[ExplainedSite, ...]

    @property
    def label(self) -> str:
        """The numbers, such as `"1-32"` or `"1-3, 5"`."""
        runs: list[list[int]] = []
        for number in self.numbers:
            if runs and number == runs[-1][-1] + 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def groups(sites: Sequence[ExplainedSite]) -> list[Group]:
    """The sites by what they have in common, in the order of the first of each."""
    found: list[list[int]] = []
    for number, one in enumerate(sites):
        alike = next((members for members in found if _alike(sites[members[0]], one)), None)
        if alike is None:
            found.append([number])
        else:
            alike.append(number)
    return [Group(tuple(i + 1 for i in members), tuple(sites[i] for i in members)) for members in found]


def _alike(one: ExplainedSite, other: ExplainedSite) -> bool:
    return (
        replace(one.site, name="", boundaries="") == replace(other.site, name="", boundaries="")
        and len(one.observed) == len(other.observed)
        and all(a is b or a.matches(b) for a, b in zip(one.observed, other.observed, strict=True))
    )
