"""The context of one search: what its request asks for beyond the policy.

overrides  the headers of a request, and the policy that they make
repeats    results of an earlier list or turn are placed behind new ones
clients    who sent a request: its credentials and address
canary     mode on for a part of the searches, until it does harm
sessions   results of earlier turns of a conversation, in memory or in a Valkey
tokens     how many tokens a text has, and how many texts fit into a budget
answer     the last step of a selection: repeats, overlaps and budgets decide which results are in the answer
"""
