"""Stores of LangChain and LlamaIndex, and the clients for JavaScript and Java, of OpenSearch and Elasticsearch: `make clients`.

Each writes passages with copies into an index of its own and searches them, directly and through the proxy in every mode. The server is that of
the tests, or a real node where OPENSEARCH_SERVER and ELASTICSEARCH_SERVER name one. They live in .clients. Without npm, or Maven and a JDK of 17, the clients that need it are skipped, and said so.

- run: environments, the plan, the verdict.
- stores: what the Python stores do, by their own interpreter; clients.mjs, *.java: what the others do.
"""
