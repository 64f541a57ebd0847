"""Measures VecSieve before a user's own database with a file of searches: plain, mode shadow, mode on. Read-only.

command    the command line
queries    the searches of a file
run        every search in every way, in turn; what was measured is kept, so that a run can be continued
page       the figures as text and as one HTML page
"""
