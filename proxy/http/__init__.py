"""The HTTP/1.1 data plane.

relay        one request to the database and its answer back, streamed; writes that outlive their clients
exchange     every request: counted, and answered by the pipeline; its body, widened requests, questions, answers
headers      which fields are forwarded, targets, and ambiguous framing
body         a request's body: whole up to a limit, or streamed; its content coding
answers      answers exactly as given, our own answers, and answers edited on their way
routes       where requests go: one upstream, or Pinecone's many hosts
listener     the data ports, and how connections are taken
connections  the open client connections; what the data plane reports to the metrics; what the kernel says of a connection
protocol     one client connection: deadlines, limits, trailers, chunks
outflow      an answer from its reply to its client, who may be slow
upstream     sends requests to the database: a client's, and our own
pools        which connection a request gets
names        the addresses of database names
upstream_connection  one connection to the database; one request and its reply
tls          certificates of the data ports
"""
