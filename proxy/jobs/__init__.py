"""Offline jobs. analyze, calibrate and sweep read a whole collection, through a client of the database; sweep may delete points from it, and
undo stores points that were left out or deleted.

source     a collection as jobs read it: the contracts, and the text and vector of a point
databases  which databases the jobs read, and how one is opened
clients    the collections of each database as sources, and their points
rest       requests to a database over REST
embeddings the vector of a text, from an endpoint
check      `check --connect`: reach, credentials and a search
pages      a report for a terminal and as an HTML page
pairs      the pairs of a collection that may be copies, for analyze and sweep
analyze    reports a collection's copies
calibrate  proposes a distance threshold for a collection
sweep      finds points that are copies, without a search for each, and deletes them
evaluate   measures policies on labelled data
measure    measures VecSieve before a user's own database, with a file of searches
undo       stores the points that the write gate left out or a sweep deleted, from the journal
"""
