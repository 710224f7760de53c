"""``python -m bertology``: the command line."""

from bertology.cli import main

if __name__ == "__main__":
    main()
