"""VecSieve's own endpoints for applications, on a separate listener. It is off unless `api.listen` is set (docs/api.md).

listener  the listener: access, deadlines, bounded bodies, bounded concurrency, replies
routes    the endpoints: paths, message types and handlers; the published description
problems  reads messages in steps that do not block the loop; errors as problem documents (RFC 9457)
events    server-sent events: the reply to a stream of lines, and the feed of the write gate; its webhook
messages  the messages of /v1/optimize
optimize  selects the chunks to keep; pure
stream    the same for chunks that arrive line by line
walk      what of a list is said by the results above it: the judge of searches, embeddings where a text is missing; pure
overlap   words that texts have in common, for MMR; pure
fuse      /v1/fuse: merges the lists of several retrievers into one without what is said above
points    /v1/check, /v1/add and /v1/addBatch: judge points and store them by the write policy; /v1/stats
"""
