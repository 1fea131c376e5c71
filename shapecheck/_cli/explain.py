"""`shapecheck explain`: what the compile backend makes of one call."""

import importlib
import json
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


class _Failed(click.ClickException):
    exit_code = 2


@click.command()
@click.argument("target", metavar="MODULE:FACTORY")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write a page with the masks drawn to this file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
def command(target: str, html: Path | None, as_json: bool) -> None:
    """Show what backend="shapecheck" makes of the attentions of one call.

    FACTORY is a function without arguments in MODULE, which is imported as from a script in this folder. It returns
    (fn, args) or (fn, args, kwargs); `fn(*args, **kwargs)` is run once and explained. Exits with 2 when that fails.

    \b
    Examples:
      shapecheck explain mymodel.debug:small_batch
      shapecheck explain mymodel.debug:small_batch --html masks.html
    """
    fn, args, kwargs = _call(target)
    try:
        from shapecheck.compile_backend.explain import explain
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise _Failed("torch is not installed: pip install 'shapecheck-varlen[torch]'.") from None
    explanation = _run(f"the call that {target} returned", lambda: explain(fn, *args, **kwargs))
    if html is not None:
        try:
            explanation.to_html(html)
        except OSError as error:
            raise _Failed(f"{html}: {error.strerror}.") from None
    print(json.dumps(explanation.to_dict(), indent=2) if as_json else explanation)


def _call(target: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    module_name, _, factory_name = target.partition(":")
    if not module_name or not factory_name:
        raise click.UsageError(f"{target!r} is not MODULE:FACTORY, such as mymodel.debug:small_batch.")
    sys.path.insert(0, "")  # as `python -m` does
    module = _run(f"importing {module_name}", lambda: importlib.import_module(module_name))
    factory = getattr(module, factory_name, None)
    if factory is None:
        raise _Failed(f"{module_name} has no {factory_name}.")
    if not callable(factory):
        raise _Failed(f"{module_name}.{factory_name} is no function.")
    match _run(f"{target}()", factory):
        case (fn, (tuple() | list()) as args) if callable(fn):
            return fn, tuple(args), {}
        case (fn, (tuple() | list()) as args, dict() as kwargs) if callable(fn):
            return fn, tuple(args), kwargs
        case other:
            raise _Failed(f"{target}() returned {_shape(other)}, expected (fn, args) or (fn, args, kwargs).")


def _shape(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(one).__name__ for one in value)})"
    return f"a value of type {type(value).__name__}"


def _run(what: str, function: Callable[[], Any]) -> Any:
    """The result of the user's code; what it raises is shown with its last frame, without ours."""
    try:
        return function()
    except Exception as error:
        message = "".join(traceback.format_exception_only(error)).strip()
        raise _Failed(f"{what} failed{_where(error)}:\n{message}") from None


def _where(error: Exception) -> str:
    """The last frame that is neither ours nor of an installed package nor of Python."""
    foreign = (str(Path(__file__).parents[1]), sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), "<")
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(foreign)]
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
