"""gRPC and HTTP/2 in tests.

calls         a client's view of one call, in one value
clients       the official client over gRPC, and what an error says
captures      recorded calls of real clients
raw           gRPC frame by frame, both sides
upstream      a gRPC server whose methods are scripts
relay_server  a listener that relays every call
stack         the engine behind the proxy, and raw calls of both
http2_frames  HTTP/2 frames on the wire
spliced       two connections tied by a splice
wire_fields   single fields of messages
message_tables   messages of a service, from a table
partial_schemas  an adapter's schema beside the official messages
"""
