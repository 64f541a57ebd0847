"""An emulator of Pinecone, in memory: for the tests and the demo, where no real Pinecone can be reached. It is not one.

```
server        start and stop, and what a client connects to: `serve`, `Emulator`
rest          HTTP in, bytes out: the key, which index, which version, which call
grpc_service  gRPC behind a port: methods, each with the path that it is over REST
grpc_messages what the messages are, and the JSON they stand for
calls         one call: its version, body and limits
store         a project's indexes, what each should be, its namespaces and records
control       the control plane
vectors       records by id, written and read; ids page by page
queries       `query`
records       records with integrated embedding
documents     documents of the newest API
namespaces    namespaces, and what they hold
ranking       distances, probes, embeddings, reranking
fields        typed reading of bodies, and filters
shapes        numbers and structures as the service writes them
errors        refusals
```
What is known of the service comes from its public descriptions, its clients' models and bodies other people published; what
is only inferred says so where it stands. Not served: collections, backups, imports, inference on its own.
"""

from __future__ import annotations
