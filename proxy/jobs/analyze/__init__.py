"""`vecsieve analyze`: reports the copies in a collection, and what deduplication would save.

command    the command, and the report in the terminal
run        one analysis, from the first request to the report
reading    near pairs, exact copies and sources of a collection, by sketches; of a sample, by searches
families   families of copies, by cut and by source
pools      the results of searches around stored points; how much the chunks of a document overlap
report     the results as one value, as JSON, and in sentences
page       the report as an HTML page
"""
