"""Calls of the consumers of packed metadata, valid and broken ones."""

from collections.abc import Iterator
from random import Random
from typing import Any

import torch

from shapecheck._layout import PackedLayout
from shapecheck.testing import _attention
from shapecheck.testing._attention import Names
from shapecheck.testing._edits import boundaries, elsewhere, longer, required, unlike
from shapecheck.testing._oracle import Call, Mutant, at, replaced

FLASH_ATTN = Names("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")
TORCH = Names("query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k")
THD = Names(
    *("query_layer", "key_layer", "value_layer"), *("cu_seqlens_q", "cu_seqlens_kv", "max_seqlen_q", "max_seqlen_kv")
)
CP_SIZE = 2


def thd_layout(random: Random) -> PackedLayout:
    """Documents without an empty one, whose padded lengths are multiples of `2 * CP_SIZE`."""
    return PackedLayout.from_lengths([random.randint(1, 40) for _ in range(random.randint(1, 6))])


def thd_call(layout: PackedLayout) -> Call:
    """One rank's call under context parallelism, each document padded to `2 * CP_SIZE`."""
    unit = 2 * CP_SIZE
    padded = PackedLayout.from_lengths([-(-rows // unit) * unit for rows in layout.lengths]).to(layout.device)
    mine = PackedLayout.from_lengths([rows // CP_SIZE for rows in padded.lengths]).to(layout.device)
    return {
        **_attention.rows(mine, THD),
        "qkv_format": "thd",
        "cu_seqlens_q": layout.cu_seqlens.clone(),
        "cu_seqlens_kv": layout.cu_seqlens.clone(),
        "cu_seqlens_q_padded": padded.cu_seqlens.clone(),
        "cu_seqlens_kv_padded": padded.cu_seqlens.clone(),
        "max_seqlen_q": padded.max_seqlen,
        "max_seqlen_kv": padded.max_seqlen,
    }


def thd_mutants(call: Call) -> Iterator[Mutant]:
    """`thd_call` with one thing broken."""
    for mutant in _attention.mutants(call, THD, cp_size=CP_SIZE):
        if not mutant.name.startswith("max_seqlen") or mutant.level == "shape":
            yield mutant
    yield Mutant("qkv_format: bshd", {**call, "qkv_format": "bshd"}, "host")
    for side in ("q", "kv"):
        path, valid = f"cu_seqlens_{side}_padded", call[f"cu_seqlens_{side}"]
        cu = call[path]
        yield from boundaries(call, path, tail=False)
        yield elsewhere(call, path)
        yield longer(call, path)
        for what, value in (
            ("cannot be cut into 2 * cp chunks", torch.cat([cu[:-1], cu[-1:] - 1])),
            ("below the valid ones", torch.cat([cu[:1], cu[1:] - 2 * CP_SIZE])),
            ("beyond the rows", torch.cat([cu[:-1], cu[-1:] + 2 * CP_SIZE])),
        ):
            yield Mutant(f"{path}: {what}", replaced(call, path, value), "host")
        rows = int(valid.diff().max())
        yield Mutant(f"max_seqlen_{side}: too small", replaced(call, f"max_seqlen_{side}", rows - 1), "host")


def transformers_call(layout: PackedLayout) -> Call:
    """A packed batch of token ids."""
    ids = torch.zeros(1, layout.seq_len, dtype=torch.int64, device=layout.device)
    return {"input_ids": ids, "position_ids": layout.position_ids[None], "labels": ids.clone()} | {
        key: value.clone() if isinstance(value, torch.Tensor) else value
        for key, value in layout.attend().transformers().items()
    }


def transformers_mutants(call: Call) -> Iterator[Mutant]:
    """`transformers_call` with one thing broken."""
    yield longer(call | {"labels": call["labels"][0]}, "labels")
    yield unlike(call, "input_ids", "without a batch axis", call["input_ids"][0])
    yield unlike(call, "input_ids", "floating point", call["input_ids"].float())
    yield unlike(call, "labels", "shifted by slicing", call["labels"][:, 1:])
    yield unlike(call, "position_ids", "of fewer rows", call["position_ids"][:, 1:])
    for side in ("q", "k"):
        path, longest = f"cu_seq_lens_{side}", f"max_length_{side}"
        cu = call[path]
        yield from boundaries(call, path, tail=False)
        yield unlike(call, path, "one segment more", torch.cat([cu, cu[-1:]]))
        yield Mutant(f"{longest}: too small", replaced(call, longest, int(cu.diff().max()) - 1), "host")
    beyond = torch.cat([call["cu_seq_lens_q"][:-1], call["cu_seq_lens_q"][-1:] + 1])
    yield Mutant("cu_seq_lens_q: beyond the rows", replaced(call, "cu_seq_lens_q", beyond), "host")


def fla_call(layout: PackedLayout) -> Call:
    """A chunked operator over packed rows, with an initial state for each sequence."""
    x = torch.zeros(1, layout.seq_len, 2, 8, device=layout.device)
    state = torch.zeros(len(layout.cu_seqlens_host) - 1, 2, 8, 8, device=layout.device)
    bounds = {key: value.clone() for key, value in layout.attend().fla().items()}
    return {"q": x, "k": x.clone(), "v": x.clone(), "g": x.clone(), "initial_state": state, **bounds}


def fla_mutants(call: Call) -> Iterator[Mutant]:
    """`fla_call` with one thing broken."""
    for name in ("q", "k", "v"):
        yield from required(call, name)
        yield unlike(call, name, "a batch of two", call[name].expand(2, -1, -1, -1))
        yield unlike(call, name, "rows without a batch axis", call[name][0])
    for name in ("k", "v", "g"):
        yield unlike(call, name, "of fewer rows", call[name][:, 1:])
        yield elsewhere(call, name)
    yield longer(call, "initial_state")
    yield from required(call, "cu_seqlens")
    yield from boundaries(call, "cu_seqlens", tail=False)
    cu = call["cu_seqlens"]
    moved = torch.cat([cu[:-1], cu[-1:] + 1])
    yield Mutant("cu_seqlens: beyond the rows", {**call, "cu_seqlens": moved, "cu_seqlens_cpu": moved}, "host")
    yield Mutant(
        "cu_seqlens_cpu: of another batch", {**call, "cu_seqlens_cpu": torch.cat([cu[:-1], cu[-1:] + 1])}, "host"
    )
    yield unlike(call, "cu_seqlens_cpu", "of fewer segments", cu[:-1])


def ascend_call(layout: PackedLayout, names: tuple[str, str]) -> Call:
    """An operator over packed rows."""
    x = torch.zeros(layout.seq_len, 2, 8, device=layout.device)
    ends: dict[str, Any] = {name: list(layout.cu_seqlens_host[1:]) for name in names}
    return {"query": x, "key": x.clone(), "value": x.clone(), "input_layout": "TND", **ends}


def ascend_mutants(call: Call, names: tuple[str, str]) -> Iterator[Mutant]:
    """`ascend_call` with one thing broken."""
    yield from _attention.mutants_of_rows(call, Names("query", "key", "value", *names, "", ""))
    yield Mutant("input_layout: BSND", {**call, "input_layout": "BSND"}, "host")
    for name in names:
        ends = at(call, name)
        yield from required(call, name)
        yield Mutant(f"{name}: beyond the rows", {**call, name: [*ends[:-1], ends[-1] + 1]}, "host")
        yield Mutant(f"{name}: one segment more", {**call, name: [*ends, ends[-1]]}, "host")
        yield Mutant(f"{name}: negative", {**call, name: [-1, *ends[1:]]}, "host")
        yield unlike(call, name, "a tensor", torch.tensor(ends))
        if len(set(ends)) > 1:
            yield unlike(call, name, "decrease", ends[::-1])


def infer_layout(random: Random) -> PackedLayout:
    """Documents without an empty one."""
    return PackedLayout.from_lengths([random.randint(1, 40) for _ in range(random.randint(1, 6))])


def infer_mutants(call: Call) -> Iterator[Mutant]:
    """The inference operator's call with one thing broken."""
    names = ("actual_seq_lengths", "actual_seq_lengths_kv")
    yield from ascend_mutants(call, names)
    ends = call[names[1]]
    if len(ends) > 1:
        empty = [*ends[:-2], ends[-1], ends[-1]]
        yield Mutant(f"{names[1]}: a segment empty on one side", {**call, names[1]: empty}, "host")


def megatron_call(layout: PackedLayout) -> Call:
    """Megatron's `packed_seq_params` for the boundaries of `thd_call`."""
    return {"packed_seq_params": {key: value for key, value in thd_call(layout).items() if not _is_rows(key)}}


def megatron_mutants(call: Call) -> Iterator[Mutant]:
    """`megatron_call` with one thing broken."""
    params = call["packed_seq_params"]
    rows = torch.zeros(int(params["cu_seqlens_q_padded"][-1]) // CP_SIZE, 2, 8)
    for mutant in thd_mutants({**dict.fromkeys((THD.q, THD.k, THD.v), rows), **params}):
        # Without rows there is nothing to reach beyond, and no device to be on.
        if _is_rows(mutant.name) or mutant.name.endswith(("beyond the rows", "on another device")):
            continue
        broken = {key: value for key, value in mutant.call.items() if not _is_rows(key)}
        yield Mutant(f"packed_seq_params.{mutant.name}", {"packed_seq_params": broken}, mutant.level)


def _is_rows(name: str) -> bool:
    return name.startswith((THD.q, THD.k, THD.v))
