"""Engines carry payloads between server and clients; they know nothing of algorithms."""
