"""Lists of lengths, and lengths of one value."""

from collections.abc import Callable
from typing import Any

import pytest
from shapecheck.codemods.engine.describe.lengths import differences, length_of

Read = Callable[..., Any]

PARTS = [
    ("n = [len(s) for s in samples]", ["each samples*"]),
    ("n = [s.shape[0] for s in samples]", ["each samples*"]),
    ("n = [s.numel() for s in samples]", ["each samples*"]),
    ("n = torch.tensor([len(s['ids']) for s in samples])", ["each samples*['ids']"]),
    ("n = [s['ids'].size(0) for s in samples if s['ok']]", ["each samples*['ids'] filter"]),
    ("n = [len(s[:limit]) for s in samples]", ["each samples* slice"]),
    ("n = list(map(len, samples))", ["each samples*"]),
    ("n = [len(a), len(b)]", ["a", "b"]),
    ("n = (a.shape[0], b.shape[0])", ["a", "b"]),
    ("n = [len(a)] + [len(b)]", ["a", "b"]),
    ("n = [len(a), *[len(s) for s in samples]]", ["a", "each samples*"]),
    ("n = [t.shape[1] for t in (a, b)]", ["a", "b"]),
    ("n = torch.stack([torch.tensor(len(a)), torch.tensor(len(b))])", ["a", "b"]),
    ("n = []\nfor s in samples:\n    n.append(len(s))", ["each samples*"]),
    ("n = []\nfor s in samples:\n    n += [len(s)]", None),
    ("n = []\nfor s in samples:\n    if s.ok:\n        n.append(len(s))", ["each samples* filter"]),
    ("n = []\nfor s in samples:\n    if s.bad:\n        continue\n    n.append(len(s))", ["each samples* filter"]),
    ("n = []\nfor s in samples:\n    if s.bad:\n        break\n    n.append(len(s))", ["each samples* filter"]),
    (
        "n = []\nfor s in samples:\n    n.append(len(s))\n    n.append(len(s.more))",
        ["each samples*", "each samples*.more"],
    ),
]


@pytest.mark.parametrize(("body", "parts"), PARTS)
def test_of_known_values(read: Read, body: str, parts: list[str] | None) -> None:
    assert read(body).lens("n") == (None if parts is None else ("parts", parts))


@pytest.mark.parametrize(
    ("body", "kind", "source"),
    [
        ("n = mask.sum(-1)", "mask", "mask"),
        ("n = mask.sum(dim=1, dtype=torch.int32)", "mask", "mask"),
        ("n = torch.sum(mask, dim=-1).int()", "mask", "mask"),
        ("n = torch.count_nonzero(mask, dim=-1)", "mask", "mask"),
        ("n = np.sum(mask, axis=1)", "mask", "mask"),
        ("n = prepare_lens_from_mask(mask)", "mask", "mask"),
        ("n = cu[1:] - cu[:-1]", "bounds", "cu"),
        ("n = cu[1:] - cu[0:-1]", "bounds", "cu"),
        ("n = (cu[1:] - cu[:-1]).tolist()", "bounds", "cu"),
        ("n = cu.diff()", "bounds", "cu"),
        ("n = np.diff(cu)", "bounds", "cu"),
        ("n = prepare_lens(cu)", "bounds", "cu"),
        ("n = torch.full((b,), s, dtype=torch.int32)", "dense", "s"),
        ("n = [x.shape[1]] * b", "dense", "shape(x, 1)"),
    ],
)
def test_of_masks_boundaries_and_one_length(read: Read, body: str, kind: str, source: str) -> None:
    assert read(body).lens("n") == (kind, [source])


def test_sorted_lengths_describe_no_order(read: Read) -> None:
    assert read("n = sorted([len(s) for s in samples])").lens("n")[0] == "opaque"


@pytest.mark.parametrize(
    "body",
    [
        "n = mask.sum()",
        "n = mask.sum(0)",
        "n = mask.sum(axis)",
        "n = cu[1:] - cu[1:]",
        "n = cu[:-1] - cu[1:]",
        "n = cu[2:] - cu[:-2]",
        "n = cu[1:] - other[:-1]",
        "n = cu[a:] - cu[:b]",
        "n = [1, 2]",
        "n = [len(a), extra]",
        "n = [len(s) for b in batches for s in b]",
        "n = torch.empty(n0)",
        "n = [s] * b",
        "n = {'x': len(a)}",
        "n = lens",
        "n = len(a)",
    ],
)
def test_no_list_of_lengths_for_sure(read: Read, body: str) -> None:
    assert read(body).lens("n") is None


@pytest.mark.parametrize(
    ("body", "axis"),
    [
        ("n = x.shape[1]", 1),
        ("n = x.size(-2)", -2),
        ("_, n = x.shape", 1),
        ("n = x.shape[:2][1]", 1),
        ("n = torch.tensor(x.shape[0])", 0),
        ("n = int(len(x))", 0),
        ("n = x.numel()", None),
        ("n = torch.numel(x)", None),
    ],
)
def test_length_of_one_value(read: Read, body: str, axis: int | None) -> None:
    found = length_of(read(body).term("n"))
    assert found is not None
    assert found.axis == axis
    assert found.of.args[0] == "x"


@pytest.mark.parametrize("body", ["n = x.shape[axis]", "n = x.shape", "n = x.shape[0] + 1", "n = x.sum()"])
def test_no_length_of_one_value(read: Read, body: str) -> None:
    assert length_of(read(body).term("n")) is None


def test_differences_of_other_boundaries_are_none(read: Read) -> None:
    assert differences(read("n = a[1:] - b[:-1]").term("n")) is None
