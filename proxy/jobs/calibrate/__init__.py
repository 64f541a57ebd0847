"""`vecsieve calibrate`: how near is a copy in this collection? A sample is read, a cut proposed, a profile written.

command    the command line
survey     a sample of ids, and its distances
labels     labelled pairs, and the largest cut that is right often enough
proposal   the cut, its effect, and the pairs around it
rendering  the report
"""
