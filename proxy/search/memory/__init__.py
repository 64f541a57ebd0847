"""The feature memory: what earlier replies brought need not be sent again.

points   vectors and payload values of points, and the decisions about whole pools
shelves  where points lie: rows and payload values by slot
preload  all points of collections that the settings name
lookups  vectors that a reply lacks: fetched by id, or recalled; requests that repeat an earlier one, and how many candidates they need
"""
