"""A small causal language model over packed documents, and its training step.

Documents share one row of tokens `[1, S]`. Nothing but position ids says where they begin: they count from 0 in each,
and the mask is derived from them, as Hugging Face's transformers do.
"""

from packed_lm.documents import VOCABULARY as VOCABULARY
from packed_lm.documents import Batch as Batch
from packed_lm.documents import pack_documents as pack_documents
from packed_lm.documents import random_documents as random_documents
from packed_lm.model import Config as Config
from packed_lm.model import PackedLM as PackedLM
from packed_lm.model import build_model as build_model
from packed_lm.model import packed_causal_mask as packed_causal_mask
from packed_lm.training import next_token_loss as next_token_loss
from packed_lm.training import training_step as training_step
