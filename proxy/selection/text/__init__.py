"""Texts as evidence for copies.

reading    the texts of a pool, in the form that is compared in it
bounds     how much of texts is read
canonical  the form of a text without layout, and its hash
margins    header and footer lines
seams      chunks that overlap: by their spans, or by their words
matching   which candidates are copies by text, and by which rule
evidence   text evidence for pairs of candidates, combined with their distances
tokens     words in any script, and as 64-bit numbers
features   the features of one text, cached with it
pairs      what two texts have in common, cached by pair
sentences  how many of a text's sentences another text has
rare_words the rare words that short texts share
shingles   word 3-grams, and how many two texts share
signals    containment, Jaccard, indel ratio, MinHash and SimHash behind a registry
memo       a cache bounded in bytes
"""
