"""What Flower sends around: two names of the installed package, and nothing else."""

from fedkf.flower.client import client
from fedkf.flower.server import server

__all__ = ["client", "server"]
