"""JSON and protobuf, decoded no further than needed.

json             exact spans of members and elements; limits on the size of requests and replies
json_requests    typed members of a request
json_vectors     arrays of numbers to numpy; vectors set aside before the structure of a reply is parsed; arrays cut
protobuf         spans of the fields of a message; limits on their count
protobuf_values  JSON-like values in protobuf as canonical JSON
schema           partial schemas of messages, for protobuf's own parser
structs          members of google.protobuf.Struct as JSON
vectors          packed numbers to numpy, sparse rows as one matrix, which vectors are usable
"""
