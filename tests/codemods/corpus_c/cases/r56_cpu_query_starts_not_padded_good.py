from dataclasses import dataclass

import torch


@dataclass
class CommonMetadata:
    query_start_loc: torch.Tensor
    query_start_loc_cpu: torch.Tensor
    num_reqs: int


def pad_requests(meta, graph_reqs):
    extra = graph_reqs - meta.num_reqs
    if extra > 0:
        tail = meta.query_start_loc[-1:].expand(extra)
        meta.query_start_loc = torch.cat([meta.query_start_loc, tail])
        tail_cpu = meta.query_start_loc_cpu[-1:].expand(extra)
        meta.query_start_loc_cpu = torch.cat([meta.query_start_loc_cpu, tail_cpu])
        meta.num_reqs = graph_reqs
    return meta
