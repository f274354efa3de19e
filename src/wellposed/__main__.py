"""``python -m wellposed`` is the command ``wellposed``."""

from wellposed.cli import main

if __name__ == "__main__":
    main()
