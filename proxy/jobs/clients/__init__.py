"""Collections as sources, and their complete points: read, deleted and stored again.

chroma         over REST
milvus         through its official client
pinecone       over REST
qdrant         over REST
search_engine  an index of OpenSearch or Elasticsearch, over REST
weaviate       over REST, for `undo` only
"""
