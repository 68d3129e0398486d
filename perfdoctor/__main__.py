"""`python -m perfdoctor` is `perfdoctor`."""

from perfdoctor.cli import main

if __name__ == "__main__":
    main()
