"""Every idiom that builds boundaries, in its usual spellings; and what is no boundary for sure."""

from collections.abc import Callable
from typing import Any

import pytest
from shapecheck.codemods.engine.describe.bounds import bounds_of

Read = Callable[..., Any]

# (lengths, leading zero, dtype) of `cu`
WITH_ZERO = [
    ("cu = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))", "int32"),
    ("cu = F.pad(lens.cumsum(axis=0), (1, 0)).int()", "int32"),
    ("cu = F.pad(torch.cumsum(input=lens, dim=-1), pad=(1, 0))", "int64"),
    ("cu = nn.functional.pad(torch.cumsum(lens, dim=0), (1, 0), value=0)", "int64"),
    ("cu = torch.nn.functional.pad(torch.cumsum(lens, 0), [1, 0], 'constant', 0).to(torch.int32)", "int32"),
    ("c = lens.cumsum(0)\ncu = F.pad(c, (1, 0))", "int64"),
    ("cu = lens.cumsum(0)\ncu = F.pad(cu, (1, 0))", "int64"),
    ("cu = torch.cat([torch.zeros(1, dtype=torch.int32), lens.cumsum(0)])", "int64"),
    ("cu = torch.cat([torch.zeros(1, device=x.device), lens.cumsum(0)], dim=0)", "int64"),
    ("cu = torch.cat([torch.zeros([1]), lens.cumsum(0)])", "int64"),
    ("cu = torch.cat([torch.zeros(1).int(), lens.cumsum(0).int()])", "int32"),
    ("cu = torch.cat((lens.new_zeros(1), lens.cumsum(0)))", "int64"),
    ("cu = torch.cat([lens.new_zeros((1,)), lens.cumsum(0)])", "int64"),
    ("cu = torch.cat([torch.zeros_like(lens[:1]), lens.cumsum(0)])", "int64"),
    ("cu = torch.cat([torch.tensor(0).view(1), lens.cumsum(0)])", "int64"),
    ("cu = torch.cat([torch.tensor(0).unsqueeze(0), lens.cumsum(0)])", "int64"),
    ("cu = torch.concat([torch.tensor([0]), lens.cumsum(0)])", "int64"),
    ("cu = torch.hstack([torch.tensor([0], device=x.device), lens.cumsum(0)])", "int64"),
    ("zero = torch.zeros(1, dtype=torch.int32)\ncu = torch.cat([zero, lens.cumsum(0)])", "int64"),
    ("cu = np.concatenate([[0], np.cumsum(lens)])", "int64"),
    ("cu = np.concatenate(([0], np.cumsum(lens)), axis=0)", "int64"),
    ("cu = np.hstack(([0], np.cumsum(lens)))", "int64"),
    ("cu = np.insert(np.cumsum(lens), 0, 0)", "int64"),
    ("cu = np.append(0, np.cumsum(lens))", "int64"),
    ("cu = np.append([0], np.cumsum(lens))", "int64"),
    ("cu = np.pad(np.cumsum(lens), (1, 0))", "int64"),
    ("cu = torch.zeros(n + 1, dtype=torch.int32)\ncu[1:] = lens.cumsum(0)", "int32"),
    ("cu = torch.zeros(n + 1, dtype=torch.int32)\ncu[1:n + 1] = lens.cumsum(0)", "int32"),
    ("cu = torch.empty(n + 1, dtype=torch.int32)\ncu[0] = 0\ncu[1:] = lens.cumsum(0)", "int32"),
    ("cu = torch.empty(n + 1, dtype=torch.int32)\ncu[1:] = lens.cumsum(0)\ncu[0] = 0", "int32"),
    (
        "cu = torch.empty(n + 2, dtype=torch.int32)\ncu[0] = 0\ncu[1:-1] = lens.cumsum(0)\ncu[-1] = total",
        "int32",
    ),
    ("cu = torch.full((n + 1,), total, dtype=torch.int32)\ncu[0] = 0\ncu[1:k + 1] = lens.cumsum(0)", "int32"),
    ("cu = torch.zeros(n + 1, dtype=torch.int32)\ntorch.cumsum(lens, 0, out=cu[1:])", "int32"),
    ("cu = torch.zeros(n + 1, dtype=torch.int32)\ntorch.cumsum(lens, dim=0, dtype=torch.int32, out=cu[1:])", "int32"),
    ("cu = np.zeros(n + 1, dtype=np.int32)\nnp.cumsum(lens, out=cu[1:])", "int32"),
    ("cu = torch.zeros(n + 1, dtype=torch.int32)\ncu[1:].copy_(lens.cumsum(0))", "int32"),
    ("cu = torch.zeros(n + 1, dtype=torch.int32)\ncu[1:] = lens\ncu = cu.cumsum(0)", "int64"),
    ("cu = torch.zeros(n + 1, dtype=torch.int32)\ncu[1:] = lens\ncu.cumsum_(0)", None),
    ("buf.np[0] = 0\nbuf.np[1:n + 1] = np.cumsum(lens)\ncu = buf.np", None),
    ("cu = np.cumsum([0] + lens)", "int64"),
    ("cu = np.cumsum([0, *lens])", "int64"),
    ("cu = torch.tensor([0] + lens).cumsum(0)", "int64"),
    ("cu = torch.tensor(np.cumsum([0] + lens), dtype=torch.int32)", "int32"),
    ("cu = torch.cumsum(torch.tensor([0, *lens], dtype=torch.int32), 0, dtype=torch.int32)", "int32"),
    ("cu = list(itertools.accumulate(lens, initial=0))", "int64"),
    ("cu = [0, *accumulate(lens)]", "int64"),
    ("cu = [0] + list(accumulate(lens))", "int64"),
    ("cu = torch.tensor([0, *accumulate(lens)], dtype=torch.int32)", "int32"),
    ("cu = torch.tensor([0] + list(accumulate(lens)), dtype=torch.int32)", "int32"),
    ("cu = list(accumulate([0] + lens))", "int64"),
    ("cu = prepare_cu_seqlens_from_lens(lens)", "int32"),
    ("cu = prepare_cu_seqlens_from_lens(lens, dtype=torch.int64)", "int64"),
    ("cu = prepare_cu_seqlens_from_lens(lens, torch.int64)", None),
]


@pytest.mark.parametrize(("body", "dtype"), WITH_ZERO)
def test_cumulated_lengths_with_a_leading_zero(read: Read, body: str, dtype: str | None) -> None:
    assert read(body).bounds("cu") == ("lens", "lens", True, dtype)


@pytest.mark.parametrize("body", ["cu = lens.cumsum(0)", "cu = torch.cumsum(lens, 0)", "cu = list(accumulate(lens))"])
def test_without_a_leading_zero(read: Read, body: str) -> None:
    assert read(body).bounds("cu") == ("lens", "lens", False, "int64")


@pytest.mark.parametrize(
    "body",
    [
        "cu = [0]\nfor s in samples:\n    cu.append(cu[-1] + len(s))",
        "cu = [0]\nfor s in samples:\n    n = len(s)\n    cu.append(n + cu[-1])",
        "cu = [0]\nfor s in samples:\n    cu += [cu[-1] + len(s)]",
        "cu = [0]\nfor s in samples:\n    cu = cu + [cu[-1] + len(s)]",
        "cu = [0]\nfor s in samples:\n    cu.extend([cu[-1] + len(s)])",
        "cu = [0]\noffset = 0\nfor s in samples:\n    offset += len(s)\n    cu.append(offset)",
        "cu, offset = [0], 0\nfor s in samples:\n    offset = offset + len(s)\n    cu += [offset]",
        "num = [0]\nfor s in samples:\n    num.append(len(s))\ncu = np.cumsum(num)",
    ],
)
def test_running_sums_over_samples(read: Read, body: str) -> None:
    found = read(body)
    assert found.bounds("cu")[:3] == ("lens", "each(len(samples*), samples)", True)


def test_a_buffer_that_a_loop_fills(read: Read) -> None:
    found = read("cu = torch.zeros(n + 1)\nfor i in range(n):\n    cu[i + 1] = cu[i] + lens[i]")
    assert found.bounds("cu")[:3] == ("lens", "each(lens[arange*], arange)", True)


def test_a_running_sum_over_some_samples_cumulates_only_those(read: Read) -> None:
    found = read("cu = [0]\nfor s in samples:\n    if s.ok:\n        cu.append(cu[-1] + len(s))")
    assert found.bounds("cu")[:3] == ("lens", "each(len(samples*), samples, samples*.ok)", True)


DENSE = [
    ("cu = torch.arange(0, (b + 1) * s, step=s, dtype=torch.int32)", "s", "int32"),
    ("cu = torch.arange(0, b * s + 1, s)", "s", "int64"),
    ("cu = torch.arange(start=0, end=(b + 1) * s, step=s)", "s", "int64"),
    ("cu = list(range(0, (b + 1) * s, s))", "s", "int64"),
    ("cu = torch.arange(b + 1) * s", "s", "int64"),
    ("cu = s * torch.arange(b + 1)", "s", "int64"),
    ("cu = torch.arange(b + 1, dtype=torch.int32) * s", "s", "int32"),
    ("cu = s * torch.arange(0, b + 1, dtype=torch.int32)", "s", "int32"),
    ("cu = torch.arange(0, b + 1) * x.shape[1]", "shape(x, 1)", "int64"),
    ("cu = np.arange(b + 1) * s", "s", "int64"),
    ("cu = [i * s for i in range(b + 1)]", "s", "int64"),
    ("cu = torch.tensor([s * i for i in range(b + 1)], dtype=torch.int32)", "s", "int32"),
]


@pytest.mark.parametrize(("body", "length", "dtype"), DENSE)
def test_multiples_of_one_length(read: Read, body: str, length: str, dtype: str) -> None:
    assert read(body).bounds("cu") == ("dense", length, True, dtype)


def test_multiples_that_start_later_have_no_zero(read: Read) -> None:
    found = bounds_of(read("cu = torch.arange(1, b + 1) * s").term("cu"))
    assert (found.zero, found.zeros) == (False, 0)


MASKS = [
    "_, cu, _ = _get_unpad_data(mask)",
    "cu = _get_unpad_data(mask)[1]",
    "cu = _get_unpad_data(attention_mask=mask)[1]",
    "x, indices, cu, longest = unpad_input(x, mask)",
    "x, indices, cu, longest, *_ = unpad_input(x, mask)",
    "x, indices, cu, longest, used = unpad_input(x, mask)",
    "cu = unpad_input(x, attention_mask=mask)[2]",
    "cu = prepare_cu_seqlens_from_mask(mask)",
]


@pytest.mark.parametrize("body", MASKS)
def test_rows_that_a_mask_keeps(read: Read, body: str) -> None:
    assert read(body).bounds("cu") == ("mask", "mask", True, "int32")


VISION = [
    ("cu = F.pad(torch.repeat_interleave(h * w, t).cumsum(0), (1, 0))", "repeat_interleave"),
    (
        "cu = torch.repeat_interleave(g[:, 1] * g[:, 2], g[:, 0]).cumsum(dim=0)\ncu = F.pad(cu, (1, 0), value=0)",
        "repeat_interleave",
    ),
    ("cu = F.pad(grid.prod(-1).cumsum(0), (1, 0))", "prod"),
    ("cu = torch.unique_consecutive(F.pad(grid.prod(-1).cumsum(0), (1, 0)))", "prod"),
    ("n = mask.sum(-1, dtype=torch.int32)\ncu = F.pad(torch.cumsum(n, 0), (1, 0))", "sum(mask, -1)"),
]


@pytest.mark.parametrize(("body", "source"), VISION)
def test_lengths_that_are_computed(read: Read, body: str, source: str) -> None:
    assert read(body).bounds("cu") == ("lens", source, True, "int64")


@pytest.mark.parametrize(
    "body", ["cu = cu // cp", "cu = torch.div(cu, cp, rounding_mode='floor')", "cu = [b // cp for b in cu]"]
)
def test_shards_keep_what_they_were_divided_by(read: Read, body: str) -> None:
    found = bounds_of(read("cu = F.pad(lens.cumsum(0), (1, 0))\n" + body).term("cu"))
    assert found is not None
    assert found.divisor is not None
    assert found.divisor.args[0] == "cp"


@pytest.mark.parametrize(
    ("body", "appended"),
    [
        ("cu[-1] = total", 0),
        ("cu = F.pad(cu, (0, 1), value=total)", 1),
        ("cu = torch.cat([cu, cu[-1:] + pad])", 1),
        ("cu = cu.tolist()\ncu = cu + [total]", 1),
    ],
)
def test_tails(read: Read, body: str, appended: int) -> None:
    found = bounds_of(read("cu = F.pad(lens.cumsum(0), (1, 0))\n" + body).term("cu"))
    assert (found.kind, found.zero, len(found.appended)) == ("lens", True, appended)


def test_a_second_zero_is_counted(read: Read) -> None:
    assert bounds_of(read("cu = F.pad(F.pad(lens.cumsum(0), (1, 0)), (1, 0))").term("cu")).zeros == 2


def test_a_copy_on_the_host_is_known_as_one(read: Read) -> None:
    found = read("cu = F.pad(lens.cumsum(0), (1, 0))\nhost = cu.tolist()\nback = torch.tensor(host)")
    assert bounds_of(found.term("host")).on_host
    assert not bounds_of(found.term("back")).on_host


UNKNOWN = [
    "cu = torch.tensor([0, n])",
    "cu = torch.tensor([0, x.shape[0]], dtype=torch.int32)",
    "cu = torch.arange(b + 1)",  # decode: one row each, or any other count
    "cu = torch.linspace(0, b * s, b + 1)",
    "cu = cu_padded // cp",
    "cu = torch.cumsum(lens, 0) - lens",  # where segments start
    "cu = np.r_[0, np.cumsum(lens)]",
    "cu = torch.cat([cu[:1], lens.cumsum(0)])",
    "cu = F.pad(lens.cumsum(0), (1, 0), value=5)",
    "cu = F.pad(lens.cumsum(0), (0, 0, 1, 0))",
    "cu = F.pad(lens.cumsum(0), (n, 0))",
    "starts = (pos == 0).nonzero().flatten()\ncu = torch.cat([starts, torch.tensor([pos.numel()])])",
    "starts = torch.where(pos == 0)[0]\ncu = torch.cat([starts, torch.tensor([pos.shape[0]])])",
    "starts = torch.nonzero(pos == 0, as_tuple=True)[0]\ncu = F.pad(starts, (0, 1), value=pos.numel())",
    "cu = torch.cat([torch.tensor([0]), torch.where(pos[1:] <= pos[:-1])[0] + 1, torch.tensor([n])])",
    "cu = torch.cat([torch.tensor([0]), torch.where(torch.diff(pos) != 1)[0] + 1, torch.tensor([n])])",
    "cu = []\noffset = 0\nfor s in samples:\n    cu.append(offset)\n    offset += len(s)\ncu.append(offset)",
    "cu = [0]\nfor s in samples:\n    if s.ok:\n        cu.append(cu[-1] + len(s))\n    else:\n        cu.append(0)",
    "cu = [5]\nfor s in samples:\n    cu = g(cu)",
    "q, (k, v), ind, (cu, cuk), (mq, mk) = unpad_input(q, (k, v), mask, q_len)",
    "cu = F.pad(lens.cumsum(0), (1, 0))\ncu[n + 1:] = cu[n]",
    "cu = F.pad(lens.cumsum(0), (1, 0))\ncu[n + 1:].fill_(cu[n])",
    "cu = F.pad(lens.cumsum(0), (1, 0))\ncu = cu[:-1]",
    "cu = g(lens)",
    "cu = cu_seqlens",
]


@pytest.mark.parametrize("body", UNKNOWN)
def test_what_is_not_certain_stays_unknown(read: Read, body: str) -> None:
    assert read(body).bounds("cu") is None


def test_a_zero_that_was_never_written_is_unknown(read: Read) -> None:
    assert read("cu = torch.empty(n + 1)\ncu[1:] = lens.cumsum(0)").bounds("cu")[2] is None
