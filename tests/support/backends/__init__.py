"""What several databases are tested with.

transports     each backend's transports by its name; which operation a request is, and why one is left alone
rest_dialects  what the laws of the adapters know of each backend over REST
grpc_dialects  the same over gRPC
writes         one write of each transport that the write gate reads, with its answers
write_gates    vectors, texts and settings of write gates, and `vecsieve undo`
text_rankings  one ranking of texts in each database, over each transport
surrounded     every database behind the proxy, asked by its own client with our headers
shadowed       the engine behind two proxies, one with a feature memory
families       bases of copies, their texts and queries near them
layouts        how frameworks lay out a passage
passages       the corpus that each framework writes
two_facts      records that differ in the one thing that matters
toy_backend    a backend whose messages are JSON lists of numbers
searching      one search over a searcher, without a transport
toy_exchange   searches of it on a transport that is a script
toy_row        its rows, and a server that speaks it over HTTP
"""
