"""One ranked search, whatever its transport.

service      runs every search of one transport: prepare, measure or improve, and the fallbacks; what all searches of a process share
exchange     one request and its answers, as the transports implement it; mode shadow, vector fetches, descriptions
searcher     one search without its transport: select, grow, trim
pools        where its candidates come from: the plan, the source of its pools, and what was selected
fetch        how many candidates to fetch
memory       the feature memory: vectors and payload values of points that earlier replies brought
candidates   from an adapter's pool to what selection takes
policy       the policy of one search: rules, payload fields
context      what one request asks beyond its policy: its headers
collections  what replies and passing requests teach about collections, and their thresholds
governor     what one search may cost in reads, bytes and seconds, and what it has cost: its grant
hedge        when the client's own search is sent beside a late widened one, and the race of both
budgets      the reads and bytes of our own, and their bounds
limits       requests in flight, loop turns, bytes held; the breaker, which stops widened requests
report       the result of one call: header, figures, explanation
errors       the failures of the data plane, their words, and the request fence
"""
