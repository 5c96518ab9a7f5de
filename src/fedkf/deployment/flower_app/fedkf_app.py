"""What Flower sends around: two names of the installed package, and nothing else."""

from fedkf.deployment.client import client
from fedkf.deployment.server import server

__all__ = ["client", "server"]
