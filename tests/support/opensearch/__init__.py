"""OpenSearch and Elasticsearch in tests.

- conformance: requests by which the server of the tests is compared with the real ones, and what of their answers is compared.
"""
