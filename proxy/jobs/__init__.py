"""Offline work on whole collections, through the official client and read-only: calibrate, analyze."""
