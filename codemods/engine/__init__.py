"""The provenance engine: what every value of a function was made of.

`module.Module` parses a file, `interpret` runs each function once over abstract values (`terms`), `transfer` holds what
library calls do to them, and `describe` reads rows, lengths, boundaries, maxima, tags, positions and indices off them.
"""
