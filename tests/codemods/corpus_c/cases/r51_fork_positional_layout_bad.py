from vllm.vllm_flash_attn import flash_attn_varlen_func


class VisionBackend:
    def __init__(self, scale):
        self.scale = scale

    def run(self, q, k, v, cu_window, max_window):
        return flash_attn_varlen_func(
            q,
            k,
            v,
            cu_window,
            cu_window,
            max_window,
            max_window,
            softmax_scale=self.scale,
        )
