"""`vecsieve calibrate`: reads a sample of a collection, proposes a cut, and writes a profile.

command  the command, and the report
survey   the sample and its distances; the proposed cut, its effect, and the pairs around it
labels   labelled pairs: the largest cut with the wanted precision, and the calibrated rule fitted to them
"""
