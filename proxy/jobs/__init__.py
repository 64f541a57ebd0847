"""Offline work on whole collections, read-only, through the official client.

source     where a job reads a collection, and which vector and text of a point
qdrant     a Qdrant collection as a source
files      files written whole, progress bars, credentials
analyze    who is a copy of whom
calibrate  how near is a copy
evaluate   what a policy is worth on labelled data
"""
