"""What library calls make of their arguments: operations, dtypes and results."""

from collections.abc import Callable
from typing import Any

import pytest

Read = Callable[..., Any]

OPERATIONS = [
    ("y = torch.cat([a, b], dim=1)", "cat"), ("y = torch.hstack([a, b])", "cat"), ("y = torch.stack([a, b])", "stack"),
    ("y = F.pad(a, (1, 0))", "pad"), ("y = np.pad(a, (1, 0))", "pad"), ("y = np.pad(a, ((1, 0), (0, 0)))", "pad"), ("y = np.pad(a, 1)", "call"),
    ("y = a.view(2)", "view"), ("y = torch.flatten(a)", "view"), ("y = a.chunk(2)", "chunk"), ("y = torch.tensor_split(a, 2)", "chunk"),
    ("y = a.split(2)", "split"), ("y = a.unbind(0)", "unbind"), ("y = a.unbind(0)[1]", "view"), ("y = a.index_select(0, b)", "picked"),
    ("y = a.narrow(0, 0, b)", "narrow"), ("y = a.take(b)", "item"), ("y = a.roll(1)", "roll"), ("y = a.flip(0)", "flip"),
    ("y = a.clamp(0)", "elementwise"), ("y = a.numel()", "numel"), ("y = a.dim()", "dim"), ("y = a.size()", "attr"),
    ("y = a.cumsum(0)", "cumsum"), ("y = a.sum(-1)", "sum"), ("y = a.amax(0)", "max"), ("y = torch.min(a)", "min"), ("y = torch.max(a, b)", "call"),
    ("y = torch.div(a, b, rounding_mode='floor')", "FloorDiv"), ("y = torch.div(a, b)", "call"), ("y = a.floor_divide(b)", "FloorDiv"),
    ("y = a.diff()", "diff"), ("y = a.diff(2)", "call"), ("y = torch.where(a)[0]", "nonzero"), ("y = torch.where(a, b, c)", "call"),
    ("y = torch.arange(a)", "arange"), ("y = torch.arange(a, b, c, d)", "call"), ("y = torch.zeros(a)", "full"), ("y = torch.full((a,), b)", "full"),
    ("y = torch.zeros(*a)", "call"), ("y = torch.ones_like(a)", "full_like"), ("y = a.new_zeros(3)", "typed_like"), ("y = a.new_zeros(3, dtype=torch.int32)", "cast"),
    ("y = torch.tensor(a)", "tensor"), ("y = torch.IntTensor(a)", "cast"), ("y = a.to(torch.int32)", "cast"), ("y = a.to(b)", "moved"),
    ("y = a.to('cpu')", "host"), ("y = a.to('cuda')", "parameter"), ("y = a.to(b.dtype)", "typed_like"), ("y = a.type_as(b)", "typed_like"),
    ("y = a.tolist()", "host"), ("y = a.clone()", "parameter"), ("y = a.copy()", "copy"), ("y = a.argsort()", "argsort"), ("y = torch.sort(a)[1]", "argsort"),
    ("y = np.sort(a)", "sorted"), ("y = torch.searchsorted(a, b)", "searchsorted"), ("y = torch.bucketize(b, a)", "searchsorted"),
    ("y = a.unique_consecutive()", "unique"), ("y = torch.unique(a, return_inverse=True)", "call"), ("y = a.repeat_interleave(b)", "repeat_interleave"),
    ("y = np.repeat(a, b)", "repeat_interleave"), ("y = a.repeat(2)", "repeat"), ("y = np.insert(a, 0, 0)", "cat"), ("y = np.insert(a, 1, 0)", "call"),
    ("y = np.append(a, b)", "cat"), ("y = np.add.accumulate(a)", "cumsum"), ("y = rearrange(a, 'b s -> (b s)')", "view"),
    ("y = len(a)", "len"), ("y = list(a)", "copy"), ("y = set(a)", "call"), ("y = zip(a, b)", "zip"), ("y = zip(*a)", "call"), ("y = enumerate(a)", "enumerate"),
    ("y = sorted(a)", "sorted"), ("y = reversed(a)", "flip"), ("y = filter(b, a)", "each"), ("y = map(len, a)", "each"), ("y = map(int, a)", "copy"),
    ("y = map(b, a, c)", "call"), ("y = sum(a)", "sum"), ("y = sum(a, [])", "flattened"), ("y = max(a)", "max"), ("y = max(a, b)", "max"), ("y = max(*a)", "call"),
    ("y = int(a)", "host"), ("y = float(a)", "call"), ("y = range(a)", "arange"), ("y = list(accumulate(a))", "copy"), ("y = accumulate(a, max)", "call"),
    ("y = chain(a, b)", "Add"), ("y = chain(*a)", "call"), ("y = chain.from_iterable(a)", "flattened"), ("y = list(chain(a))", "copy"), ("y = a.values()", "values"),
    ("y = pad_input(a, b, c, d)", "repadded"), ("y = index_first_axis(a, b)", "unpadded"), ("y = unpad_input(a, b)", "results"), ("y = unpad_input(a, (b, c), d, e)", "call"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "operation"), OPERATIONS)
def test_operations(read: Read, body: str, operation: str) -> None:
    assert read(body).term("y").op == operation


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        ("y = torch.zeros(n, dtype=torch.int32)", "int32"), ("y = torch.zeros(n, dtype=torch.int)", "int32"), ("y = torch.zeros(n, dtype=torch.long)", "int64"),
        ("y = np.zeros(n, dtype=np.int32)", "int32"), ("y = np.zeros(n, dtype='int64')", "int64"), ("y = np.zeros(n, dtype=int)", "int64"), ("y = torch.zeros(n, dtype=kind)", "?"),
        ("y = a.int()", "int32"), ("y = a.long()", "int64"), ("y = a.bool()", "bool"), ("y = a.astype(np.int32)", "int32"), ("y = a.to(dtype=torch.int32)", "int32"),
        ("y = a.to(device, torch.int32)", "int32"), ("y = a.type(torch.int64)", "int64"), ("y = a.to(dtype=kind)", "?"), ("y = torch.LongTensor(a)", "int64"),
    ],
)  # fmt: skip
def test_dtypes(read: Read, body: str, dtype: str) -> None:
    term = read(body).term("y")
    assert (term.op, term.args[1]) == ("cast", dtype)


def test_torch_min_of_an_unknown_library_is_a_call(read_module: Callable[[str, str], Any]) -> None:
    found = read_module("import mine\ndef f(a):\n    y = mine.cat(a)\n    z = cat(a)\n", "f")
    assert found.term("y").op == found.term("z").op == "call"


@pytest.mark.parametrize("name", ["cumsum", "append", "view", "to"])
def test_methods_of_self_are_its_own(read_module: Callable[[str, str], Any], name: str) -> None:
    found = read_module(f"class A:\n    def f(self, x):\n        y = self.{name}(x)\n", "A.f")
    assert found.term("y").op == "call"


def test_in_place_methods_write(read: Read) -> None:
    found = read("x.zero_()\nx.add_(a)\nx[1:].copy_(b)\ny = x")
    assert found.term("y").op == "store"
    assert found.term("y").args[0].op == "filled"
