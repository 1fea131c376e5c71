"""Valid and broken calls of the functions that `shapecheck.presets` describes: an oracle for kernel authors.

    from shapecheck.testing import ORACLES
    oracle = ORACLES["h3"]
    call = oracle.call(layout)                     # keyword arguments that fit together
    for mutant in oracle.mutants(call):            # the same with one thing broken
        ...

`shapecheck.testing.plugin` has pytest fixtures, `shapecheck.testing.strategies` hypothesis strategies.
"""

from shapecheck.testing._oracle import Mutant as Mutant
from shapecheck.testing._oracle import Oracle as Oracle
from shapecheck.testing._oracles import ORACLES as ORACLES
