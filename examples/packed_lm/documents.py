"""From documents to a packed batch."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from shapecheck import PackedLayout

VOCABULARY = 256  # tokens are bytes

NO_TARGET = -100  # what cross_entropy ignores


class Batch(NamedTuple):
    """Packed documents.

    Attributes:
        tokens: of all documents, one behind the other.
        position_ids: the place of each token in its document, from 0.
        labels: the token that follows in the same document; `NO_TARGET` for the last.
    """

    tokens: Int64[Tensor, "1 S"]
    position_ids: Int64[Tensor, "1 S"]
    labels: Int64[Tensor, "1 S"]


def pack_documents(documents: Sequence[bytes]) -> Batch:
    """Packs documents into one row. Each has at least one byte."""
    layout = PackedLayout.from_lengths([len(document) for document in documents])
    tokens = torch.frombuffer(bytearray(b"".join(documents)), dtype=torch.uint8).long()
    last = layout.cu_seqlens[1:] - 1
    labels = tokens.roll(-1).index_fill(0, last.long(), NO_TARGET)
    return Batch(tokens.unsqueeze(0), layout.position_ids.unsqueeze(0), labels.unsqueeze(0))


def random_documents(lengths: Sequence[int], seed: int = 0) -> list[bytes]:
    """Documents of random bytes."""
    generator = torch.Generator().manual_seed(seed)
    return [bytes(torch.randint(VOCABULARY, (length,), generator=generator).tolist()) for length in lengths]
