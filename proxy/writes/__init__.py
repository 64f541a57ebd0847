"""The write gate, off by default: upserts are compared with what is stored before they go out, or beside it.

gate     one write: read, its neighbours asked for, judged, annotated, counted
judging  which points of a write are copies of stored ones, or of points before them
"""
