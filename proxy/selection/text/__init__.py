"""What texts say about candidates being copies.

reading    the texts of a pool, read lazily and remembered by content
bounds     how much of texts is read
canonical  what is left of a text when layout is gone, and its hash
margins    header and footer lines
matching   which candidates are copies by their texts, and by which rule
tokens     words in any script, and as 64-bit numbers
shingles   word 3-grams, and how many two texts share
signals    containment, Jaccard, indel ratio, MinHash and SimHash behind a registry
memo       a cache bounded in bytes
"""
