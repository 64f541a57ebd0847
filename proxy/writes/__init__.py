"""The write gate, off by default: upserts are compared with what is stored before they go out, or beside it.

gate     one write: its neighbours asked for, judged, changed, counted
reads    what the gate asks of the database
judging  which points of a write are copies of stored ones, or of points before them
plans    what is left of a write without its copies, and what the journal gets
merging  which of two copies stays, and what it then holds
events   what became of points, for those who listen
journal  the points that were left out, removed or changed, on disk before their write goes out
"""
