"""The admin listener. None of its pages is served on a data port.

server     the pages and the inspector's files (`static`), one request a connection, every connection with a deadline
status     the status page, read from the metrics
access     who may use VecSieve's own listeners
inspector  the inspector's JSON: who may read it, and judgements
knowledge  the recent searches of one process; or of several workers, over their sockets
recent     the last searches, candidate by candidate; repeats by collection over the last hour
pools      recent pools, kept to select from again
reasons    why a result left the page or stays on it, in words
whatif     what another policy would do with recent pools
verdicts   the verdict of mode shadow, of all processes: for the status, the log and the end
"""
