"""Collections as sources, and their complete points: read, deleted and stored again.

chroma         through its official client
milvus         through its official client
pinecone       through its official client
search_engine  an index of OpenSearch or Elasticsearch, over REST
"""
