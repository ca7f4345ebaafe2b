"""Settings: built in, then file, then environment, then flag; nothing unknown is let through."""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mainstay.config import load
from mainstay.config.load import Loaded, Origin, Sources
from mainstay.config.up import UpConfig
from mainstay.model.errors import Rejected


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """One field of each kind."""

    name: str = "a"
    count: int = 1
    share: float = 0.5
    enabled: bool = False
    names: tuple[str, ...] = ()


def loaded(
    file: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    **flags: object,
) -> Loaded[Kinds]:
    sources = Sources({"kinds": file or {}}, environment or {})
    return load.load("kinds", Kinds, sources, flags)


class TestPrecedence:
    """Each source wins over those before it."""

    def test_the_built_in_value_is_used_when_nothing_is_said(self) -> None:
        config, origins = loaded()

        assert config == Kinds()
        assert set(origins.values()) == {Origin.BUILT_IN}

    def test_the_file_wins_over_the_built_in_value(self) -> None:
        config, origins = loaded({"count": 2})

        assert (config.count, origins["count"]) == (2, Origin.FILE)
        assert origins["name"] == Origin.BUILT_IN

    def test_the_environment_wins_over_the_file(self) -> None:
        config, origins = loaded({"count": 2}, {"MAINSTAY_KINDS_COUNT": "3"})

        assert (config.count, origins["count"]) == (3, Origin.ENVIRONMENT)

    def test_a_flag_wins_over_everything(self) -> None:
        config, origins = loaded({"count": 2}, {"MAINSTAY_KINDS_COUNT": "3"}, count=4)

        assert (config.count, origins["count"]) == (4, Origin.FLAG)

    def test_a_flag_that_was_not_given_wins_over_nothing(self) -> None:
        config, origins = loaded({"count": 2}, count=None)

        assert (config.count, origins["count"]) == (2, Origin.FILE)

    def test_a_flag_of_nothing_but_zero_is_given(self) -> None:
        assert loaded({"count": 2}, count=0).config.count == 0


class TestKinds:
    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("name", "x y", "x y"),
            ("count", "-3", -3),
            ("share", "1", 1.0),
            ("enabled", "true", True),
            ("enabled", "False", False),
        ],
    )
    def test_text_of_the_environment_becomes_the_kind_of_its_field(
        self, name: str, text: str, value: object
    ) -> None:
        config = loaded(environment={f"MAINSTAY_KINDS_{name.upper()}": text}).config

        assert getattr(config, name) == value
        assert type(getattr(config, name)) is type(value)

    @pytest.mark.parametrize(
        ("name", "text"),
        [("count", "many"), ("count", "1.5"), ("count", ""), ("share", "x"), ("enabled", "yes")],
    )
    def test_text_of_the_wrong_kind_is_refused(self, name: str, text: str) -> None:
        with pytest.raises(Rejected, match=f"wrong kind of value for {name}: '{text}'"):
            loaded(environment={f"MAINSTAY_KINDS_{name.upper()}": text})

    @pytest.mark.parametrize(
        ("name", "value"),
        [("name", 1), ("count", "1"), ("count", 1.0), ("count", True), ("share", "1"),
         ("share", True), ("enabled", 1), ("enabled", "true"), ("count", [1])],
    )  # fmt: skip
    def test_a_value_of_the_wrong_kind_in_the_file_is_refused(
        self, name: str, value: object
    ) -> None:
        with pytest.raises(Rejected, match=f"wrong kind of value for {name}: "):
            loaded({name: value})

    @pytest.mark.parametrize(
        ("text", "value"),
        [("a=b:1,c", ("a=b:1", "c")), (" a , b ,", ("a", "b")), ("", ()), (",", ())],
    )
    def test_a_list_has_commas_in_the_environment(self, text: str, value: object) -> None:
        assert loaded(environment={"MAINSTAY_KINDS_NAMES": text}).config.names == value

    def test_a_list_is_an_array_in_the_file(self) -> None:
        config, origins = loaded({"names": ["a", "b, c"]})

        assert (config.names, origins["names"]) == (("a", "b, c"), Origin.FILE)

    @pytest.mark.parametrize("value", ["a", 1, [1], ["a", 1], [["a"]], {"a": "b"}])
    def test_a_list_of_anything_but_texts_is_refused(self, value: object) -> None:
        with pytest.raises(
            Rejected, match=r"wrong kind of value for names: .* \(a list of texts\)"
        ):
            loaded({"names": value})

    def test_a_list_from_flags_wins_when_there_is_anything_in_it(self) -> None:
        assert loaded({"names": ["a"]}, names=["b", "c"]).config.names == ("b", "c")
        assert loaded({"names": ["a"]}, names=[]).config.names == ("a",)

    def test_a_whole_number_will_do_for_a_fraction_in_the_file(self) -> None:
        assert loaded({"share": 1}).config.share == 1.0


def read(directory: Path, text: str | bytes | None = None, **variables: str) -> Sources:
    if text is not None:
        content = text.encode() if isinstance(text, str) else text
        (directory / "mainstay.toml").write_bytes(content)
    return load.read_sources(variables, directory)


class TestEnvironment:
    def test_variables_that_are_not_ours_are_let_be(self, tmp_path: Path) -> None:
        assert read(tmp_path, PATH="/bin", MAINSTAYS="x").environment == {}

    def test_an_unknown_variable_of_ours_is_refused(self, tmp_path: Path) -> None:
        """A typing error must not run with the default."""
        with pytest.raises(Rejected, match="unknown setting in the environment: MAINSTAY_UP_SEEDS"):
            read(tmp_path, MAINSTAY_UP_SEEDS="1")

    @pytest.mark.parametrize("name", sorted(load.OUTSIDE_SETTINGS - {load.FILE_VARIABLE}))
    def test_variables_that_name_places_and_modes_are_known(
        self, name: str, tmp_path: Path
    ) -> None:
        assert read(tmp_path, **{name: "x"}).environment == {name: "x"}

    def test_every_setting_has_its_name_in_the_environment(self, tmp_path: Path) -> None:
        sources = read(tmp_path, MAINSTAY_UP_FLEET="50")

        assert load.load("up", UpConfig, sources, {}).config.fleet == 50


class TestOneSetting:
    def test_what_is_said_of_it_is_known_whatever_its_section_is_worth(
        self, tmp_path: Path
    ) -> None:
        """`joins` alone is refused of a shard, which may be given the rest by flags."""
        sources = read(tmp_path, "[shard]\njoins = true\n", MAINSTAY_SHARD_AUDIT_DIR="a")

        assert load.said("shard", "joins", sources) == (True, Origin.FILE)
        assert load.said("shard", "audit_dir", sources) == ("a", Origin.ENVIRONMENT)
        assert load.said("shard", "insecure", sources) is None


class TestHandingOn:
    def test_whoever_runs_elsewhere_reads_the_same_file_and_the_same_settings(
        self, tmp_path: Path
    ) -> None:
        told = {"MAINSTAY_WORLD_SHARE": "0.9", "MAINSTAY_SERVER": "http://h:1", "MAINSTAY_KEY": "k"}

        handed = read(tmp_path, "[world]\ngang = 3\n", **told).handed_on()

        assert handed == {
            "MAINSTAY_WORLD_SHARE": "0.9", "MAINSTAY_CONFIG": str(tmp_path / "mainstay.toml"),
        }  # fmt: skip

    def test_without_a_file_there_is_none_to_name(self, tmp_path: Path) -> None:
        assert read(tmp_path).handed_on() == {}


class TestFile:
    def test_without_a_file_nothing_is_said(self, tmp_path: Path) -> None:
        assert read(tmp_path).file == {}

    def test_the_file_of_the_working_directory_is_read(self, tmp_path: Path) -> None:
        assert read(tmp_path, "[up]\nseed = 3\n").file == {"up": {"seed": 3}}

    def test_a_file_that_was_named_is_read_instead(self, tmp_path: Path) -> None:
        other = tmp_path / "other.toml"
        other.write_text("[up]\nseed = 4\n")

        sources = read(tmp_path, "[up]\nseed = 3\n", MAINSTAY_CONFIG=str(other))

        assert sources.file == {"up": {"seed": 4}}

    def test_a_file_that_a_flag_names_is_read_instead_of_any_other(self, tmp_path: Path) -> None:
        for seed, name in enumerate(("mainstay.toml", "named.toml", "flag.toml")):
            (tmp_path / name).write_text(f"[up]\nseed = {seed}\n")
        variables = {"MAINSTAY_CONFIG": str(tmp_path / "named.toml")}

        sources = load.read_sources(variables, tmp_path, file=str(tmp_path / "flag.toml"))

        assert sources.file == {"up": {"seed": 2}}

    def test_the_file_at_home_is_read_when_the_working_directory_has_none(
        self, tmp_path: Path
    ) -> None:
        home, here = tmp_path / "home", tmp_path / "here"
        for folder in (home, here):
            folder.mkdir()
        (home / "mainstay.toml").write_text("[up]\nseed = 5\n")
        read_here = partial(read, here, MAINSTAY_HOME=str(home))

        assert read_here().file == {"up": {"seed": 5}}
        assert read_here("[up]\nseed = 3\n").file == {"up": {"seed": 3}}

    def test_a_home_that_may_not_be_looked_into_has_no_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Root may look everywhere, so the system is told to refuse."""
        home, asked, stat = tmp_path / "home", [], os.stat

        def refusing(path: Any, *more: Any, **named: Any) -> os.stat_result:
            if str(path).startswith(str(home)):
                asked.append(path)
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return stat(path, *more, **named)

        monkeypatch.setattr(os, "stat", refusing)
        sources = load.read_sources({"MAINSTAY_HOME": str(home)}, tmp_path)

        assert (sources.file, sources.path) == ({}, None)
        assert [str(path) for path in asked] == [str(home / "mainstay.toml")]

    def test_a_file_that_a_flag_names_must_be_there(self, tmp_path: Path) -> None:
        with pytest.raises(Rejected, match=r"cannot read the settings file: .*gone\.toml: No such"):
            load.read_sources({}, tmp_path, file=str(tmp_path / "gone.toml"))

    def test_a_file_that_was_named_must_be_there(self, tmp_path: Path) -> None:
        with pytest.raises(Rejected, match=r"cannot read the settings file: .*gone\.toml: No such"):
            read(tmp_path, MAINSTAY_CONFIG=str(tmp_path / "gone.toml"))

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("[upp]\n", "unknown section in .*mainstay.toml: upp"),
            ("seed = 3\n", "unknown section in .*mainstay.toml: seed"),
            ("up = 3\n", "not a section in .*mainstay.toml: up"),
            ("[up]\nseeds = 3\n", "unknown setting in .*mainstay.toml: up.seeds"),
        ],
    )
    def test_an_unknown_name_is_refused(self, text: str, complaint: str, tmp_path: Path) -> None:
        with pytest.raises(Rejected, match=complaint):
            read(tmp_path, text)

    @pytest.mark.parametrize("text", ["[up\n", "seed\n", "a = 1\na = 2\n", b"\xff\xfe"])
    def test_what_is_not_toml_is_refused_in_one_line(
        self, text: str | bytes, tmp_path: Path
    ) -> None:
        with pytest.raises(Rejected, match="not a TOML file: ") as refused:
            read(tmp_path, text)

        assert "\n" not in refused.value.message
        assert "mainstay.toml" in refused.value.message
