"""What starts, supervises and ends a process of the data plane.

assembly   one process's data plane, built from settings
runtime    lifecycle of a process, lag of its loop, the thread for long work
resources  memory and descriptors
workers    `--workers N`: the parent, and when it starts and ends children
"""
