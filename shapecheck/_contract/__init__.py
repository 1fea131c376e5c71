"""`@contract`, the run-time enforcer. Imports torch, jaxtyping's annotations as the user wrote them, and beartype."""

from shapecheck._contract._decorator import Contract as Contract
from shapecheck._contract._decorator import contract as contract
from shapecheck._contract._fields import Fields as Fields
from shapecheck._contract._preset import Preset as Preset
from shapecheck._contract._preset import preset as preset
from shapecheck._levels import Level as Level
