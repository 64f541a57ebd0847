"""Our own listener. Nothing of it is ever answered on a data port.

server     the pages and the inspector's files (`static`), one request a connection, every connection with a deadline
status     what the status page says, read off the metrics
access     who may ask listeners of ours
inspector  the inspector's JSON: who may read it, and judgements
knowledge  what one process knows of its recent searches; the same of several workers, over sockets of theirs
recent     the last searches, candidate by candidate; repeats by collection over the last hour
pools      recent pools kept for what another policy would do
rejudging  such a pool without texts and vectors, and the page that a policy chooses from it
whatif     what another policy would do with recent pools
"""
