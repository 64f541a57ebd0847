"""Qdrant's upserts, for the write gate.

rest          the adapter over REST; points left out, read whole, merged, removed
rest_upserts  their points, the query for their neighbours, notes in payloads
grpc          the adapter over gRPC, the same
grpc_upserts  as rest_upserts
grpc_values   a point's message as JSON, and back
"""
