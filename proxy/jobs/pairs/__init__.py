"""Finds the pairs of a collection that may be copies, without comparing every point with every other and without a search for each.

ids        every id of a collection, once and in order
fingerprints  hashes that a text shares with each text that holds it
sketches   hashes that near vectors are likely to share
store      data that was read and decisions, on disk
joining    pairs that share a hash: DuckDB, or Daft on Ray
reading    streams a collection into the store, page by page
"""
