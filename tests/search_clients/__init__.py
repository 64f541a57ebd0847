"""Stores of LangChain and LlamaIndex, and the JavaScript clients, of OpenSearch and Elasticsearch: `make clients`.

Each writes passages with copies into an index of its own and searches them, directly and through the proxy in every mode. The server is that of
the tests, or a real node where OPENSEARCH_SERVER and ELASTICSEARCH_SERVER name one. They live in .clients; npm is needed for the latter.

- run: environments, the plan, the verdict.
- stores: what the Python stores do, by their own interpreter; clients.mjs: what the JavaScript clients do.
"""
