"""What texts say about candidates being copies.

reading    the texts of a pool, in the form that is compared in it
bounds     how much of texts is read
canonical  what is left of a text when layout is gone, and its hash
margins    header and footer lines
seams      chunks that overlap: by their spans, or by their words
matching   which candidates are copies by their texts, and by which rule
evidence   what texts say about pairs of candidates, laid over their distances
tokens     words in any script, and as 64-bit numbers
features   what is read of one text, kept with it
pairs      what two texts have in common, remembered by pair
sentences  how many of a text's sentences another text has
shingles   word 3-grams, and how many two texts share
signals    containment, Jaccard, indel ratio, MinHash and SimHash behind a registry
memo       a cache bounded in bytes
"""
