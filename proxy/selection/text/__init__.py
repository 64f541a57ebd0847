"""What texts say about candidates being copies: canonical forms, words, and the signals over them.

reading      the texts of a pool, read lazily and remembered by content
matching     which candidates are copies, and by which rule
near         the near-text signals, of which the others are one algorithm a file
"""
