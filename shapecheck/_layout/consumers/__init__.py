"""One module per consumer of packed metadata: the keyword arguments that it takes."""
