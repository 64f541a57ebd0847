"""What is known of collections.

learned   what replies and passing requests teach: limits, vectors, descriptions, names
profiles  typical distances of a collection: measured, learned, checked for drift
"""
