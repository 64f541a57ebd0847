"""Proof under load, faults and restarts: `python -m tests.prove`, one report with every figure and its criterion."""
