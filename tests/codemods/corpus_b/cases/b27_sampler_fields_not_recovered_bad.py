from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class SamplerOutput:
    token_ids: torch.Tensor
    logprobs: torch.Tensor
    ranks: torch.Tensor
    candidate_mask: torch.Tensor | None = None


def to_request_order(output, source_rows):
    back = torch.argsort(source_rows)
    return replace(
        output,
        token_ids=output.token_ids[back],
        logprobs=output.logprobs[back],
        ranks=output.ranks[back],
    )
