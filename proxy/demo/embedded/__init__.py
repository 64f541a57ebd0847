"""A small Qdrant-compatible server over the engine Qdrant ships: for the demo and a first look.

server         start and stop
rest           paths to verbs, HTTP in, bytes out
registry       collections by name, their directory and limits
engine         the only importer of `qdrant_edge`
collections    collections, aliases, indexes, named vectors
configs        a collection's settings
points         points read and written, and the distance matrix
searches       the ranked verbs
queries        one level of a query as the engine's
filters        filters as the engine's
replies        points as they go out, and what of them is asked for
fields         typed reading of bodies
errors         refusals
"""
