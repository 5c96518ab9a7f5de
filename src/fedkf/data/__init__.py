"""Data: sources of samples, their division over clients, and the tensors that clients train on."""
