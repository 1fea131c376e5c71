"""Reads packed metadata off terms: which rows a tensor holds, and which rows lengths, boundaries, maxima, tags
describe."""
