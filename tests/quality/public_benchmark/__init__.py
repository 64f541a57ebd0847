"""chunking_evaluation (Smith and Troynikov 2024, MIT) through real servers: what reaches the reader plainly, by MMR in the client, and through VecSieve.

corpora    corpora, questions with their excerpts, chunks and their embeddings
scores     what a page says of the excerpts: by position, as published, and by content
arms       the ways to a page: servers, proxies, MMR
tables     means with intervals, and the tables
"""
