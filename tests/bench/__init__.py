"""Benchmarks: every figure is a ratio against a baseline of the same run. `python -m tests.bench` prints the table."""
