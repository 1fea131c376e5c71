"""Which rows a tensor holds, and what must not be concluded about them."""

from collections.abc import Callable
from typing import Any

import pytest
from shapecheck.codemods.engine.describe.rows import rows_of

Read = Callable[..., Any]
ReadModule = Callable[[str, str], Any]

JOINED = [
    ("y = torch.cat([text, video])", ["text", "video"]),
    ("y = torch.cat((text, video), dim=1)", ["text", "video"]),
    ("y = torch.concatenate([text, video], -2)", ["text", "video"]),
    ("y = np.concatenate([text, video])", ["text", "video"]),
    ("y = torch.vstack([text, video])", ["text", "video"]),
    ("y = torch.cat([torch.cat([a, b]), c])", ["a", "b", "c"]),
    ("y = torch.cat([a] + others)", ["a", "each others*"]),
    ("y = torch.cat([a, *others])", ["a", "each others*"]),
    ("y = torch.cat([t.flatten(1) for t in (a, b)])", ["a", "b"]),
    ("y = torch.cat([x[:n], x[n:]])", ["x slice", "x slice"]),
    ("y = torch.cat(parts)", ["each parts*"]),
    ("y = torch.cat(parts[:3])", ["each parts* slice"]),
    ("y = torch.cat(sorted(parts, key=len))", ["each parts* sort"]),
    ("y = torch.cat(parts[::-1])", ["each parts* slice"]),
    ("y = torch.cat([s['ids'] for s in samples])", ["each samples*['ids']"]),
    ("y = torch.cat([s.ids for s in samples])", ["each samples*.ids"]),
    ("y = torch.cat([samples[i]['ids'] for i in order])", ["each samples*['ids'] pick"]),
    ("y = torch.cat([ids[m] for ids, m in zip(all_ids, masks)])", ["each all_ids* pick"]),
    ("y = torch.cat([s['ids'][m] for s, m in zip(samples, masks)])", ["each samples*['ids'] pick"]),
    ("y = sum([s['ids'] for s in samples], [])", ["each samples*['ids']"]),
    ("y = list(chain.from_iterable(s.ids for s in samples))", ["each samples*.ids"]),
    ("y = []\nfor s in samples:\n    y.extend(s['ids'])", ["each samples*['ids']"]),
    ("y = []\nfor s in samples:\n    y += s['ids']", ["each samples*['ids']"]),
    ("y = []\nfor s in samples:\n    y += s['ids'] + [eos]", ["each samples*['ids']", "each list(eos)"]),
    ("y = []\nfor s in samples:\n    y.append(s['ids'])\ny = torch.cat(y)", ["each samples*['ids']"]),
    ("y = [0] + x", ["list(0)", "x"]),
    ("y = [bos] + x + [eos]", ["list(bos)", "x", "list(eos)"]),
    ("y = [bos, *x, eos]", ["list(bos)", "x", "list(eos)"]),
    ("y = [*x, *z]", ["x", "z"]),
    ("y = torch.tensor(x + z)", ["x", "z"]),
    ("y = torch.tensor([[*x, *z]])", ["x", "z"]),
    ("y = torch.cat([row for x in xs for row in (a, x)])", ["each a", "each xs*"]),
    ("y = x.unflatten(0, (-1, n)).mean(1)", ["x pool"]),
    ("y = x.unflatten(-1, (-1, n)).mean(1)", ["mean"]),
]

# A cut of k rows and k further rows.
AS_MANY = [
    "y = x[1:] + [last]",
    "y = [first] + x[:-1]",
    "y = [*x[1:], last]",
    "y = [first, *x[:-1]]",
    "y = x[2:] + [a, b]",
    "y = torch.tensor(x[3:] + [a] * 3)",
    "y = torch.cat([torch.zeros(2), x[:-2]])",
]


@pytest.mark.parametrize("body", AS_MANY)
def test_a_cut_that_is_filled_up_moves_rows(read: Read, body: str) -> None:
    assert read(body).rows("y") == ["x roll"]


@pytest.mark.parametrize(
    "body", ["y = x[1:] + [a, b]", "y = [*x[:-2], last]", "y = [a, *x[1:-1], b]", "y = x[n:] + [a]"]
)
def test_a_cut_of_other_length_is_a_cut(read: Read, body: str) -> None:
    assert read(body).rows("y") != ["x roll"]


@pytest.mark.parametrize(("body", "parts"), JOINED)
def test_parts(read: Read, body: str, parts: list[str]) -> None:
    assert read(body).rows("y") == parts


FILTERED = [
    "if s.ok:\n        y.append(s.ids)",
    "if not s.ok:\n        continue\n    y.append(s.ids)",
    "if not s.ok:\n        break\n    y.append(s.ids)",
    "y.append(s.ids)\n    if not s.ok:\n        break",
]


@pytest.mark.parametrize("body", FILTERED)
def test_a_loop_that_skips_or_stops_does_not_take_all_samples(read: Read, body: str) -> None:
    assert read(f"y = []\nfor s in samples:\n    {body}\ny = torch.cat(y)").rows("y") == ["each samples*.ids filter"]


def test_a_filter_of_a_comprehension(read: Read) -> None:
    assert read("y = torch.cat([s.ids for s in samples if s.ok])").rows("y") == ["each samples*.ids filter"]


SAME = [
    "y = x.to(device)", "y = x.to(torch.float16)", "y = x.float()", "y = x.contiguous()", "y = x.clone().detach().cpu()",
    "y = x.view(-1, d)", "y = x.reshape(b, s, h, d)", "y = x.flatten(0, 1)", "y = x.unsqueeze(0)", "y = x.squeeze(0)",
    "y = x.transpose(0, 1)", "y = x.T", "y = x[None]", "y = x[:, None]", "y = x[:]", "y = x[...]", "y = x[:, :]",
    "y = x + bias", "y = x * (1 + scale) + shift", "y = x - y0", "y = x / 2", "y = x ** 2", "y = -x",
    "y = x.masked_fill(m, 0)", "y = torch.clamp(x, 0)", "y = norm(x)", "y = F.layer_norm(x, (d,))", "y = F.silu(x)",
    "y = F.linear(x, w)", "y = F.dropout(x, p)", "y = x.chunk(3, dim=-1)[0]", "q, k, v = x.chunk(3, dim=-1)\ny = k",
    "q, k, v = x.unbind(2)\ny = v", "a, b = x.split(d, dim=-1)\ny = b", "y = torch.zeros_like(x)", "y = list(x)",
    "y = rearrange(x, 's (h d) -> s h d', h=8)", "x[idx] = 0\ny = x", "x[:n] = z\ny = x", "x.add_(1)\ny = x",
    "x.fill_(0)\ny = x", "x.masked_fill_(m, 0)\ny = x", "y = x.clone()\ny[idx] = -100",
]  # fmt: skip


@pytest.mark.parametrize("body", SAME)
def test_operations_that_keep_the_rows(read: Read, body: str) -> None:
    assert read(body).rows("y") == ["x"]


CHANGES = [
    ("y = x[:n]", "slice"), ("y = x[-n:]", "slice"), ("y = x[::2]", "slice"), ("y = x[:, :n]", "slice"),
    ("y = x[..., :n, :]", "slice"), ("y = x.narrow(0, 0, n)", "slice"), ("y = x[mask]", "pick"), ("y = x[idx]", "pick"),
    ("y = x[:, idx]", "pick"), ("y = x.index_select(0, idx)", "pick"), ("y = torch.index_select(x, dim=0, index=idx)", "pick"),
    ("y = x.take(idx)", "pick"), ("y = torch.masked_select(x, mask)", "pick"), ("y = F.pad(x, (0, 0, 0, n))", "pad"),
    ("y = np.pad(x, (0, n))", "pad"), ("y = torch.roll(x, 1)", "roll"), ("y = x.roll(1, dims=0)", "roll"),
    ("y = x.flip(0)", "flip"), ("y = x.sort()[0]", "sort"), ("y = sorted(x)", "sort"), ("y = x.repeat(2, 1)", "repeat"),
    ("y = x.repeat_interleave(2, dim=0)", "repeat"), ("y = x.chunk(2)[rank]", "shard"),
    ("y = index_first_axis(x, idx)", "unpad"), ("y, *_ = unpad_input(x, mask)", "unpad"), ("y = unpad_input(x, mask)[0]", "unpad"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind"), CHANGES)
def test_operations_that_change_the_rows(read: Read, body: str, kind: str) -> None:
    assert read(body).rows("y") == [f"x {kind}"]


UNKNOWN = [
    "y = g(x)",
    "y = x.block(z)",
    "y = x[..., :d]",  # features
    "y = x[:, :, :d]",
    "y = x[:, :, :, :d]",
    "y = x[..., 0]",
    "y = x[0]",
    "y = x[:n, :d]",
    "y = x.narrow(-1, 0, d)",
    "y = x.index_select(-1, idx)",
    "y = x.index_select(2, idx)",
    "y = x.chunk(2, dim=1)[0]",
    "a, b = x.split([n, m], dim=1)\ny = a",
    "y = torch.where(mask, x, z)",
    "y = x @ w",
    "y = pad_input(x, idx, b, s)",
    "y = torch.stack([x, z])",
    "y = x.sum(-1)",
    "y = x.mean(0)",
    "y = x if flag else z",
    "y = torch.nn.utils.rnn.pad_sequence(x)",
    "y = torch.empty(n, d)\ny[idx] = x",  # the buffer holds rows of x, in another order
    "y = torch.zeros_like(x)\ny[idx] = x",
    "y = x\nfor i in range(n):\n    y = g(y)",
]


@pytest.mark.parametrize("body", UNKNOWN)
def test_nothing_is_concluded(read: Read, body: str) -> None:
    rows = rows_of(read(body).term("y"))
    assert all(part.root.op != "parameter" for part in rows.parts)


def test_layers_of_self_keep_rows(read_module: ReadModule) -> None:
    found = read_module(
        """
        class Block:
            def forward(self, x, other):
                q = self.to_q(self.norm1(x))
                mixed = self.attend(x)
                return q
        """,
        "Block.forward",
    )
    assert found.rows("q") == ["x"]
    assert found.rows("mixed") != ["x"]


def test_random_tensors_of_one_shape_differ(read: Read) -> None:
    found = read("a = torch.randn(n, d)\nb = torch.randn(n, d)\nc = torch.zeros(n)\ne = torch.zeros(n)")
    assert found.term("a") is not found.term("b")
    assert found.term("c") is found.term("e")
