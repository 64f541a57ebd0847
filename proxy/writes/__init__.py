"""The write gate, off by default: upserts are compared with what is stored before they go out, or beside it.

gate     one write: its neighbours asked for, judged, annotated or cut, counted
journal  the points that were left out, on disk before their write goes out
judging  which points of a write are copies of stored ones, or of points before them
"""
