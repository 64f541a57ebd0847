"""Qdrant's clients of other languages, directly and through the proxy: `make grpc-clients`, `make go-client`."""
