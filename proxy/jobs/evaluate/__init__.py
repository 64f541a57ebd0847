"""What a policy is worth on labelled data: redundancy removed, answers kept, subtopics found, time taken.

command     the command line
reading     a set's folder and its matrices
sample      the labelled set that comes with the package
contenders  the policies that are compared
searching   one query through the code that the proxy runs
judging     one answer against the labels
fitting     the calibrated rule fitted to labelled sets, and judged on sets left out
gates       acceptance gates with pass and fail
seeded      a set whose copies are known, for the gates
evaluation  every contender on every query
summary     figures and intervals
pictures    figures as SVG
rendering   tables, and the same for a program
"""
