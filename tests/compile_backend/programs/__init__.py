"""The programs that the backend is judged by: what it must lower, and what it must leave alone."""

from .negative_attention import WRONG_ATTENTION
from .negative_masks import WRONG_MASKS
from .negative_tags import WRONG_TAGS
from .positive_batches import BATCHES
from .positive_forms import FORMS
from .positive_regions import REGIONS
from .positive_tags import TAGS
from .program import Adverse, Program, Sizes

POSITIVE: tuple[Program, ...] = (*TAGS.programs, *FORMS.programs, *BATCHES.programs, *REGIONS.programs)
NEGATIVE: tuple[Program, ...] = (*WRONG_TAGS.programs, *WRONG_MASKS.programs, *WRONG_ATTENTION.programs)

__all__ = ["NEGATIVE", "POSITIVE", "Adverse", "Program", "Sizes"]
