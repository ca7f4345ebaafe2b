"""The reader of our pages sees what is wrong with a page."""

from pathlib import Path

import pytest

import pages

EXAMPLE = """\
# Title

```sh run
echo one
echo two
```

```text output
one
t...o
```

```sh
not run
```
"""


class TestExamples:
    def test_only_blocks_marked_to_run_are_examples(self) -> None:
        assert pages.examples(EXAMPLE) == [("echo one\necho two\n", ["one", "t...o"])]

    def test_an_output_block_counts_only_right_after_its_example(self) -> None:
        text = EXAMPLE.replace("```\n\n```text", "```\n\nwhich prints:\n\n```text")

        assert pages.examples(text)[0].expected == []
        assert pages.stray_outputs(text) == 1
        assert pages.stray_outputs(EXAMPLE) == 0

    def test_a_longer_fence_may_hold_a_shorter_one(self) -> None:
        text = "````md\n```sh run\nfalse\n```\n````\n"

        assert pages.examples(text) == []
        assert pages.blocks(text)[0].text == "```sh run\nfalse\n```\n"

    def test_an_indented_block_loses_its_indent(self) -> None:
        assert pages.examples("- so:\n\n  ```sh run\n  true\n  ```\n")[0].script == "true\n"

    def test_a_block_that_is_never_closed_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="block is never closed: line 2"):
            pages.blocks("text\n```sh run\ntrue\n")


class TestOutput:
    def test_every_expected_line_must_occur(self) -> None:
        assert pages.unseen(["one", "three"], "zero\none\ntwo\n") == ["three"]

    def test_a_line_is_compared_whole(self) -> None:
        assert pages.unseen(["one"], "one more\n") == ["one"]

    def test_dots_stand_for_any_characters(self) -> None:
        assert pages.unseen(["took ... s (a+b)"], "took 1.25 s (a+b)\n") == []
        assert pages.unseen(["took ... s"], "took 1.25 ms\nx") == ["took ... s"]


class TestNames:
    def test_names_in_backticks_are_cited_and_others_are_not(self) -> None:
        text = (
            "`mainstay.cli.main` and `mainstay.cli.exits.run(app, ...)`, mainstay.bare,\n"
            "`mainstay.toml`, `mainstay up`\n```\n`mainstay.in_a_block`\n```\n"
        )

        assert pages.cited_names(text) == ["mainstay.cli.exits.run", "mainstay.cli.main"]

    @pytest.mark.parametrize(
        "name",
        [
            "mainstay.cli.main",
            "mainstay.cli.exits.WRONG_USAGE",
            "mainstay.runtime.clock.StepClock.advance",
            "mainstay.config.up.UpConfig.fleet",
            "mainstay.cli.main.Command.module",
        ],
    )
    def test_modules_functions_methods_and_fields_resolve(self, name: str) -> None:
        assert pages.resolves(name)

    @pytest.mark.parametrize(
        "name",
        ["mainstay.nothing", "mainstay.cli.main.nothing", "mainstay.runtime.clock.Clock.nothing.x"],
    )
    def test_what_does_not_exist_does_not_resolve(self, name: str) -> None:
        assert not pages.resolves(name)

    def test_a_module_that_cannot_be_imported_is_not_taken_for_an_absent_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "half_written.py").write_text("import absent_dependency\n")
        monkeypatch.syspath_prepend(tmp_path)

        with pytest.raises(ModuleNotFoundError, match="absent_dependency"):
            pages.resolves("half_written.name")


class TestLinks:
    def test_a_link_to_an_absent_file_is_dead(self, tmp_path: Path) -> None:
        (tmp_path / "here.md").write_text("")

        dead = pages.dead_links(
            '[a](here.md#part) [b](gone.md "Gone") ![c](gone.svg) [d](<gone too.md>)'
            " [e](https://example.org/x) [f](#below) [g](mailto:a@b) `[h](code.md)`",
            tmp_path,
        )

        assert dead == ["gone.md", "gone.svg", "gone too.md"]

    def test_links_in_blocks_are_no_links(self, tmp_path: Path) -> None:
        assert pages.dead_links("```\n[a](gone.md)\n```\n", tmp_path) == []


class TestHeadings:
    def test_comments_in_blocks_are_no_headings(self) -> None:
        text = "# One\n\n```sh\n# no heading\n```\n### Two words\n#hash\n"

        assert pages.headings(text) == ["One", "Two words"]
