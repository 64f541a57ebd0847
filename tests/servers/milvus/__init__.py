"""REST, version 2, in front of Milvus Lite, which speaks gRPC alone: what tests of that transport ask.

rest  the searches and the description of a collection; the engine answers, by the official client
"""
