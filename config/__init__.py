"""What a user may set: frozen models, every default once with its reason."""
