from dataclasses import dataclass, field


@dataclass
class PackedRow:
    input_ids: list = field(default_factory=list)
    labels: list = field(default_factory=list)
    position_ids: list = field(default_factory=list)
    seq_lengths: list = field(default_factory=list)


def fill_row(examples):
    row = PackedRow()
    for ex in examples:
        n = len(ex["input_ids"])
        at = len(row.input_ids)
        row.position_ids += list(range(at, at + n))
        row.input_ids += ex["input_ids"]
        row.labels += ex["labels"]
        row.seq_lengths.append(n)
    return row
