"""What a policy is worth on labelled data: redundancy removed, answers kept, subtopics found, time taken.

labelled    a labelled set: items, queries, vectors, and what each says
reading     a set's folder, every fault named by file and line; vectors reads the matrices
knn         the exact neighbours of a query
points      the items as a server writes them
upstream    an in-memory Qdrant that answers the proxy's own requests
searching   one query through the code that the proxy runs
contenders  the policies that are compared
metrics     one ranked list against the labels; alpha_ndcg is the long one
judging     one query's answer beside the plain one; columns holds those of all queries
bootstrap   intervals over queries
summary     the figures of a set, and those over all sets
evaluation  all of it, set by set
rendering   the tables; findings the same for a program
command     the command line's door
"""
