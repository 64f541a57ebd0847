"""What assembles, bounds and supervises a process of the data plane.

assembly     one process's data plane, built from settings
descriptors  how many file descriptors it needs, and what fits
talk         what `serve` says to a person: banner, text log, summary
workers      `--workers N`: the parent, and when it starts and ends children
"""
