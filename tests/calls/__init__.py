"""What becomes of each call of the official clients: `python -m tests.calls` writes docs/calls.md.

servers     records what a client sends
clients     each method of a client, with arguments; search_clients: those of OpenSearch and Elasticsearch
verdicts    what the adapter makes of what was sent
page        the page
"""
