"""Everything that runs: the only place with sockets, clocks and tasks.

server     composition root: alone or crew; instance and process are what both are made of
search     one search's life, free of transport: widen, fetch, select, trim
http       the HTTP/1.1 data plane; selection: numpy kernels
admin      our own listener: health, metrics, status
jobs       offline work on whole collections, through the official client: calibrate, analyze
embedded   a Qdrant-compatible server over the embedded engine; demo: real text, both answers side by side
"""
