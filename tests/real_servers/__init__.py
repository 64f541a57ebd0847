"""The vendors' own servers, directly and through the proxy in every mode: `make real-servers`.

Nothing is downloaded or built here. WEAVIATE_SERVER and QDRANT_SERVER name programs that you have, from the vendors' releases or
built by you from their sources (`cmd/weaviate-server`, with Go; `cargo build --bin qdrant`, with Rust). OPENSEARCH_SERVER and
ELASTICSEARCH_SERVER name those of `make java-nodes`, or a release's `bin/opensearch` and `bin/elasticsearch` without security:

    make real-servers WEAVIATE_SERVER=~/bin/weaviate-server QDRANT_SERVER=~/bin/qdrant

Each server listens on loopback, keeps its data in a temporary folder and is ended with the run. Weaviate's client lives in
.clients (`make clients` puts it there). Printed: a line for each server with its version, the calls and the differences by
mode, then each difference in words; then the client tests of that backend against the same server. The status is 1 when
there is a difference that must not be, or a failed test.

- run: which servers, the table, the status.
- verdict: what came of a server, as a line and in words.
- weaviate_verdict, weaviate_scenario, weaviate_objects: what Weaviate's client is asked to do with which objects, and what is wrong with what it saw.
- qdrant_verdict, qdrant_scenario: the same of Qdrant, with the searches of the fuzz in tests/prove beside the client's calls.

- search_verdict: OpenSearch and Elasticsearch, by the requests of prove.search_requests.

`support.process.real_servers` starts the servers; the tests in tests/clients use it too, where that variable is set.
"""
