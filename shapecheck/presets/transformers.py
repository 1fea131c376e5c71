"""Hugging Face models that take flash attention's boundaries as keyword arguments.

Source: transformers 5.24.0, modeling_flash_attention_utils.py, `FlashAttentionKwargs`.
"""

from typing import Annotated, Any

from jaxtyping import Float, Int
from torch import Tensor

from shapecheck._contract import preset
from shapecheck._invariants import AtLeastLongest, PrefixSum


@preset
def forward(
    *,
    input_ids: Int[Tensor, "N S"] | None = None,
    inputs_embeds: Float[Tensor, "N S _"] | None = None,
    position_ids: Int[Tensor, "... S"] | None = None,
    labels: Int[Tensor, "N S"] | None = None,
    cu_seq_lens_q: Annotated[Int[Tensor, "B+1"], PrefixSum(end="N*S", tail="allow")] | None = None,
    cu_seq_lens_k: Annotated[Int[Tensor, "B+1"], PrefixSum()] | None = None,
    max_length_q: Annotated[int | Int[Tensor, ""], AtLeastLongest("cu_seq_lens_q")] | None = None,
    max_length_k: Annotated[int | Int[Tensor, ""], AtLeastLongest("cu_seq_lens_k")] | None = None,
) -> Any:
    """A model's forward. The rows of all N samples are one packed sequence to the attention; keys may come from a
    cache as well, and have no row count here."""
    raise NotImplementedError
