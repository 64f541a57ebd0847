"""A server of the `_search` dialect for tests, as OpenSearch 3.5 or Elasticsearch 9.3: one node, one shard an index, exact k-NN.

Its answers are compared with those of the real servers (tests/clients/test_opensearch_server.py). Fusions (`hybrid`, `rrf`, `linear`)
follow the documentation alone: no real part of them runs beside these tests.

- store: documents, indices, aliases, points in time.
- writing: JSON as Jackson writes it, objects in the order of Java's hash tables.
- errors: refusals in the shapes of both products.
- matching: queries as scores of documents.
- vectors: k-NN clauses, spaces, and scripts.
- retrievers: `retriever` trees, top-level `knn`, `hybrid`.
- hits: what is shown of a document.
- searches: a request of `_search`, `_msearch` or `_count`, and its answer.
- writes: `_bulk`, `_doc`, `_create`, `_update`, `_mget`, `_delete_by_query`.
- rest: routes and headers; server: start and stop.
"""
