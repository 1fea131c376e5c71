from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class MixedPrompt:
    token_ids: list[int]
    embeds: torch.Tensor
    is_token: list[bool]


def fit_prompt(prompt, limit, keep_tail):
    n = len(prompt.token_ids)
    if n <= limit:
        return prompt
    window = slice(n - limit, n) if keep_tail else slice(0, limit)
    return replace(
        prompt,
        token_ids=prompt.token_ids[window],
        embeds=prompt.embeds[window],
        is_token=prompt.is_token[window],
    )
