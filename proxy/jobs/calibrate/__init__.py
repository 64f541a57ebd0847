"""`vecsieve calibrate`: reads a sample of a collection, proposes a cut, and writes a profile.

command    the command
survey     the sample and its distances
labels     labelled pairs, and the largest cut with the wanted precision
rule       the calibrated rule fitted to labelled pairs
proposal   the cut, its effect, and the pairs around it
rendering  the report
"""
