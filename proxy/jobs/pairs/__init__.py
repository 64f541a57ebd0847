"""The pairs of a collection that may be copies, found without comparing every point with every other and without a search for each.

ids        every id of a collection, once and in order
sketches   hashes that copies are likely to share
store      what was read and decided, on disk
joining    pairs that share a hash: DuckDB, or Daft on Ray
comparing  how alike the vectors of such pairs are
reading    streams a collection into the store, page by page
"""
