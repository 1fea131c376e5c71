"""The longest segment, and what is none."""

from collections.abc import Callable
from typing import Any

import pytest

Read = Callable[..., Any]


@pytest.mark.parametrize(
    ("body", "source"),
    [
        ("m = (cu[1:] - cu[:-1]).max()", "Sub(cu[1:], cu[:-1])"),
        ("m = (cu[1:] - cu[:-1]).max().item()", "Sub(cu[1:], cu[:-1])"),
        ("m = int(torch.max(cu[1:] - cu[:-1]))", "Sub(cu[1:], cu[:-1])"),
        ("m = cu.diff().max().item()", "diff"),
        ("m = torch.diff(cu).amax()", "diff"),
        ("m = np.diff(cu).max()", "diff"),
        ("m = lens.max()", "lens"),
        ("m = max(lens)", "lens"),
        ("m = max(lens, default=0)", "lens"),
        ("m = np.max(lens)", "lens"),
        ("m = max(len(s) for s in samples)", "each(len(samples*), samples)"),
        ("m = max(map(len, samples))", "each(len(samples*), samples)"),
        ("m = max([s.shape[0] for s in samples])", "each(shape(samples*, 0), samples)"),
        ("m = max(a.shape[0], b.shape[0])", "list(shape(a, 0), shape(b, 0))"),
        ("m = mask.sum(-1).max().item()", "sum(mask, -1)"),
        ("m = 0\nfor s in samples:\n    m = max(m, len(s))", "each(len(samples*), samples)"),
    ],
)
def test_over_lengths(read: Read, body: str, source: str) -> None:
    assert read(body).longest("m") == ("lens", source)


@pytest.mark.parametrize(
    "body", ["_, _, m = _get_unpad_data(mask)", "x, _, cu, m = unpad_input(x, mask)", "m = unpad_input(x, mask)[3]"]
)
def test_of_a_mask(read: Read, body: str) -> None:
    assert read(body).longest("m") == ("mask", "mask")


@pytest.mark.parametrize("body", ["m = x.shape[1]", "m = x.size(1)", "_, m, _ = x.shape", "m = int(x.size()[1])"])
def test_dense(read: Read, body: str) -> None:
    assert read(body).longest("m") == ("dense", "shape(x, 1)")


@pytest.mark.parametrize(
    "body",
    [
        "m = max_model_len",
        "m = 128",
        "m = lens.min()",
        "m = lens.sum()",
        "m = lens[0]",
        "m = lens.max(0)",
        "m = torch.max(lens, other)",
        "m = max_padded // cp",
        "m = g(lens)",
        "m = 512\nfor s in samples:\n    m = max(m, len(s))",
    ],
)
def test_no_maximum_for_sure(read: Read, body: str) -> None:
    assert read(body).longest("m") is None
