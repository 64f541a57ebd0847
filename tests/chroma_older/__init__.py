"""A Chroma of before 0.6, server and client in an environment of their own, directly and through the proxy: `make clients`."""
