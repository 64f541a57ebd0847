"""A small Qdrant-compatible server over Qdrant's embedded engine: for the demo and a first look.

rest         HTTP: routes, requests and responses; start and stop
collections  the verbs on collections, and their directory
configs      a collection's settings
points       the verbs on points without ranking
searches     the ranked verbs
queries      one level of a query, for the engine
filters      filters, for the engine
replies      points in responses, and selectors
fields       typed reading of bodies, and refusals
engine       the only importer of `qdrant_edge`

`rest.ROUTES` lists what is served. A larger server extends that table, `rest.Rest`, `queries.KINDS` and
`collections.Registry`.
"""
