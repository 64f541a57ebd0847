"""A Qdrant-compatible server over the engine Qdrant ships: for the demo, the tests and a first look."""
