"""JSON and protobuf, decoded no further than needed.

json             exact spans of members and elements; limits on the size of requests and replies
json_requests    typed members of a request
json_vectors     arrays of numbers to numpy; vectors set aside before the structure of a reply is parsed; arrays cut
protobuf         the fields of a message; limits on their count
schema           partial schemas of messages, for protobuf's own parser
values           JSON-like values of protobuf as canonical JSON
vectors          packed numbers to numpy, sparse rows as one matrix, which vectors are usable
"""
