"""Which representatives make the page, where a policy wants more than rank.

registry   the diversifiers by name
relevance  the backend's scores, comparable and higher-is-better
mmr        maximal marginal relevance
dpp        greedy determinantal point process
pyversity  MSD, COVER and SSD of the optional library
"""
