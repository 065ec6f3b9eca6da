"""`python -m clew_daemon`: the command line."""

from clew_daemon.cli import main

if __name__ == "__main__":
    main()
