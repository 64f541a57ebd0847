"""Where the candidates of one search come from.

values      its plan, its pools and its selection, as frozen values
source      one verb for pools: from the database, with vectors from memory or a lookup, with texts as far as they decide
retrievers  the lists of a fusion, each rid of copies before they are fused
lookups     vectors that a reply lacks, fetched by id in a second request
"""
