"""`python -m fedkf`."""

from fedkf.cli import main

main()
