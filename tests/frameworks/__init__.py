"""What retrieval frameworks write, recorded with the real libraries: `make frameworks`."""
