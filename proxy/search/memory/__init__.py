"""The feature memory: what earlier replies brought need not be sent again.

values   what it is asked, and what it answers
points   vectors and payload values of points, and the decisions about whole pools
shelves  where points lie: rows and payload values by slot
lookups  what memory has of a pool: recalled, completed by a lookup of a few points, and learnt
repeats  requests that repeat an earlier one, and how many candidates they need
fetches  vectors that a reply lacks, fetched by id
preload  all points of collections that the settings name
"""
