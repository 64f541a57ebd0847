"""Everything that runs: the only place with sockets, clocks and tasks.

cli        the command line
server     settings in, running listeners out: one process, or several workers
process    one process's data plane assembled; its descriptors; workers
runtime    what every room may use: the loop, the lifecycle, memory, addresses
search     one ranked search on any transport: read, widened, selected, answered, or answered plainly
selection  numpy kernels that choose distinct results
writes     the write gate: upserts compared with what is stored; off by default
http       the HTTP/1.1 data plane
grpc       the gRPC data plane
telemetry  labels, metrics, logs and traces
admin      our own listener: health, metrics, status
api        our own endpoints for applications, on another listener, off by default
jobs       offline work on collections: calibrate, analyze, sweep, evaluate
mcp        tools for language models over the Model Context Protocol
demo       real text, both answers side by side, over the embedded engine
"""
