"""What is known of collections.

learned   what replies and passing requests teach: limits, vectors, descriptions, names
profiles  thresholds of a collection: calibrated, learned, checked for drift
"""
