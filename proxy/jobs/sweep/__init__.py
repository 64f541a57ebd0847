"""`vecsieve sweep`: finds the points of a collection that are copies; with `--apply` they are deleted.

command   the command
compact   `vecsieve compact`: survivors get the payload values that they lack
run       one sweep, from the first request to the report
report    the result, as JSON and HTML
applying  deletes the copies, with a journal
event     the event `sweep-complete`, for a webhook
judging   which pairs are copies, and which point of a family stays
families  the points that say all of others, and their families; for analyze, too
deciding  which points could go, and what stays though it repeats another
"""
