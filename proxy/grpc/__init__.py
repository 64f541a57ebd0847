"""The gRPC data plane: any call is relayed unchanged, searches use the same service as over HTTP.

side         one server for each upstream that calls go to, on a socket of our own
plane        every call: counted, and answered by the pipeline; streams are relayed
exchange     a call of one message each way: widened messages, questions, answers
relay        one call to the database and back, of any shape or of one message each way
upstream     channels to the database
status       which keys of metadata are forwarded; how a call ended: codes, failures, counts
connections  of shared ports, and the socket through which they reach that server; nothing from here on loads grpc
shared_port  a port that speaks HTTP/1 and gRPC, plain or over TLS
splice       two connections joined into one
ends         one of these two
refusal      UNIMPLEMENTED on a port without gRPC
frames       HTTP/2 frames, an allowance for empty ones, waiting calls
fields       what a block of fields decodes to, by its lengths
messages     the messages in them: unfinished and inflated bytes
"""
