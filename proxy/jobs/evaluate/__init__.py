"""What a policy is worth on labelled data: redundancy removed, answers kept, subtopics found, time taken.

command     the command line
reading     a set's folder and its matrices
sample      the labelled sets that come with the package: a first look, known copies for the gates
contenders  the policies that are compared
searching   one query through the code that the proxy runs
judging     every answer of every contender against the labels
fitting     the calibrated rule fitted to labelled sets, and judged on sets left out
gates       acceptance gates with pass and fail
summary     figures and intervals
pictures    figures as SVG
rendering   tables, and the same for a program
"""
