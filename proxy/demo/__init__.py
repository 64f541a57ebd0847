"""The demo: real text, one question asked directly and through the proxy, both answers side by side."""
