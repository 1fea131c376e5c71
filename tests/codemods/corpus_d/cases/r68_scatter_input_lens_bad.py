import torch


class RaggedPrefill:
    def run(self, q, k, v, seq_lens):
        extra = -q.shape[0] % self.tp_size
        if extra:
            q, k, v = (torch.nn.functional.pad(t, (0, 0, 0, 0, 0, extra)) for t in (q, k, v))
        indptr = torch.zeros(seq_lens.numel() + 1, dtype=torch.int32, device=q.device)
        indptr[1:] = seq_lens.cumsum(0)
        self.wrapper.plan(
            qo_indptr=indptr,
            kv_indptr=indptr,
            num_qo_heads=q.shape[1],
            num_kv_heads=k.shape[1],
            head_dim_qk=q.shape[2],
        )
        return self.wrapper.run(q, k, v)
