"""Queries that several rules share."""
