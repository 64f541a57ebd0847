"""The demo: real text, one question asked directly and through the proxy, both answers side by side.

command       the command line
story         load, ask, compare, add up
corpus        the committed texts, questions and vectors; which question is asked
comparison    two answers laid side by side, and what all of them show
reasons       why each candidate stays or goes
rendering     what is printed
children      the demo's own processes
database      what the demo must know of a backend
qdrant, chroma, pinecone     the backends
embedded      a Qdrant-compatible server over the engine Qdrant ships
build_corpus  builds the committed data; run by hand
"""
