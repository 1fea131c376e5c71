from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch

from shapecheck import ContractError, PackedLayout, Part, contract
from shapecheck.presets import h3
from shapecheck.testing import ORACLES
from shapecheck.testing._h3 import call as direct_call
from shapecheck.testing._h3 import layout as random_layout
from shapecheck.testing._h3 import served_call

KEYWORDS = {
    *("x", "audio_x", "img_position_ids", "rope_cache", "unique_timesteps", "inverse_indices", "update_mask"),
    *("update_audio_mask", "token_tags", "block_token_tags", "block_combined_indices", "adaln_cache_slot"),
    *("subblock_sparse_query_block_mask", "skip_mask_out_condition", "prompt_embeds", "refined_prompt_embeds_length"),
    *("img_pos_info", "audio_pos_info", "text_pos_info", "img_pos_for_infer_output_info", "local_embedding_layout"),
    *("packed_seq_params", "refiner_packed_seq_params"),
}


class Model:
    """Has the signature and the results of sglang's model."""

    def forward(self, **kwargs: Any) -> Any:
        if unexpected := set(kwargs) - KEYWORDS:
            raise TypeError(f"unexpected kwargs: {sorted(unexpected)}")
        out, audio = (kwargs[name] for name in ("img_pos_for_infer_output_info", "audio_pos_info"))
        return torch.zeros(rows(out), 96), torch.zeros(rows(audio), 32)


def rows(info: Any) -> int:
    ids = info["position_ids"] if isinstance(info, dict) else info.position_ids
    return int(ids.numel())


LEVELS: tuple[Literal["shape", "host", "sync"], ...] = ("shape", "host", "sync")
FORWARD = {level: contract(h3.forward, level=level)(Model.forward) for level in LEVELS}


def message(level: str, call: dict[str, Any]) -> str | None:
    try:
        FORWARD[level](Model(), **call)
    except ContractError as error:
        return str(error)
    return None


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Thousands of small tensors: waking other threads for them takes longer than the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def layout() -> PackedLayout:
    return PackedLayout.pack(
        [
            Part("text", 77),
            Part("ref", 40, kind="audio"),
            Part("ref", (1, 4, 5), kind="video"),
            Part("cond", (1, 4, 5), kind="video"),
            Part("audio", 26),
            Part("video", (3, 4, 5)),
        ],
        align=64,
        tags={"text": 1, "video": 0, "audio": 2},
    )


def test_names_all_keyword_arguments_and_no_other() -> None:
    names = {argument.name for argument in FORWARD["host"].__contract__.spec.arguments}
    assert {name.split(".")[0].split("[")[0] for name in names} == KEYWORDS


@pytest.mark.parametrize("name", ["h3", "h3_served"])
def test_every_mutant_is_reported(name: str, layout: PackedLayout) -> None:
    call = ORACLES[name].call(layout)
    assert message("sync", call) is None
    mutants = list(ORACLES[name].mutants(call))
    assert len({mutant.name for mutant in mutants}) == len(mutants) >= 60
    assert [mutant.name for mutant in mutants if message("sync", mutant.call) is None] == []
    assert [mutant.name for mutant in mutants if message("host", mutant.call) is None] == []
    wrong = [one.name for one in mutants if (message("shape", one.call) is not None) != (one.level == "shape")]
    assert wrong == []
    assert message("sync", call) is None  # the mutants left it as it was


def test_every_mutant_of_random_layouts_is_reported() -> None:
    random = Random(7)
    for name in ("h3", "h3_served"):
        call = ORACLES[name].call(random_layout(random))
        assert [one.name for one in ORACLES[name].mutants(call) if message("host", one.call) is None] == []


def test_no_valid_layout_is_reported() -> None:
    random = Random(1)
    for number in range(1000):
        layout = random_layout(random)
        if number % 2:
            call = direct_call(layout)
        else:
            world_size = random.choice((1, 2, 4, 8, 64))
            call = served_call(layout, world_size=world_size, rank=random.randrange(world_size))
        assert message("sync" if number % 4 < 2 else "host", call) is None, layout


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("token_tags", "text rows tagged as video"),
        ("packed_seq_params.cu_seqlens_q", "fewer rows than are used"),
        ("refiner_packed_seq_params.cu_seqlens_q", "fewer rows than are live"),
        ("img_pos_for_infer_output_info.position_ids", "rows of text"),
        ("update_mask", "one entry less, though it is used"),
    ],
)
@pytest.mark.xfail(strict=True, reason="no invariant compares these")
def test_what_cannot_be_said_yet(path: str, what: str, layout: PackedLayout) -> None:
    call = direct_call(layout)
    packed = call["packed_seq_params"]
    fewer = torch.tensor([0, layout.used - 1, layout.seq_len], dtype=torch.int32)
    value = {
        "token_tags": torch.where(call["token_tags"] == 1, 0, call["token_tags"]),
        "packed_seq_params": {**packed, "cu_seqlens_q": fewer, "cu_seqlens_q_host": fewer.tolist()},
        "refiner_packed_seq_params": {"cu_seqlens_q": torch.tensor([0, 76, 76]), "max_seqlen_q": 77},
        "img_pos_for_infer_output_info": call["text_pos_info"],
        "update_mask": call["update_mask"][1:],
    }[path.split(".", maxsplit=1)[0]]
    assert message("sync", {**call, path.split(".", maxsplit=1)[0]: value}) is not None, what


def test_says_what_is_wrong(layout: PackedLayout) -> None:
    call = direct_call(layout)
    call["packed_seq_params"]["max_seqlen_q"] = layout.seq_len
    text = message("host", call)
    assert text is not None
    assert text.splitlines()[0] == (
        f"forward: packed_seq_params.max_seqlen_q is {layout.seq_len}, expected "
        f"{layout.used} <= value < {layout.used + 1} (T+V+A+1)"
    )


def test_takes_metadata_objects(layout: PackedLayout) -> None:
    call = direct_call(layout)
    objects = {key: SimpleNamespace(**value) if isinstance(value, dict) else value for key, value in call.items()}
    assert message("host", objects) is None
    objects["packed_seq_params"].cu_seqlens_q = torch.tensor([0, 5, 1])
    assert message("host", objects) is not None


def test_flattened_arrays_may_have_a_batch_axis(layout: PackedLayout) -> None:
    call = direct_call(layout)
    for name in ("token_tags", "inverse_indices", "update_mask", "update_audio_mask"):
        call[name] = call[name][None]
    call["img_pos_info"]["position_ids"] = call["img_pos_info"]["position_ids"][None]
    assert message("host", call) is None


def test_takes_numbers_as_tensors(layout: PackedLayout) -> None:
    call = served_call(layout)
    call["refined_prompt_embeds_length"] = torch.tensor(77)
    call["packed_seq_params"]["max_seqlen_q"] = torch.tensor(layout.used)
    del call["packed_seq_params"]["cu_seqlens_q_host"]
    assert message("host", call) is None
    call["refined_prompt_embeds_length"] = torch.tensor(78)
    assert message("host", call) is not None


def test_unknown_arguments_are_left_to_the_model(layout: PackedLayout) -> None:
    with pytest.raises(TypeError, match="unexpected kwargs: \\['rope_table'\\]"):
        FORWARD["host"](Model(), **direct_call(layout), rope_table=None)


def test_results_have_the_rows_asked_for(layout: PackedLayout) -> None:
    def forward(self: object, **kwargs: Any) -> Any:
        return torch.zeros(3, 96), torch.zeros(rows(kwargs["audio_pos_info"]), 32)

    with pytest.raises(ContractError, match=r"return\[0\]"):
        contract(h3.forward)(forward)(None, **direct_call(layout))


def test_refiner() -> None:
    def refine_prompt_embeds(self: object, prompt_embeds: Any, refiner_cu_seqlens: Any, *, device: Any) -> Any:
        return torch.zeros(int(refiner_cu_seqlens[1]), 5376)

    refine = contract(h3.refine_prompt_embeds)(refine_prompt_embeds)
    embeds = torch.zeros(8, 5120)
    assert refine(None, embeds, torch.tensor([0, 5, 5]), device="cpu").shape == (5, 5376)
    for broken in (
        (torch.zeros(8, 5376), torch.tensor([0, 5, 5])),
        (embeds[None], torch.tensor([0, 5, 5])),
        (embeds, torch.tensor([0, 9, 9])),
        (embeds, torch.tensor([1, 5, 5])),
        (embeds, torch.tensor([0, 5, 3])),
    ):
        with pytest.raises(ContractError):
            refine(None, *broken, device="cpu")


def test_rope_cache() -> None:
    def build_rope_cache(self: object, img_position_ids: Any, *, device: Any) -> Any:
        half = img_position_ids.shape[1] // 2
        return torch.zeros(half, 96), torch.arange(half)

    build = contract(h3.build_rope_cache)(build_rope_cache)
    build(None, torch.zeros(1, 64, 3), device="cpu")
    for broken in (torch.zeros(64, 3), torch.zeros(1, 64, 2), torch.zeros(2, 64, 3)):
        with pytest.raises(ContractError, match="img_position_ids"):
            build(None, broken, device="cpu")


def batched_call(layouts: list[PackedLayout]) -> dict[str, Any]:
    """Several requests in one row, each with its padding, as vllm-omni's step batching lays them out."""
    calls = [direct_call(layout) for layout in layouts]
    starts = [sum(layout.seq_len for layout in layouts[:i]) for i in range(len(layouts))]
    ends = [end + start for layout, start in zip(layouts, starts, strict=True) for end in layout.cu_seqlens_host[1:]]
    text = [len(call["prompt_embeds"]) for call in calls]
    row_axis = {"x": 1, "audio_x": 1, "img_position_ids": 1}
    merged = {
        key: torch.cat([call[key] for call in calls], row_axis.get(key, 0))
        for key, value in calls[0].items()
        if isinstance(value, torch.Tensor) and key != "unique_timesteps"
    }
    for key in ("img_pos_info", "audio_pos_info", "text_pos_info", "img_pos_for_infer_output_info"):
        parts = [call[key]["position_ids"] + start for call, start in zip(calls, starts, strict=True)]
        merged[key] = {"position_ids": torch.cat(parts)}
    return {
        **merged,
        "unique_timesteps": calls[0]["unique_timesteps"],
        "packed_seq_params": {
            "cu_seqlens_q": torch.tensor([0, *ends], dtype=torch.int32),
            "max_seqlen_q": max(max(layout.used, layout.seq_len - layout.used) for layout in layouts),
            "num_requests": len(layouts),
        },
        "refiner_packed_seq_params": {
            "cu_seqlens_q": torch.tensor([0, *(sum(text[: i + 1]) for i in range(len(text)))], dtype=torch.int32),
            "max_seqlen_q": max(text),
        },
    }


def test_several_requests_of_vllm_omni() -> None:
    checked = contract(h3.vllm_omni_forward, level="sync")(Model.forward)
    random = Random(11)
    for _ in range(50):
        layouts = [random_layout(random) for _ in range(random.randint(1, 3))]
        checked(Model(), **batched_call(layouts))
    call = batched_call([random_layout(random), random_layout(random)])
    packed, image = call["packed_seq_params"], call["img_pos_info"]["position_ids"]
    rows = call["x"].shape[1]
    broken = {
        "packed_seq_params": [
            {**packed, "max_seqlen_q": 1},
            {**packed, "cu_seqlens_q": packed["cu_seqlens_q"][:-1]},
            {**packed, "cu_seqlens_q": packed["cu_seqlens_q"].flip(0)},
        ],
        "img_pos_info": [{"position_ids": image + rows}, {"position_ids": image.clone().fill_(int(image[0]))}],
        "text_pos_info": [{"position_ids": image[: len(call["prompt_embeds"])]}],
        "token_tags": [call["token_tags"][1:], call["token_tags"] + 3, None],
        "inverse_indices": [call["inverse_indices"] + 3],
        "prompt_embeds": [torch.zeros(len(call["prompt_embeds"]), 5376)],
        "rope_table": [torch.zeros(rows, 48)],
    }
    for name, values in broken.items():
        for value in values:
            with pytest.raises(ContractError):
                checked(Model(), **{**call, name: value})


def test_every_mutant_for_vllm_omni_is_reported(layout: PackedLayout) -> None:
    oracle = ORACLES["h3_vllm_omni"]
    checked = {level: contract(oracle.preset, level=level)(Model.forward) for level in LEVELS}
    call = oracle.call(layout)
    for function in checked.values():
        function(Model(), **call)
    for mutant in oracle.mutants(call):
        for level, function in checked.items():
            if level != "shape" or mutant.level == "shape":
                with pytest.raises(ContractError):
                    function(Model(), **mutant.call)
            else:
                function(Model(), **mutant.call)
