"""What surrounds one search: what its request asks beyond the policy.

overrides  the headers of a request, and the policy that they make
repeats    what was shown before, by an earlier list or turn, stands behind what is new
sessions   what earlier turns of a conversation were given, in memory or in a Valkey
tokens     how many tokens a text has, and how many texts a budget pays for
answer     the last step of a selection: what surrounds a search decides which results are in its answer
"""
