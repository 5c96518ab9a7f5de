"""Algorithms, payloads, clients, server and the round loop; needs torch, numpy and safetensors."""
