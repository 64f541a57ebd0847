"""Each backend's transports by its name: over HTTP, and over gRPC where it is spoken."""

from __future__ import annotations

from vecsieve.adapters.backends import BACKENDS

REST = {name: row.rest for name, row in BACKENDS.items()}
GRPC = {name: row.grpc for name, row in BACKENDS.items() if row.grpc is not None}
