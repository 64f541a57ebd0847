"""Measures policies on labelled data: redundancy removed, answers kept, subtopics found, time taken.

command    the command line
reading    labelled sets: from folders, and the one of the package
searching  the policies that are compared, and one query through the code that the proxy runs
judging    every answer of every contender against the labels
wording    whether a page says, in its own words, all that a dropped result says
cases      results of which a person has said which must stay
summary    figures and intervals
rendering  tables and JSON
"""
