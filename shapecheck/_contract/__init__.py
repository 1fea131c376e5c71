"""`@contract`, the run-time enforcer. Imports torch, jaxtyping's annotations as the user wrote them, and beartype."""

from shapecheck._contract._decorator import Contract as Contract
from shapecheck._contract._decorator import contract as contract
from shapecheck._levels import Level as Level
