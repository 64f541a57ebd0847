"""OpenSearch and Elasticsearch in tests.

bodies       conversations, drawn
model        what the servers write for a search
conformance  requests by which the server of the tests is compared with the real ones, and what of their answers is compared
"""
