"""The HTTP/1.1 data plane: listener, passthrough, upstream pool, header hygiene, interception."""
