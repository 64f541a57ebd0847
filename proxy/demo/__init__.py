"""The demo: real text, one question asked directly and through the proxy, both answers side by side.

command     the command, from loading the corpus to the summary of all questions
corpus      the committed texts, questions and vectors; which question is asked
comparison  two answers side by side, and the summary of all questions
reasons     why each candidate is kept or left out
rendering   tables and texts
children    child processes
database    what the demo must know of a backend
qdrant, chroma, pinecone     the backends
embedded    a Qdrant-compatible server over Qdrant's embedded engine
"""
