"""qdrant-client's own congruence tests, from a checkout of it, directly and through the proxy in every mode."""
