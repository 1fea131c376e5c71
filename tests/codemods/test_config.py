import pytest
from shapecheck.codemods import selection
from shapecheck.codemods.config import ConfigError, Resolver, Settings, load, project_root
from shapecheck.codemods.rule import Rule
from shapecheck.codemods.rules import all_rules
from shapecheck.codemods.selection import Layer, known_codes, selected, unknown_code

RULES = (
    Rule("VL101", "first", "stable", "", None),
    Rule("VL102", "second", "preview", "", None),
    Rule("VL110", "third", "stable", "", None),
    Rule("VL201", "fourth", "stable", "", None),
    Rule("VL902", "fifth", "stable", "", None),
)
CODES = {"VL001": "invalid-syntax", "VL901": "unused-suppression", **{rule.code: rule.name for rule in RULES}}


@pytest.fixture(autouse=True)
def codes(monkeypatch):
    monkeypatch.setattr(selection, "known_codes", lambda: CODES)


def codes_in(text):
    return set(text.split())


def chosen(*layers, preview=False):
    return {code.removeprefix("VL") for code in selected(RULES, [Layer(**layer) for layer in layers], preview=preview)}


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ({}, "001 101 110 201"),
        ({"select": ("VL",)}, "001 101 110 201"),
        ({"select": ("VL1",)}, "001 101 110"),
        ({"select": ("VL10",)}, "001 101"),
        ({"select": ("VL102",)}, "001 102"),
        ({"select": ("second",)}, "001 102"),
        ({"select": ("VL9",)}, "001 901 902"),
        ({"select": ("fifth",)}, "001 902"),
        ({"select": ("ALL",)}, "001 101 102 110 201 901 902"),
        ({"extend": ("VL9",)}, "001 101 110 201 901 902"),
        ({"extend": ("VL102",)}, "001 101 102 110 201"),
        ({"ignore": ("VL1",)}, "001 201"),
        ({"ignore": ("third",)}, "001 101 201"),
        ({"select": ("VL",), "ignore": ("VL1",)}, "001 201"),
        ({"select": ("VL101",), "ignore": ("VL1",)}, "001 101"),
        ({"select": ("VL1",), "ignore": ("VL101",)}, "001 110"),
        ({"select": ("VL101",), "ignore": ("first",)}, "001"),
        ({"select": ("VL1",), "ignore": ("VL1",)}, "001"),
        ({"select": ("ALL",), "ignore": ("VL",)}, ""),
        ({"select": ("VL1",), "extend": ("VL2",), "ignore": ("ALL",)}, "101 110 201"),
        ({"ignore": ("VL001",)}, "101 110 201"),
        ({"select": ("VL1",), "ignore": ("invalid-syntax",)}, "101 110"),
    ],
)
def test_selection(layer, expected):
    assert chosen(layer) == codes_in(expected)


def test_preview_rules_join_prefixes_and_the_default():
    assert chosen({}, preview=True) == codes_in("001 101 102 110 201")
    assert chosen({"select": ("VL10",)}, preview=True) == codes_in("001 101 102")


def test_the_command_line_wins_over_the_settings():
    assert chosen({"ignore": ("VL101",)}, {"select": ("VL1",)}) == codes_in("001 101 110")
    assert chosen({"select": ("VL1",)}, {"ignore": ("VL101",)}) == codes_in("001 110")
    assert chosen({"select": ("VL1",)}, {"extend": ("VL201",)}) == codes_in("001 101 110 201")
    assert chosen({"ignore": ("VL101",)}, {"extend": ("VL1",)}) == codes_in("001 101 110 201")


@pytest.mark.parametrize("spec", ["ALL", "VL", "VL1", "VL20", "VL902", "second", "VL001"])
def test_known_codes(spec):
    assert unknown_code(spec) is None


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("VL103", "did you mean 'VL1"),
        ("VL3", "unknown rule 'VL3'"),
        ("vl101", "did you mean 'VL101'"),
        ("secnod", "did you mean 'second'"),
        ("all", "did you mean 'ALL'"),
        ("E501", "expected a code such as"),
        ("", "expected a code"),
    ],
)
def test_unknown_codes_get_a_hint(spec, hint):
    assert hint in unknown_code(spec)


def test_the_modules_of_the_rules_are_called_as_the_rules(monkeypatch):
    monkeypatch.undo()
    codes = known_codes()
    assert {rule.code: rule.name for rule in all_rules()}.items() <= codes.items()
    assert len(codes) <= len(all_rules()) + 2


FULL = """
select = ["VL1", "ALL"]
ignore = ["VL101"]
extend-select = ["VL901"]
extend-ignore = ["third"]
preview = true
per-file-ignores = { "tests/**" = ["VL1"] }
exclude = ["old"]
extend-exclude = ["gen/"]
respect-gitignore = false
output-format = "concise"
baseline = "known.json"
cache-dir = ".cache"
sinks = [{ callee = "attend" }]
names = { bounds = ["offs"] }
"""


def test_all_keys(tmp_path):
    path = tmp_path / "shapecheck.toml"
    path.write_text(FULL)
    assert load(path) == Settings(
        tmp_path,
        path,
        Layer(("VL1", "ALL"), ("VL901",), ("VL101", "third")),
        preview=True,
        per_file_ignores=(("tests/**", ("VL1",)),),
        exclude=("old",),
        extend_exclude=("gen/",),
        respect_gitignore=False,
        output_format="concise",
        baseline=tmp_path / "known.json",
        cache_dir=tmp_path / ".cache",
        extra={"sinks": [{"callee": "attend"}], "names": {"bounds": ["offs"]}},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("selct = []", "unknown key 'selct': did you mean 'select'?"),
        ("zzz = []", "unknown key 'zzz': known keys: select, ignore"),
        ('select = "VL1"', "select must be a list of strings, not 'VL1'"),
        ("select = [1]", "select must be a list of strings"),
        ('ignore = ["VL999"]', "ignore: unknown rule 'VL999'"),
        ('preview = "yes"', "preview must be true or false, not 'yes'"),
        ('per-file-ignores = ["a"]', "per-file-ignores must be a table"),
        ('per-file-ignores = { a = ["VL3"] }', "per-file-ignores.'a': unknown rule 'VL3'"),
        ('output-format = "xml"', "output-format must be one of full, concise"),
        ("baseline = 1", "baseline must be a string, not 1"),
        ("sinks = [1]", "sinks must be a list of tables"),
        ("names = []", "names must be a table"),
        ("select = [", "not valid TOML"),
        ("x = '\ud800'", "not valid TOML"),
    ],
)
@pytest.mark.parametrize("name", ["shapecheck.toml", "pyproject.toml"])
def test_wrong_settings_name_file_and_key(tmp_path, name, text, message):
    header = "[tool.shapecheck]\n" if name == "pyproject.toml" else ""
    (tmp_path / name).write_text(header + text, errors="surrogatepass")
    for read in (lambda: load(tmp_path / name), lambda: Resolver(tmp_path).of_folder(str(tmp_path))):
        with pytest.raises(ConfigError) as caught:
            read()
        assert message in str(caught.value)
        assert name in str(caught.value)
        assert ("[tool.shapecheck]" in str(caught.value)) == (bool(header) and "TOML" not in message)


def test_the_nearest_settings_win_and_nothing_is_merged(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.shapecheck]\nselect = ["VL1"]\npreview = true\n')
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/pyproject.toml").write_text('[project]\nname = "shapecheck-user"\n')
    (tmp_path / "a/b/shapecheck.toml").write_text('ignore = ["VL101"]\n')
    resolver = Resolver(tmp_path)
    assert resolver.of_folder(str(tmp_path / "a")) == load(tmp_path / "pyproject.toml")
    assert resolver.of_folder(str(tmp_path / "a/b")) == load(tmp_path / "a/b/shapecheck.toml")
    assert not resolver.of_folder(str(tmp_path / "a/b")).preview


def test_in_one_folder_the_hidden_file_wins(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.shapecheck]\nunknown = 1\n")
    (tmp_path / "shapecheck.toml").write_text("unknown = 1\n")
    (tmp_path / ".shapecheck.toml").write_text("preview = true\n")
    assert Resolver(tmp_path).of_folder(str(tmp_path)).preview


def test_each_file_is_read_once(tmp_path):
    path = tmp_path / "shapecheck.toml"
    path.write_text("preview = true\n")
    (tmp_path / "a").mkdir()
    resolver = Resolver(tmp_path)
    first = resolver.of_folder(str(tmp_path / "a"))
    path.write_text("preview = false\n")
    assert resolver.of_folder(str(tmp_path)) is first


def test_fixed_settings_apply_everywhere(tmp_path):
    (tmp_path / "shapecheck.toml").write_text("unknown = 1\n")
    fixed = Settings(tmp_path, preview=True)
    assert Resolver(tmp_path, fixed).of_folder(str(tmp_path)) is fixed


def test_settings_given_by_name_must_be_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "no.toml")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(ConfigError, match=r"no table \[tool.shapecheck\]"):
        load(tmp_path / "pyproject.toml")


def test_project_root(tmp_path):
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/.git").mkdir()
    assert project_root(tmp_path / "a/b/c") == tmp_path / "a"
    (tmp_path / "a/b/pyproject.toml").touch()
    assert project_root(tmp_path / "a/b/c") == tmp_path / "a/b"
