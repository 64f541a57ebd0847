"""The write gate, off by default: compares upserts with stored points, before or while they are sent.

pipeline   every request of any transport: admission, classification, then search, write, deletion or relay
gate       one write: queries for its neighbours, verdicts, changes, counts
settling   after the database's answer: verifies left out points, removes replaced ones
deletions  reports clients' deletions to the journal
reads      the gate's queries to the database
judging    which points of a write are copies of stored points, or of earlier points of the write
holding    whether one text contains another
facts      the values of a payload other than its text
plans      the write without its copies, and the journal's rows
merging    which of two copies is kept, and its content
events     what happened to points, for listeners
rows       of the journal: points that were left out, removed or changed
book       the journal's file
journal    the book for the event loop: rows are on disk before their write is sent
lock       one proxy and its workers use a journal
"""
