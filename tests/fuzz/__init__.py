"""Coverage-guided fuzzing of everything that reads strangers' bytes; the tests here only prove that the targets can fail."""
