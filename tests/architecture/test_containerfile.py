"""The Containerfile, as far as it can be read without building: what goes in, and who runs it."""

import fnmatch
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import pytest

import outside
import tree
from mainstay import __version__
from mainstay.cli.main import COMMANDS

WHEEL: Final = f"dist/mainstay-{__version__}-py3-none-any.whl"
"""What `make wheel` makes for an image; it is not there in a fresh clone."""

SUBSTITUTION: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}|\$(\w+)")


class Step(NamedTuple):
    """One instruction."""

    word: str
    rest: str


def steps(text: str) -> list[Step]:
    """The instructions, in order; one that goes on over several lines is one."""
    bare = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(bare))
    parted = [line.partition(" ") for line in joined.splitlines()]
    return [Step(word, rest.strip()) for word, _, rest in parted]


def told(given: Iterable[Step], word: str) -> list[str]:
    """What stands behind each instruction of that name."""
    return [step.rest for step in given if step.word == word]


def arguments(given: Iterable[Step]) -> dict[str, str]:
    """Build arguments with their defaults; empty where there is none."""
    pairs = [pair.partition("=") for rest in told(given, "ARG") for pair in shlex.split(rest)]
    return {name: value for name, _, value in pairs}


def variables(given: Iterable[Step]) -> dict[str, str]:
    """What is in the environment of whatever runs."""
    pairs = [pair.partition("=") for rest in told(given, "ENV") for pair in shlex.split(rest)]
    return {name: value for name, _, value in pairs}


def filled(text: str, values: Mapping[str, str]) -> str:
    """With the values put in, as a build does it."""
    return SUBSTITUTION.sub(lambda found: values.get(found[1] or found[3]) or found[2] or "", text)


def sources(given: Iterable[Step], values: Mapping[str, str]) -> list[str]:
    """The patterns of what is copied from the clone."""
    copied = [filled(rest, values).split() for rest in told(given, "COPY")]
    return [name for words in copied if not words[0].startswith("--from=") for name in words[:-1]]


def is_let_in(path: str, ignored: str) -> bool:
    """Whether a build sees the file, by .dockerignore: the last line that matches decides."""
    let_in = True
    for line in ignored.splitlines():
        rule = line.removeprefix("!")
        if line and not line.startswith("#") and (rule == "*" or fnmatch.fnmatch(path, rule)):
            let_in = line.startswith("!")
    return let_in


def absent(patterns: Iterable[str], there: Iterable[str]) -> list[str]:
    """The patterns that no file matches: a build ends there."""
    known = list(there)
    return [pattern for pattern in patterns if not fnmatch.filter(known, pattern)]


def lost(given: list[Step]) -> list[str]:
    """What is run after the volume is declared: what it writes there is in no image."""
    declared = next((at for at, step in enumerate(given) if step.word == "VOLUME"), len(given))
    return told(given[declared:], "RUN")


OURS: Final = steps((outside.ROOT / "Containerfile").read_text())
IGNORED: Final = (outside.ROOT / ".dockerignore").read_text()


@pytest.fixture(scope="module")
def there() -> list[str]:
    """Files of a clone in which `make wheel` has run."""
    return [WHEEL, *map(str, tree.files())]


class TestWhatGoesIn:
    @pytest.mark.needs("git")
    @pytest.mark.parametrize("version", [__version__, ""])
    def test_everything_that_is_copied_is_in_the_clone_or_made_by_make_wheel(
        self, version: str, there: list[str]
    ) -> None:
        copied = sources(OURS, {**arguments(OURS), "VERSION": version})

        assert len(copied) == 2
        assert absent(copied, [path for path in there if is_let_in(path, IGNORED)]) == []

    @pytest.mark.needs("git")
    def test_a_build_is_sent_nothing_else(self, there: list[str]) -> None:
        assert [path for path in there if is_let_in(path, IGNORED)] == [WHEEL, "requirements.lock"]

    def test_the_python_is_one_that_we_test(self) -> None:
        base = filled(told(OURS, "FROM")[-1], arguments(OURS))
        python = re.match(r"python:(3\.\d+)-", base)

        assert python is not None, base
        said = tree.project()["project"]["classifiers"]
        assert f"Programming Language :: Python :: {python[1]}" in said

    def test_the_lock_is_all_that_is_installed_and_is_seen_to_be_enough(self) -> None:
        runs = told(OURS, "RUN")
        locked = [line for line in runs if "requirements.lock" in line]

        assert ["--no-deps" in line and "--require-hashes" in line for line in locked] == [True]
        assert [line for line in runs if "--no-index" in line and "&& pip check" in line] != []

    def test_what_only_building_needs_is_taken_out_again(self) -> None:
        extras = tree.project()["project"]["optional-dependencies"]["build"]
        taken = [line.partition("pip uninstall --yes ")[2] for line in told(OURS, "RUN")]

        names = sorted(re.split(r"[<>=]", extra)[0] for extra in extras)
        assert " ".join(filter(None, taken)).split() == names


class TestWhoRunsIt:
    def test_it_is_a_user_by_number_that_is_made_and_is_not_root(self) -> None:
        user = told(OURS, "USER")[-1]

        assert int(user) > 0
        assert [line for line in told(OURS, "RUN") if f"useradd --uid {user} " in line] != []

    def test_what_it_keeps_is_in_the_volume(self) -> None:
        environment = variables(OURS)

        assert told(OURS, "VOLUME") == [environment["MAINSTAY_HOME"]]
        assert environment["HOME"] == environment["MAINSTAY_HOME"]

    def test_nothing_is_run_after_the_volume_is_declared(self) -> None:
        assert lost(OURS) == []

    def test_it_runs_a_command_of_ours(self) -> None:
        (entry,) = json.loads(told(OURS, "ENTRYPOINT")[-1])
        (command,) = json.loads(told(OURS, "CMD")[-1])

        assert entry in tree.project()["project"]["scripts"]
        assert command in COMMANDS


@pytest.mark.needs("make")
def test_who_has_no_engine_is_told_so_before_anything_is_built() -> None:
    ended = outside.run(["make", "--silent", "image", "ENGINE="])

    assert ended.returncode != 0
    assert ended.stdout == ""
    assert "no docker, podman or buildah answers" in ended.stderr.splitlines()[0]


class TestReading:
    def test_an_instruction_over_several_lines_is_one_and_comments_are_none(self) -> None:
        text = "# why\nRUN a \\\n    && b\n\nUSER 7\n"

        assert steps(text) == [Step("RUN", "a && b"), Step("USER", "7")]

    def test_values_are_put_in_as_a_build_does_it(self) -> None:
        assert filled("a-${V:-*}-$N", {"V": "", "N": "n"}) == "a-*-n"
        assert filled("${V:-*}", {"V": "1.0"}) == "1.0"

    def test_a_source_that_is_not_there_is_seen(self) -> None:
        given = steps("COPY --from=build /x /x\nCOPY a.lock dist/*.whl /tmp/\n")

        assert sources(given, {}) == ["a.lock", "dist/*.whl"]
        assert absent(sources(given, {}), ["a.lock", "dist/x.tar.gz"]) == ["dist/*.whl"]

    def test_the_last_line_that_matches_decides_what_a_build_sees(self) -> None:
        assert is_let_in("a", "")
        assert not is_let_in("a/b", "*\n")
        assert is_let_in("dist/a.whl", "# why\n*\n!dist/*.whl\n")
        assert not is_let_in("dist/a.tar.gz", "*\n!dist/*.whl\n")

    def test_what_is_run_too_late_is_seen(self) -> None:
        given = steps("RUN a\nVOLUME /v\nRUN b\n")

        assert lost(given) == ["b"]
        assert lost(given[:1]) == []
