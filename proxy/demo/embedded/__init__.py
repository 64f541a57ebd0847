"""A small Qdrant-compatible server over the engine Qdrant ships: for the demo and a first look.

server       start and stop
rest         paths to verbs, HTTP in, bytes out
collections  the verbs about collections, and the directory that keeps them
configs      a collection's settings
points       the verbs about points, which read and write without a ranking
searches     the ranked verbs
queries      one level of a query as the engine's
filters      filters as the engine's
replies      points as they go out, and what of them is asked for
fields       typed reading of bodies
errors       refusals
engine       the only importer of `qdrant_edge`

`rest.ROUTES` is all that it serves. A server that serves more extends the table and the steps of `rest.Rest`, the variants in
`queries.KINDS`, and `collections.Registry`.
"""
