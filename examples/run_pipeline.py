"""Runs the functions of a request pipeline and compares each with one request after the other. Exits with how many
are wrong.

usage: run_pipeline.py FOLDER
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import shapecheck

WIDTH = 16


def main(folder: Path) -> int:
    sys.path.insert(0, str(folder.parent))
    pipeline = importlib.import_module(f"{folder.name}.pipeline")
    torch.manual_seed(0)
    model = pipeline.Encoder(WIDTH).eval()
    text, image, audio = (torch.randn(rows, WIDTH) for rows in (5, 12, 3))
    texts = [torch.randn(rows, WIDTH) for rows in (4, 7, 2)]

    def alone(parts: list[Tensor], tags: list[int], longest: int) -> Tensor:
        x = torch.cat(parts)
        rows = [part.shape[0] for part in parts]
        boundaries = torch.tensor([0, x.shape[0]], dtype=torch.int32)
        token_tags = torch.repeat_interleave(torch.tensor(tags), torch.tensor(rows))
        return model(x, token_tags, torch.arange(x.shape[0]), boundaries, longest)

    calls: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]] = {
        "encode_one": (
            lambda: pipeline.encode_one(model, pipeline.Request(text, image, audio)),
            lambda: alone([text, image, audio], [0, 1, 2], 20),
        ),
        "encode_prompted": (
            lambda: pipeline.encode_prompted(model, text, image),
            lambda: alone([text, image], [0, 1], 17),
        ),
        "encode_texts": (
            lambda: pipeline.encode_texts(model, texts),
            lambda: torch.cat([alone([one], [0], 7) for one in texts]),
        ),
    }
    wrong = 0
    for name, (packed, expected) in calls.items():
        try:
            difference = float((packed() - expected()).detach().abs().max())
        except shapecheck.ContractError as error:
            wrong += 1
            print(f"  {name}: ContractError: {str(error).splitlines()[0]}")
            continue
        right = difference < 1e-5
        wrong += not right
        print(f"  {name}: " + ("right" if right else f"silently wrong, by up to {difference:.2f}"))
    return wrong


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
