"""The HTTP/1.1 data plane.

dataplane    every request: admitted, classified, passed through or intercepted
relay        one request to the database and its answer back, streamed; writes seen through
exchange     a search over HTTP: widened requests, lookups, answers
message      heads exactly as given, of requests and responses
headers      which fields pass, targets, and framing that two parsers could read apart
body         a request's body: whole up to a limit, or streamed; its content coding
answers      answers that are ours, and answers edited on their way
routes       where requests go: one upstream, or Pinecone's many hosts
listener     the data ports, and how connections are taken
connections  the open client connections
protocol     one client connection: deadlines, limits, trailers, chunks
outflow      answers on their way to slow clients
upstream     the way to the database, and its replies
pools        its connections, and what they lean on of aiohttp
tls          certificates of our own ports
events       what the data plane tells whoever counts
"""
