"""`vecsieve analyze`: reports the copies in a collection, and what deduplication would save.

command      the command
run          one analysis, from the first request to the report
reading      ids, payloads and neighbours, read into arrays; an interrupted reading as a file
families     families of copies, by cut and by source
pools        the results of searches around stored points
spans        how much the chunks of a document overlap
report       the results as one value
conclusions  the report in sentences
terminal     the report in the terminal
page         the report as an HTML page
"""
