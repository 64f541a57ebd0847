"""The base of the tests' Qdrant server (servers/qdrant): the verbs that need no index, over Qdrant's embedded engine.

collections  the verbs on collections, and their directory
points       the verbs on points without ranking
searches     the ranked verbs, and the `query` of one level
replies      filters and selectors, for the engine; points in responses
fields       typed reading of bodies, and refusals
engine       the only importer of `qdrant_edge`; a collection's settings
"""
