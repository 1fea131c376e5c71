"""`shapecheck layout`: draws a layout. Needs no torch."""

from typing import Literal

import click

from shapecheck import _draw
from shapecheck._errors import LayoutError
from shapecheck._layout._geometry import Geometry
from shapecheck._layout._parts import Part


class _Rejected(click.ClickException):
    exit_code = 2


def _parts(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[Part, ...]:
    """NAME=SIZE, with a size such as 77 or 16x22x40."""
    parts = []
    for value in values:
        name, _, size = value.rpartition("=")
        try:
            grid = tuple(int(axis) for axis in size.split("x"))
        except ValueError:
            name = ""
        if not name:
            raise click.BadParameter(f"{value!r} is not NAME=SIZE, such as text=77 or video=16x22x40.", ctx, param)
        try:
            parts.append(Part(name, grid if len(grid) > 1 else grid[0]))
        except LayoutError as error:
            raise _Rejected(str(error)) from None
    return tuple(parts)


def _tags(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    """NAME=TAG, with an integer tag."""
    tags = {}
    for value in values:
        name, _, tag = value.rpartition("=")
        try:
            tags[name] = int(tag)
        except ValueError:
            name = ""
        if not name:
            raise click.BadParameter(f"{value!r} is not NAME=TAG, such as text=1.", ctx, param)
    return tags


def _lengths(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    """Integers, separated by commas."""
    try:
        return None if value is None else [int(length) for length in value.split(",")]
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of lengths, such as 5,3,8.", ctx, param) from None


@click.command()
@click.option("--part", "parts", multiple=True, metavar="NAME=SIZE", callback=_parts, help="Rows or grid. Repeatable.")
@click.option("--lengths", metavar="N,N,...", callback=_lengths, help="One sample per length, instead of parts.")
@click.option("--align", type=int, default=1, show_default=True, help="Round the rows up to a multiple of this.")
@click.option("--seq-len", type=int, help="Rows in all. [default: rows used, rounded up]")
@click.option(
    "--padding",
    type=click.Choice(["segment", "none"]),
    help="Whether the padding is a segment. [default: segment; none with --lengths]",
)
@click.option(
    "--tag", "tags", multiple=True, metavar="NAME=TAG", callback=_tags, help="The tag of a part's rows. Repeatable."
)
def command(
    parts: tuple[Part, ...],
    lengths: list[int] | None,
    align: int,
    seq_len: int | None,
    padding: Literal["segment", "none"] | None,
    tags: dict[str, int],
) -> None:
    """Draw a packed layout to scale.

    \b
    Examples:
      shapecheck layout --part text=77 --part video=16x22x40 --part audio=126 --align 64
      shapecheck layout --part text=77 --part video=512 --tag text=1 --tag video=0
      shapecheck layout --lengths 5,3,8 --align 16
    """
    if bool(parts) == (lengths is not None):
        raise click.UsageError("Pass either --part, once or more, or --lengths.")
    try:
        if lengths is not None:
            geometry = Geometry.from_lengths(
                lengths, align=align, seq_len=seq_len, tags=tags, padding=padding or "none"
            )
        else:
            geometry = Geometry.pack(parts, align=align, seq_len=seq_len, tags=tags, padding=padding or "segment")
    except LayoutError as error:
        raise _Rejected(str(error)) from None
    # Not click.echo: it strips colours by its own rule, and `picture` has already decided.
    print(_draw.picture(geometry))
