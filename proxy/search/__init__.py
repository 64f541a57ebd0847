"""One ranked search, whatever its transport.

service      runs every search of one transport: prepare, measure or improve, and the failure ladder
services     what all searches of a process share
exchange     one request and its answers, as the transports implement it; questions and lookups; mode shadow
searcher     plan, widen, fetch, select, grow, trim
fetch        how many candidates to ask for, and what an attempt has come to
lookups      vectors a reply lacks: fetched by id, or remembered
candidates   from an adapter's pool to what selection takes
policy       a policy as one search needs it: rules, overrides, fields
profiles     thresholds of a collection: calibrated, learned, watched for drift
collections  what replies and passing requests teach about collections
hedge        when the client's own search is sent beside a late widened one, and the race of both
budgets      the reads of our own, the bytes they cost, and their bounds
limits       requests in flight, turns of the loop, bytes held, ages of connections
breaker      stops widened requests while the database keeps failing them
report       what a search came to: header, figures, explanation
errors       the failures of the data plane, their words, and the fence around our own code
"""
