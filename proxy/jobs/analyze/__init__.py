"""The redundancy report of a collection: who is a copy of whom, how many, and what deduplication would save.

command      the command line
run          one analysis from the first request to the report
reading      ids, payloads and neighbours into arrays
state        how far a reading came, as a file
families     families of copies, and the curve over the cuts
sources      which source makes the copies
pools        what searches meet
report       what was found, as one value
conclusions  the report in sentences
terminal     the report in the terminal
page         the report as one HTML page
"""
