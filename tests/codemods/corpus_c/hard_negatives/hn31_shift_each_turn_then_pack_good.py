from itertools import chain


class TurnPacker:
    def __init__(self, ignore=-100):
        self.ignore = ignore

    def pack(self, samples):
        shifted = [[*s["labels"][1:], self.ignore] for s in samples]
        lengths = [len(s["input_ids"]) for s in samples]
        return {
            "input_ids": list(chain.from_iterable(s["input_ids"] for s in samples)),
            "labels": list(chain.from_iterable(shifted)),
            "position_ids": list(chain.from_iterable(range(n) for n in lengths)),
            "lengths": lengths,
        }
