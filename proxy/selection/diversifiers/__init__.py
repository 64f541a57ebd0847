"""Which representatives are on the page, for policies that use more than rank.

choice     what a diversifier chooses from
relevance  the backend's scores, comparable and higher-is-better
mmr        maximal marginal relevance; it has a section of the settings to itself
dpp        greedy determinantal point process
"""
