"""Numpy kernels that choose distinct results, and their composition. Knows no database, JSON, asyncio or setting.

values       what goes in and out: Candidates, Policy, Selection
single       one page, chosen from one pool: the gate, clusters, representatives, MMR, fill, order
paged        any page of one deduplicated list that does not depend on the page size
geometry, clustering, thresholds, representatives, mmr, fill     one algorithm a file
guards       what forbids that two candidates share a cluster
chain, caps, diversify (mmr, dpp, external)     who stands for a cluster, how many of a kind, which make the page
"""
