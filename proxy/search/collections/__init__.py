"""What is known of collections.

learned     what replies and passing requests teach: limits, vectors, descriptions, names
paths       which string of a payload is the text, as far as one pool shows it
profiles    typical distances of a collection: measured, learned, checked for drift
statements  what the strings of a payload say besides its text
texts       where the texts of each collection are, learned from its pools
"""
