"""OpenSearch and Elasticsearch in tests.

bodies    conversations, drawn
model     what the servers write for a search
"""
