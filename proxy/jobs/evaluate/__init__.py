"""Measures policies on labelled data: redundancy removed, answers kept, subtopics found, time taken.

command    the command line
reading    labelled sets: from folders, and those of the package
searching  the policies that are compared, and one query through the code that the proxy runs
judging    every answer of every contender against the labels
wording    whether a page says, in its own words, all that a dropped result says
cases      results of which a person has said which must stay
gates      acceptance gates with pass and fail
summary    figures and intervals
rendering  tables, JSON, and pictures as SVG
"""
