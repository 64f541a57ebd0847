"""An emulator of Pinecone, in memory: for the tests and the demo, where no real Pinecone can be reached. It is not one.

```
server        start and stop: `serve`, `Emulator`
rest          HTTP in, bytes out: which index, which version, which call
routes        paths, each with the call that answers it and the API versions that have it
ports         what a client connects to, over either transport
grpc_server   gRPC behind a port
grpc_service  messages in, messages out, for one index
grpc_methods  methods, each with the path that it is over REST
grpc_messages what the messages are, and the JSON they stand for
edge          the key, and the headers of every answer
project       the indexes, and where each of them can be reached
store         one index's namespaces and records
```
Calls: `queries`, `vectors`, `listing`, `namespaces`, `records`, `documents`, `document_edits`, `control`. What they stand on:
`filters`, `probes`, `ranking`, `embedding`, `reranking`, `scoring`, `schema`, `index_requests`, `index_models`, `fields`, `shapes`,
`errors`, `versions`, `calls`.

What is known of the service comes from its public descriptions, its clients' models and bodies other people published; what
is only inferred says so where it stands. Not served: collections, backups, imports, inference on its own.
"""

from __future__ import annotations
