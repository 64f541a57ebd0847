"""Our own listener. Nothing of it is ever answered on a data port.

server     the pages, one request a connection, every connection with a deadline
status     what the status page says, read off the metrics
access     who may ask listeners of ours
page       the inspector's files, under `static`, and what a browser may do with them
inspector  the inspector's JSON: who may read it, and judgements
knowledge  what one process knows of its recent searches
whatif     what another policy would do with recent pools
workers    the same of several workers, over sockets of theirs
"""
