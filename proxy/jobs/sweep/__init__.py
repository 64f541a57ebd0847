"""`vecsieve sweep`: which points of a collection are copies and could go. Nothing is deleted.

command   the command
run       one sweep, from the first request to the report
sketches  hashes that copies are likely to share
store     what was read, on disk; pairs that share a hash
judging   which pairs are copies, and which point of a family stays
"""
