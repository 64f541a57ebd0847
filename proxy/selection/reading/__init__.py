"""What a text says. It depends on the text alone, so it is kept by content.

bounds   how much of texts is read
outline  what two texts have in common, before they are read
marks    which marks are formatting, and which markup goes
words    the tokens of a run without blanks
lines    prose, code, and rows of tables
text     the passages of one text: tokens and sentences
memo     a cache bounded in bytes
"""
