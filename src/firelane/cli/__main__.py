"""`python -m firelane.cli`."""

from firelane.cli import main

if __name__ == "__main__":
    main()
