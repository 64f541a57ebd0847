"""A Qdrant-compatible server over the engine Qdrant ships: for the demo, the tests and a first look.

```
server     start and stop; the process the command line runs
rest       HTTP in, bytes out: routes, envelope, compression, the API key
grpc_*     the same over gRPC: server and service, then messages as Calls and values as messages
core       every verb of the API, free of transport: a Call in, JSON values out
registry   collections and aliases, and the directory they live in
engine     the one door to `qdrant_edge`
```
Between them, one file a subject: `configs`, `filters`, `inputs`, `queries`, `formulas`, `legacy`, `points`, `updates`, `indexes`,
`replies`, `strict`, `rates`, `fields`, `errors`, `keys`. Both shells need only `core`.
"""

from __future__ import annotations
