"""Assembles, bounds and supervises a process of the data plane.

assembly     one process's data plane, built from settings
levels       gauges of a process that are updated ten times a second
descriptors  how many file descriptors it needs, and how many fit
files        reads what the settings name, before a port is open
talk         the output of `serve` for people: banner, text log, summary
workers      `--workers N`: the parent process, which starts and ends children
"""
