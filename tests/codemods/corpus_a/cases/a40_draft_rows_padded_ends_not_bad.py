import torch.nn.functional as F
import torch_npu


class DraftFirstStep:
    def __init__(self, qkv, capture_sizes, num_heads, scale):
        self.qkv = qkv
        self.capture_sizes = sorted(capture_sizes)
        self.num_heads = num_heads
        self.scale = scale

    def run(self, hidden_states, query_start_loc_cpu):
        num_tokens = hidden_states.shape[0]
        num_input_tokens = next(size for size in self.capture_sizes if size >= num_tokens)
        actual_seq_lengths_q = query_start_loc_cpu[1:].tolist()
        hidden_states = F.pad(hidden_states, (0, 0, 0, num_input_tokens - num_tokens))
        q, k, v = self.qkv(hidden_states).unflatten(-1, (3, self.num_heads, -1)).unbind(1)
        out, _ = torch_npu.npu_fused_infer_attention_score(
            q,
            k,
            v,
            num_heads=self.num_heads,
            input_layout="TND",
            scale=self.scale,
            actual_seq_lengths=actual_seq_lengths_q,
            actual_seq_lengths_kv=actual_seq_lengths_q,
        )
        return out[:num_tokens]
