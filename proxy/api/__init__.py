"""VecSieve's own endpoints for applications, on a listener of their own, off unless `api.listen` is given (docs/api.md).

listener  the listener: who may ask, deadlines, bounded bodies and concurrency, and answers
routes    the endpoints: paths, message types and the work behind them; the published description
problems  messages read in steps that do not hold the loop, and errors as problem documents (RFC 9457)
events    server-sent events: in answer to lines that are still coming, the feed of the write gate, and its webhook
messages  the messages of /v1/optimize
optimize  chunks in, the chunks worth their tokens out; pure
stream    the same for chunks that come line by line
walk      a walk down the ranking: who repeats an earlier chunk, by vectors and words; pure
fuse      /v1/fuse: lists of several retrievers into one, without copies
points    /v1/check, /v1/add and /v1/addBatch: points judged and stored by the write policy; /v1/stats
"""
