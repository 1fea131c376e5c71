"""Tags and positions: one value for each row."""

from collections.abc import Callable
from typing import Any

import pytest

Read = Callable[..., Any]

CASES = [
    # position ids that restart
    ("t = torch.cat([torch.arange(len(s)) for s in samples])", "positions", ["each samples*"]),
    ("t = torch.cat([torch.arange(s.shape[0], device=s.device) for s in samples])", "positions", ["each samples*"]),
    ("t = np.concatenate([np.arange(len(s)) for s in samples])", "positions", ["each samples*"]),
    ("t = [i for s in samples for i in range(len(s))]", "positions", ["each samples*"]),
    ("t = list(chain.from_iterable(range(len(s)) for s in samples))", "positions", ["each samples*"]),
    ("t = sum([list(range(len(s))) for s in samples], [])", "positions", ["each samples*"]),
    ("t = []\nfor s in samples:\n    t.extend(range(len(s)))", "positions", ["each samples*"]),
    ("t = []\nfor s in samples:\n    t += list(range(len(s)))", "positions", ["each samples*"]),
    ("t = []\nfor s in samples:\n    t.append(torch.arange(len(s)))\nt = torch.cat(t)", "positions", ["each samples*"]),
    ("t = torch.cat([torch.arange(a.shape[0]), torch.arange(b.shape[0])])", "positions", ["a", "b"]),
    # one count over all rows
    ("t = torch.arange(x.shape[0])", "contiguous", ["x"]),
    ("t = torch.arange(x.shape[0]).unsqueeze(0)", "contiguous", ["x"]),
    ("t = torch.arange(x.shape[0])[None]", "contiguous", ["x"]),
    ("t = list(range(len(x)))", "contiguous", ["x"]),
    ("t = torch.arange(a.shape[0] + b.shape[0])", "contiguous", ["a", "b"]),
    # tags
    ("t = torch.full_like(ids, 3)", "tags", ["ids"]),
    ("t = torch.cat([torch.full_like(s['ids'], i) for i, s in enumerate(samples)])", "tags", ["each samples*['ids']"]),
    ("t = torch.cat([torch.full((len(s),), i) for i, s in enumerate(samples)])", "tags", ["each samples*"]),
    ("t = torch.cat([torch.full((len(s),), 0) for s in samples if s.ok])", "tags", ["each samples* filter"]),
    ("t = torch.cat([torch.full((a.shape[0],), 0), torch.full((b.shape[0],), 1)])", "tags", ["a", "b"]),
    ("t = torch.cat([torch.zeros(a.shape[0]), torch.ones(b.shape[0])])", "tags", ["a", "b"]),
    ("t = torch.cat([torch.zeros_like(a), torch.ones_like(b)])", "tags", ["a", "b"]),
    ("t = torch.full((a.shape[0] + b.shape[0],), 1)", "tags", ["a", "b"]),
    ("t = torch.full((1, a.shape[1]), 1)", "tags", ["a"]),
    ("t = torch.full(a.shape[:2], 1)", "tags", ["a"]),
    ("t = a.new_zeros(a.shape[0])", "tags", ["a"]),
    ("t = a.new_full((a.shape[0],), 2)", "tags", ["a"]),
    ("t = [0] * len(a) + [1] * len(b)", "tags", ["a", "b"]),
    ("t = torch.tensor([0] * len(a) + [1] * len(b))", "tags", ["a", "b"]),
    ("t = []\nfor i, s in enumerate(samples):\n    t += [i] * len(s)", "tags", ["each samples*"]),
    ("t = []\nfor i, s in enumerate(samples):\n    t.extend([i] * len(s))", "tags", ["each samples*"]),
    (
        "t = torch.repeat_interleave(torch.arange(n), torch.tensor([len(s) for s in samples]))",
        "tags",
        ["each samples*"],
    ),
    ("t = np.repeat(np.arange(n), [len(s) for s in samples])", "tags", ["each samples*"]),
    ("t = torch.tensor([0, 1]).repeat_interleave(torch.tensor([len(a), len(b)]))", "tags", ["a", "b"]),
]


@pytest.mark.parametrize(("body", "kind", "parts"), CASES)
def test_pieces(read: Read, body: str, kind: str, parts: list[str]) -> None:
    assert read(body).per_row("t") == (kind, parts)


@pytest.mark.parametrize(
    "body",
    [
        "t = x",
        "t = torch.zeros(n)",
        "t = torch.cat([torch.arange(n) for n in lens])",
        "t = torch.cat([torch.arange(k - q, k) for q, k in zip(a, b)])",
        "t = torch.cat([torch.zeros_like(a), other])",
        "t = list(chain(*[range(len(s)) for s in samples]))",
        "t = mask.cumsum(-1) - 1",
        "t = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)",
        "t = torch.arange(n) - cu[seg]",
        "t = torch.arange(0, x.shape[0], 2)",
        "t = torch.arange(n).repeat_interleave(lens)",
        "t = torch.arange(n).repeat_interleave(cu.diff())",
        "t = torch.searchsorted(cu, torch.arange(n), right=True) - 1",
        "t = torch.bucketize(torch.arange(n), cu, right=True) - 1",
        "t = (pos == 0).cumsum(-1)",
        "t = torch.zeros(n)\nt[cu[1:-1]] = 1\nt = t.cumsum(0)",
        "t = prepare_position_ids(cu)",
        "t = prepare_sequence_ids(cu)",
    ],
)
def test_counts_of_what_is_unknown_stay_unknown(read: Read, body: str) -> None:
    assert read(body).per_row("t") is None
