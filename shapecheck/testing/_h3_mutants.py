"""Calls of MiniMax-H3's forward with one thing broken, row by row of its contract."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from shapecheck.testing._edits import (
    boundaries,
    elsewhere,
    indices,
    longer,
    required,
    set_at,
    shorter,
    unlike,
)
from shapecheck.testing._oracle import Call, Mutant, at, replaced

_REQUIRED = (
    "x",
    "audio_x",
    "img_position_ids",
    "unique_timesteps",
    "inverse_indices",
    "update_mask",
    "prompt_embeds",
    "img_pos_info",
    "audio_pos_info",
    "text_pos_info",
    "img_pos_for_infer_output_info",
    "packed_seq_params",
    "refiner_packed_seq_params",
    "img_pos_info.position_ids",
    "audio_pos_info.position_ids",
    "text_pos_info.position_ids",
    "img_pos_for_infer_output_info.position_ids",
    "packed_seq_params.cu_seqlens_q",
    "packed_seq_params.max_seqlen_q",
    "refiner_packed_seq_params.cu_seqlens_q",
    "refiner_packed_seq_params.max_seqlen_q",
)
_IMG, _AUDIO, _TEXT = (f"{name}_pos_info.position_ids" for name in ("img", "audio", "text"))
_OUT = "img_pos_for_infer_output_info.position_ids"
_CU, _HOST, _MAX = (f"packed_seq_params.{name}" for name in ("cu_seqlens_q", "cu_seqlens_q_host", "max_seqlen_q"))
_REFINER_CU, _REFINER_MAX = (f"refiner_packed_seq_params.{name}" for name in ("cu_seqlens_q", "max_seqlen_q"))
_TENSORS = (
    *("audio_x", "img_position_ids", "unique_timesteps", "inverse_indices", "update_mask", "update_audio_mask"),
    *("token_tags", "block_token_tags", "block_combined_indices", "prompt_embeds", _IMG, _AUDIO, _TEXT, _OUT),
    *(_CU, _REFINER_CU),
)
_OF_ONE_REQUEST = ("a row left out", "the padded length", "without the empty segment", "more than the text rows")


def mutants(call: Call) -> Iterator[Mutant]:
    """See `Oracle.mutants`."""
    for path in _REQUIRED:
        yield from required(call, path)
    for path in _TENSORS:
        if path.split(".")[0] in call:
            yield elsewhere(call, path)
    yield from _rows(call)
    yield from _tags(call)
    yield from _maps(call)
    yield from _segments(call)
    yield from _local(call)


def vllm_omni_mutants(call: Call) -> Iterator[Mutant]:
    """The same for vllm-omni's model, without what is fine where several requests share the row."""
    for mutant in mutants(call):
        if mutant.name == f"{_CU}: without the padding segment":
            yield mutant._replace(level="host")
        elif not mutant.name.endswith(_OF_ONE_REQUEST):
            yield mutant


def _rows(call: Call) -> Iterator[Mutant]:
    """The packed rows and what runs beside them."""
    x = call["x"]
    for name, width in (("x", 96), ("audio_x", 32), ("img_position_ids", 3)):
        value = call[name]
        yield unlike(call, name, "no batch axis", value[0])
        yield unlike(call, name, "a batch of two", value.expand(2, -1, -1))
        yield unlike(call, name, f"one column less than {width}", value[..., :-1])
        yield unlike(call, name, "another number of rows", value[:, :-1])
    yield unlike(call, "x", "integers", x.long())
    yield unlike(call, "img_position_ids", "complex", call["img_position_ids"].to(torch.complex64))
    short = {
        name: value[:, :-1] if name in ("x", "audio_x", "img_position_ids") else value[:-1]
        for name, value in call.items()
        if name in ("x", "audio_x", "img_position_ids", "token_tags", "inverse_indices")
    }
    yield Mutant("S: no multiple of 64", {**call, **short}, "shape")
    yield longer(call, "inverse_indices")
    yield shorter(call, "inverse_indices")
    yield unlike(call, "inverse_indices", "one value for all rows", call["inverse_indices"][:1])
    yield from indices(call, "inverse_indices", call["unique_timesteps"].numel())
    yield unlike(call, "inverse_indices", "floating point", call["inverse_indices"].float())
    few = call["unique_timesteps"][: int(call["inverse_indices"].max())]
    yield Mutant("unique_timesteps: one less", {**call, "unique_timesteps": few}, "host")
    if "update_audio_mask" in call:
        yield longer(call, "update_audio_mask")
        if call["update_audio_mask"].numel() > 1:
            yield unlike(call, "update_audio_mask", "one value for all rows", call["update_audio_mask"][:1])
    yield unlike(call, "update_mask", "a list", call["update_mask"].tolist())
    yield unlike(call, "prompt_embeds", "a batch axis", call["prompt_embeds"][None])
    yield unlike(call, "prompt_embeds", "token ids", call["prompt_embeds"].long())
    yield Mutant(
        "prompt_embeds: fewer than the live rows", {**call, "prompt_embeds": call["prompt_embeds"][:-1]}, "host"
    )


def _tags(call: Call) -> Iterator[Mutant]:
    if "token_tags" in call:
        yield longer(call, "token_tags")
        yield shorter(call, "token_tags")
        yield unlike(call, "token_tags", "one value for all rows", call["token_tags"][:1])
        yield unlike(call, "token_tags", "floating point", call["token_tags"].float())
        yield set_at(call, "token_tags", "a fourth modality", 0, 3)
        yield set_at(call, "token_tags", "below the padding tag", -1, -2)


def _maps(call: Call) -> Iterator[Mutant]:
    """The position maps: disjoint, unique, covering."""
    rows = call["x"].shape[1]
    first = {path: int(at(call, path)[0]) for path in (_IMG, _AUDIO, _TEXT)}
    for path, other in ((_IMG, _TEXT), (_AUDIO, _IMG), (_TEXT, _AUDIO)):
        value: Tensor = at(call, path)
        yield set_at(call, path, f"a row of {other}", 0, first[other])
        yield set_at(call, path, "beyond the sequence", -1, rows)
        yield set_at(call, path, "negative", 0, -1)
        yield unlike(call, path, "floating point", value.float())
        if len(value) > 1:
            yield set_at(call, path, "a row twice", 1, int(value[0]))
        changed = replaced(call, path, value[1:])
        # Arrays of one entry for each row of the map shrink along: what is left is the gap.
        if path == _AUDIO and "update_audio_mask" in call:
            changed["update_audio_mask"] = call["update_audio_mask"][1:]
        # The serving loop's number of text rows is a number, and seen without a look at values.
        served = path == _TEXT and at(call, "local_embedding_layout.text_source_stop") == len(value)
        yield Mutant(f"{path}: a row left out", changed, "shape" if served else "host")
    text: Tensor = at(call, _TEXT)
    yield Mutant(f"{_TEXT}: shifted by one row", replaced(call, _TEXT, text + 1), "host")
    out: Tensor = at(call, _OUT)
    yield set_at(call, _OUT, "beyond the sequence", -1, rows)
    yield set_at(call, _OUT, "negative", 0, -1)
    if len(out) > 1:
        yield set_at(call, _OUT, "a row twice", 1, int(out[0]))


def _segments(call: Call) -> Iterator[Mutant]:
    """Boundaries, their host copy, the longest segment; the refiner's."""
    cu: Tensor = at(call, _CU)
    used, rows = int(cu[1]), int(cu[2])
    yield from boundaries(call, _CU)
    yield Mutant(f"{_CU}: more rows than are used", replaced(call, _CU, torch.tensor([0, used + 1, rows + 1])), "host")
    yield unlike(call, _CU, "without the padding segment", cu[:2])
    if _HOST.split(".")[1] in call["packed_seq_params"]:
        for what, copy in (
            ("of another request", (0, used - 1, rows)),
            ("lengths", (used, rows - used)),
            ("without the padding segment", (0, used)),
        ):
            yield Mutant(f"{_HOST}: {what}", replaced(call, _HOST, copy), "host")
    for what, number in (("too small", used - 1), ("the padded length", rows + (rows == used)), ("zero", 0)):
        yield Mutant(f"{_MAX}: {what}", replaced(call, _MAX, number), "host")
    yield unlike(call, _MAX, "a word", str(used))
    live = int(at(call, _REFINER_CU)[1])
    yield from boundaries(call, _REFINER_CU, tail=False)
    over = torch.tensor([0, live, call["prompt_embeds"].shape[0] + 1])
    yield Mutant(f"{_REFINER_CU}: more rows than there are", replaced(call, _REFINER_CU, over), "host")
    yield unlike(call, _REFINER_CU, "without the empty segment", at(call, _REFINER_CU)[:2])
    for what, number in (("too small", live - 1), ("more than the text rows", live + 1)):
        yield Mutant(f"{_REFINER_MAX}: {what}", replaced(call, _REFINER_MAX, number), "host")


def _local(call: Call) -> Iterator[Mutant]:
    """What a serving loop works out beforehand, for one rank."""
    times = call["unique_timesteps"].numel()
    if "block_token_tags" in call:
        yield shorter(call, "block_token_tags")
        yield set_at(call, "block_token_tags", "the padding tag", 0, -1)
        yield set_at(call, "block_token_tags", "a fourth modality", 0, 3)
    if "block_combined_indices" in call:
        yield longer(call, "block_combined_indices")
        yield from indices(call, "block_combined_indices", 3 * times)
    if "rope_cache" in call:
        table, positions = call["rope_cache"]
        shapes: tuple[tuple[str, Any], ...] = (
            ("another number of rows", (table[:-1], positions)),
            ("half the channels", (table[:, :48], positions)),
            ("positions of other rows", (table, positions[:-1])),
            ("the table alone", table),
        )
        for what, value in shapes:
            yield unlike(call, "rope_cache", what, value)
        yield Mutant(
            "rope_cache: positions of the whole sequence", {**call, "rope_cache": (table, positions + 1)}, "host"
        )
    if "refined_prompt_embeds_length" in call:
        length = call["refined_prompt_embeds_length"]
        for number in (0, length + 1):
            yield Mutant(
                f"refined_prompt_embeds_length: {number}", {**call, "refined_prompt_embeds_length": number}, "host"
            )
        yield unlike(call, "subblock_sparse_query_block_mask", "a list", [1, 0])
    if "local_embedding_layout" in call:
        rows = call["block_token_tags"].shape[0]
        for kind in ("img", "audio"):
            path = f"local_embedding_layout.{kind}_row_ids"
            if at(call, path).numel() == 0:
                continue
            yield longer(call, path)
            yield from indices(call, path, rows)
            yield from indices(call, f"local_embedding_layout.{kind}_global_ids", call["x"].shape[1])
        path = "local_embedding_layout.text_source_stop"
        yield Mutant(f"{path}: too many", replaced(call, path, at(call, _TEXT).numel() + 1), "shape")
