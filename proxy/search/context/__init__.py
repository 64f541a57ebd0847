"""What surrounds one search: what its request asks beyond the policy.

overrides  the headers of a request, and the policy that they make
"""
