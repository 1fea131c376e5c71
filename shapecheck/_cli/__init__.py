"""The command `shapecheck`. Each command lives in a module of its own, imported when it is run."""

import importlib

import click

_COMMANDS = ("doctor", "explain", "layout", "lint", "rule")  # a command is `command` in the module of its name


class _Lazy(click.Group):
    """Imports a command when it is asked for: `layout` shall not pay for what `doctor` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"shapecheck._cli.{cmd_name}").command
        return command


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"shapecheck {installed_version() or 'unknown (not installed)'}")
        ctx.exit()


def installed_version() -> str | None:
    """The version of the installed distribution; None when the code runs from a source tree."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("shapecheck-varlen")
    except PackageNotFoundError:
        return None


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def main() -> None:
    """Packed-sequence contracts for PyTorch.

    \b
    Examples:
      shapecheck layout --part text=77 --part video=16x22x40 --part audio=126 --align 64
      shapecheck layout --lengths 5,3,8
      shapecheck doctor
      shapecheck explain mymodel.debug:small_batch --html masks.html
      shapecheck lint src
    """
