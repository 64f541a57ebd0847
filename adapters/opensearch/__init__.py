"""OpenSearch and Elasticsearch over REST: one dialect, ``_search``, for both products.

calls      which requests are ranked searches or change an index; the errors of both servers
parameters  the query string of a search, as far as it repeats the body
ranking    which clause of a search ranks by vectors, and what must grow with its number of results
selection  which stored fields and which vector a widened search returns in addition
request    parses and widens one search, or the searches of ``_msearch``
hits       the lists of a reply, and their hits
rest       parses a reply, cuts the client's answer; the adapters
schema     the description of an index, and the form of a document
bulk       a parsed write, and the lines of ``_bulk``
write      upserts: their neighbours, stored documents, notes; what is left out
receipts   the answers to writes
deletions  which requests delete documents, and which ones
"""
