"""`python -m tidegate.cli`."""

from tidegate.cli import main

main()
