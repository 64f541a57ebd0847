"""`vecsieve calibrate`: reads a sample of a collection, proposes a cut, and writes a profile.

command  the command, and the report
survey   the sample and its distances; the proposed cut, its effect, and the pairs around it
"""
