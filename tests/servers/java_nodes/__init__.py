"""Real nodes of OpenSearch and Elasticsearch from their libraries on Maven Central: `make java-nodes` builds them in .clients.

There is no release of either on Maven Central, but for OpenSearch the server, its modules and the k-NN plugin, and for Elasticsearch the
server. OpenSearchNode.java starts the first as its release does. ElasticsearchNode.java starts the second, whose network modules are not
there: Loopback.java is a plugin that serves HTTP on loopback by the JDK's server, and has no other nodes. Missing with it: painless, `rrf` and
`linear` retrievers, and reindex; missing from OpenSearch: `neural` and `hybrid` queries, search templates. k-NN has the Lucene engine alone.

- __main__: what is fetched, and where it is put.
"""
