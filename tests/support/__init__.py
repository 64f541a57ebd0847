"""What tests share, in rooms by subject.

qdrant      a scripted Qdrant, its model, its embedded engine, and conversations with it
pinecone    Pinecone's model and emulator, its messages, and conversations with it
weaviate    Weaviate's model and emulator, its messages, its own client, and conversations with it
milvus      Milvus Lite, its messages, its model, and conversations with it
opensearch  the model of OpenSearch and Elasticsearch, and conversations with it
chroma      the real Chroma server, its model, and conversations with it
backends    what several databases are tested with: one write of each, one ranking of each, a toy backend
exchanges   requests and answers that are drawn, recorded or damaged
grpc        gRPC and HTTP/2: clients, servers, frames, a splice
network     sockets, ports, certificates; upstreams that are scripts
process     processes of the product and of others, the clocks and loops they run on
selection   pools, texts, policies and oracles
jobs        collections and labelled sets of the offline commands
deploy      manifests, the Dockerfile, Prometheus and Grafana
sources     the source of the product as syntax trees
"""
