"""The feature memory: what earlier replies contained need not be sent again.

points   vectors and payload values of points, and the decisions about whole pools
shelves  where points lie: rows and payload values by slot; what memory is asked, and what it answers
lookups  what memory has of a pool: recalled and learnt; requests that repeat an earlier one
recall   a search with memory: its lean request, its reply, and what the next such request needs
fetches  vectors that a reply lacks, fetched by id
pages    pages by what their results say
"""
