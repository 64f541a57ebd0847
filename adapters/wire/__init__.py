"""The formats that databases speak, read without decoding more than is needed.

json               exact spans of members and elements; how much there is to read
json_requests      the members of a request, each read with certainty or not at all
json_vectors       arrays of numbers to numpy; a reply's vectors set aside before its structure is read
protobuf           where fields stand in a message
protobuf_requests  the fields of a request by number; how many there are
protobuf_values    JSON-like values in protobuf as canonical JSON
vectors            repeated numbers to numpy, sparse rows as one matrix, which vectors are usable
"""
