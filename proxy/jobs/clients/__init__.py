"""Collections as sources, and their complete points: read, deleted and stored again.

chroma         through its official client
milvus         through its official client
pinecone       through its official client
qdrant         over REST
search_engine  an index of OpenSearch or Elasticsearch, over REST
weaviate       over REST, for `undo` only
"""
