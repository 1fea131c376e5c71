import numpy as np


class ShardWriter:
    def __init__(self, tokenizer, path):
        self.tokenizer = tokenizer
        self.path = path

    def write(self, texts):
        stream, doc_lens = [], []
        for text in texts:
            ids = self.tokenizer.encode(text, add_special_tokens=False)
            ids = [self.tokenizer.bos_token_id, *ids, self.tokenizer.eos_token_id]
            doc_lens.append(len(ids))
            stream.extend(ids)
        cu_seqlens = np.concatenate([[0], np.cumsum(doc_lens)])
        np.savez(self.path, tokens=np.array(stream, dtype=np.int32), cu_seqlens=cu_seqlens)
