"""One step of training."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import cross_entropy

from packed_lm.documents import NO_TARGET, Batch


def next_token_loss(logits: Float[Tensor, "1 S V"], labels: Int64[Tensor, "1 S"]) -> Float[Tensor, ""]:
    """The mean cross entropy of all tokens that have a next one in their document."""
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=NO_TARGET)


def training_step(model: Callable[..., Tensor], optimizer: torch.optim.Optimizer, batch: Batch) -> Float[Tensor, ""]:
    """Updates the parameters once; the loss before the update."""
    optimizer.zero_grad()
    loss = next_token_loss(model(batch.tokens, batch.position_ids), batch.labels)
    loss.backward()
    optimizer.step()
    return loss.detach()
