"""Every major of Pinecone's clients, each in an environment of its own, directly and through the proxy: `make clients`."""
