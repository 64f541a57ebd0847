"""The gRPC data plane: any call relayed as it is, searches through the same selection as over HTTP."""
