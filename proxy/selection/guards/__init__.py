"""What forbids that two candidates share a cluster, however alike they are.

figures       what a text counts: its versions, dates, amounts, numbers (dates, amounts, numerals: one kind a file)
negation      which way a text points: negated or not, and which sides of opposites it names (lexicon, opposites: the words)
veto          the two together, over pairs
"""
