"""Small random-weight models of transformers and their inputs."""

from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY = 97
TOKENS = {
    "vocab_size": VOCABULARY,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "max_position_embeddings": 128}


def build(name: str, attention: str = "sdpa", kind: str = "Model", **settings: Any) -> nn.Module:
    """`transformers.<name><kind>` with float32 weights: 4 heads of 16 channels unless `settings` say otherwise."""
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**TOKENS, **SIZES, **settings}, attn_implementation=attention)
    return getattr(transformers, f"{name}{kind}")(config)


def decoder(name: str, attention: str = "sdpa", layers: int = 1, **settings: Any) -> nn.Module:
    """A causal model with 4 query heads on 2 key heads."""
    grouped = {"num_hidden_layers": layers, "num_key_value_heads": 2, "use_cache": False}
    return build(name, attention, **grouped, **settings)


def packed(*rows: tuple[int, ...]) -> dict[str, Tensor]:
    """A row of packed sequences for each tuple of lengths; position ids start again with every sequence."""
    positions = torch.stack([torch.cat([torch.arange(length) for length in lengths]) for lengths in rows])
    generator = torch.Generator().manual_seed(1)
    return {"input_ids": torch.randint(3, VOCABULARY, positions.shape, generator=generator), "position_ids": positions}


def padded(*lengths: int, side: str = "right") -> dict[str, Tensor]:
    """A batch of sequences, padded to the longest."""
    valid = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    if side == "left":
        valid = valid.flip(1)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, VOCABULARY, valid.shape, generator=generator)
    return {"input_ids": tokens * valid, "attention_mask": valid.long()}
