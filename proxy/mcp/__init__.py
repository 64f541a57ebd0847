"""`vecsieve mcp`: tools for language models over the Model Context Protocol, by the official package (extra `mcp`).

tools   what the tools take and do
server  the protocol: over standard input and output, or over HTTP
"""
