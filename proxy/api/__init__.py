"""VecSieve's own endpoints for applications, on a listener of their own, off unless `api.listen` is given (docs/api.md).

listener  the listener: who may ask, deadlines, bounded bodies and concurrency, and answers
routes    the endpoints: paths, message types and the work behind them
reading   the messages in bodies, read in steps that do not hold the loop
problems  errors as problem documents (RFC 9457)
events    server-sent events: in answer to lines that are still coming, and the feed of the write gate
lines     the lines and events of a stream to /v1/optimize
messages  the messages of /v1/optimize
optimize  chunks in, the chunks worth their tokens out; pure
stream    the same for chunks one by one; pure
fuse      /v1/fuse: lists of several retrievers into one, without copies
points    /v1/check, /v1/add and /v1/addBatch: points judged and stored by the write policy
stats     /v1/stats: what the write gate has seen and done
webhook   the same events, sent to a receiver
walk      a walk down the ranking: who repeats an earlier chunk; pure
lexical   what texts alone say about chunks; pure
openapi   the published description, made from the message types
"""
