"""Guards: rules that keep two candidates out of one cluster, however similar they are.

veto      which pairs may not share a cluster, and by which guard
subjects  names at the beginning of texts of any length
templates texts that differ in what fills the gaps of a template
figures   what a text counts: versions, dates, amounts, numbers
numerals  numbers as people write them, in one spelling
dates     dates and times of day
negation  which way a text points: negations and opposites, with their words
"""
