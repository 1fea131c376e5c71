"""`python -m shapecheck`."""

from shapecheck._cli import main

if __name__ == "__main__":
    main(prog_name="shapecheck")
