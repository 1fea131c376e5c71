"""A request pipeline that packs by hand. It holds the kind of faults that such code has; `make demo` lints and mends
it."""
