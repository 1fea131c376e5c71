import io
import logging
import re
import sys
from dataclasses import replace

import pytest
from shapecheck.compile_backend import log
from shapecheck.compile_backend.report import Report, Site

SITE = Site(
    name="attn",
    form="sdpa",
    location="model.py:42",
    q="[1]",
    k="[1]",
    v="[1]",
    dtype="float32",
    device="cpu",
    mask="none",
)
LOWERED = replace(SITE, mask="ids", lowered=True)


@pytest.fixture(autouse=True)
def untouched(monkeypatch):
    """The logger as a new process has it, and afterwards as it was."""
    monkeypatch.delenv("SHAPECHECK_LOGS", raising=False)
    monkeypatch.setattr(log.LOGGER, "handlers", [])
    monkeypatch.setattr(log.LOGGER, "propagate", True)
    level = log.LOGGER.level
    log.LOGGER.setLevel(logging.NOTSET)
    yield
    log.LOGGER.setLevel(level)


@pytest.fixture
def messages():
    """What the program's own handler gets."""
    found = []

    class Collect(logging.Handler):
        def emit(self, record):
            found.append((record.levelname, record.getMessage()))

    log.LOGGER.addHandler(Collect())
    return found


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (Report([LOWERED, LOWERED, SITE], seconds=0.0123), "2 of 3 attentions lowered, 12 ms"),
        (Report([LOWERED], seconds=0.5), "1 of 1 attention lowered, 500 ms"),
        (Report(seconds=0.001), "no attention found, 1 ms"),
        (Report(failure="TypeError: odd", seconds=0.002), "graph left as it is, 2 ms: TypeError: odd"),
    ],
)
def test_a_line_for_each_graph(messages, report, line):
    log.LOGGER.setLevel(logging.INFO)
    log.report(report)
    assert messages == [("INFO", line)]


def test_the_sites_at_debug(messages):
    log.LOGGER.setLevel(logging.DEBUG)
    log.report(Report([LOWERED, SITE.refused("no mask")]))
    (_, line), (level, table) = messages
    assert line == "1 of 2 attentions lowered, 0 ms"
    assert level == "DEBUG"
    assert "\n1  sdpa float32 on cpu: attn\n" in table
    assert "\n  left         no mask\n" in table


def test_nothing_without_being_asked(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    log.configure()
    log.report(Report([LOWERED]))
    assert (log.LOGGER.handlers, log.LOGGER.propagate, stderr.getvalue()) == ([], True, "")


@pytest.mark.parametrize(
    ("setting", "table"),
    [("compile", False), ("+compile", True), (" compile , +compile", True), ("+compile,compile", True)],
)
def test_the_variable_prints_to_stderr(monkeypatch, setting, table):
    monkeypatch.setenv("SHAPECHECK_LOGS", setting)
    for _ in range(2):  # however often the backend starts, and wherever stderr points by then
        stderr = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stderr)
        log.configure()
        log.report(Report([LOWERED]))
        lines = stderr.getvalue().splitlines()
        assert lines[0].endswith(" [shapecheck.compile_backend] 1 of 1 attention lowered, 0 ms")
        assert (len(lines) > 1) == table
    assert not log.LOGGER.propagate  # else a handler of the root logger prints it again


def test_a_level_that_the_program_sets_later_stays(monkeypatch):
    monkeypatch.setenv("SHAPECHECK_LOGS", "+compile")
    log.configure()
    log.LOGGER.setLevel(logging.ERROR)
    log.configure()
    assert log.LOGGER.level == logging.ERROR


@pytest.mark.parametrize(
    ("setting", "name"), [("all", "all"), ("compile,-compile", "-compile"), ("Compile", "Compile")]
)
def test_unknown_names(monkeypatch, setting, name):
    monkeypatch.setenv("SHAPECHECK_LOGS", setting)
    message = f"SHAPECHECK_LOGS={setting!r}: {name!r} is unknown, expected one of compile, +compile"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        log.configure()
    assert log.LOGGER.handlers == []


@pytest.mark.parametrize("setting", ["", " ", ","])
def test_empty_settings(monkeypatch, setting):
    monkeypatch.setenv("SHAPECHECK_LOGS", setting)
    log.configure()
    assert log.LOGGER.handlers == []
