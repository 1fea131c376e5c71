"""A small packed audio-video diffusion transformer with the forward contract of MiniMax-H3, and its request pipeline.

Text, reference image, audio and video of a request share one row of tokens `x: [1, S, C]`. Widths are narrow, layouts
are real: one 720p request is S = 58,816 rows.
"""

from packed_dit.attention import Segments as Segments
from packed_dit.attention import masked_attention as masked_attention
from packed_dit.attention import segment_attention as segment_attention
from packed_dit.attention import segment_mask as segment_mask
from packed_dit.layout import ALIGN as ALIGN
from packed_dit.layout import SIZES as SIZES
from packed_dit.layout import TAGS as TAGS
from packed_dit.layout import RequestSize as RequestSize
from packed_dit.layout import pack_requests as pack_requests
from packed_dit.layout import row_positions as row_positions
from packed_dit.model import Config as Config
from packed_dit.model import PackedDiT as PackedDiT
from packed_dit.model import build_model as build_model
from packed_dit.pipeline import Batch as Batch
from packed_dit.pipeline import Request as Request
from packed_dit.pipeline import Result as Result
from packed_dit.pipeline import denoise as denoise
from packed_dit.pipeline import prepare as prepare
from packed_dit.pipeline import random_request as random_request
