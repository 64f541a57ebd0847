"""The feature memory: vectors that earlier replies contained need not be sent again, and pages need not be made again.

points   vectors of points by id and version, and what proves them
shelves  where they lie: rows by slot
recall   a search with memory: its lean request, the reply completed, and requests that repeat an earlier one
pages    pages by what decides them
"""
