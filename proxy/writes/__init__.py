"""The write gate, off by default: upserts are compared with stored points before they are sent, or beside it.

pipeline   every request of any transport: admitted, classified, then a search, a write, a deletion, or relayed
gate       one write: queries for its neighbours, verdicts, changes, counts
settling   what follows the database's answer: left out points are looked at again, replaced ones removed
deletions  what clients delete, for the journal
reads      the gate's queries to the database
judging    which points of a write are copies of stored points, or of earlier points of the write
holding    whether one text says all of another
facts      what points say beside their texts
plans      the write without its copies, and the journal's rows
merging    which of two copies stays, and its content
events     what happened to points, for listeners
rows       the journal's: points that were left out, removed or changed
book       the journal's file
journal    the same for the event loop: rows are on disk before their write is sent
lock       the journal's, for one proxy and its workers
"""
