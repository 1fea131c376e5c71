"""Value invariants, the second half of a contract's language. Importing them imports no torch."""

from shapecheck._invariants._at_least_longest import AtLeastLongest as AtLeastLongest
from shapecheck._invariants._base import SHORT as SHORT
from shapecheck._invariants._base import Finding as Finding
from shapecheck._invariants._base import Invariant as Invariant
from shapecheck._invariants._base import Operand as Operand
from shapecheck._invariants._base import Scope as Scope
from shapecheck._invariants._base import is_tensor as is_tensor
from shapecheck._invariants._base import shown as shown
from shapecheck._invariants._contiguous import Contiguous as Contiguous
from shapecheck._invariants._elementwise import COMPARABLE as COMPARABLE
from shapecheck._invariants._elementwise import Elementwise as Elementwise
from shapecheck._invariants._in_range import InRange as InRange
from shapecheck._invariants._multiple_of import MultipleOf as MultipleOf
from shapecheck._invariants._one_of import OneOf as OneOf
from shapecheck._invariants._partition import Partition as Partition
from shapecheck._invariants._prefix_sum import PrefixSum as PrefixSum
from shapecheck._invariants._same_as_host import SameAsHost as SameAsHost
from shapecheck._invariants._same_batch import SameBatch as SameBatch
from shapecheck._invariants._same_device import SameDevice as SameDevice
