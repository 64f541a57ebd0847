"""Numpy kernels that choose distinct results, and their composition. Knows no database, JSON, asyncio or setting.

values           what goes in and out, and long work in steps
policy           how to choose: frozen values
single         one page of one pool: gate, clusters, representatives, diversifier, caps, fill, order
paged            any page of one deduplicated list
metric           the metric a pool was ranked by, and when vectors alone may not decide
geometry         how far apart candidates are
distances        distances relative to the pool, and how close two may be by chance
certainty        the calibrated rule: the probability that a candidate repeats a result, by their vectors
clustering       agglomerative and leader clustering
grouping       clusters: what texts decide, and what vectors decide where a text is missing
representatives  the representative of a cluster
diversifiers     MMR, DPP and others behind a registry
reading        what a text says: tokens, sentences, layout
judging        what kept texts say of another: the judge, and its walk down a ranking
"""
