"""The demo: real text, one question asked directly and through the proxy, with both answers side by side.

command     the command, its tables and texts
corpus      the committed texts, questions and vectors; which question is asked
comparison  two answers side by side, and the summary of all questions
reasons     why each candidate is kept or left out
database    the demo's description of a backend; child processes
backends    Qdrant, Chroma and Pinecone
engine      Qdrant's embedded engine behind a few of Qdrant's REST routes
"""
