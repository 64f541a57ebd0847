"""Our own listener. Nothing of it is ever answered on a data port.

server  the pages, one request a connection, every connection with a deadline
status  what the status page says, read off the metrics
"""
