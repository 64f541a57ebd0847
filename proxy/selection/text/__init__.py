"""What texts say about candidates being copies.

reading    the texts of a pool, read lazily and remembered by content
bounds     how much of texts is read
canonical  what is left of a text when layout is gone, and its hash
margins    header and footer lines
matching   which candidates are copies by their texts, and by which rule
tokens     words in any script, and as 64-bit numbers
shingles   shared word 3-grams: Jaccard and containment
minhash    which texts may be similar
simhash    64 bits a text
indel      the share of words in the same order
memo       a cache bounded in bytes
"""
