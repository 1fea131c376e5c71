"""Side-by-side measurements, one command each. Nothing here is a test."""
