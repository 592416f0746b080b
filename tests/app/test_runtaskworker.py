"""`manage.py runtaskworker`: what its arguments may be."""

from __future__ import annotations

import pytest
from django.core.management import load_command_class


def parse(*arguments):
    command = load_command_class("django_taskq", "runtaskworker")
    command._called_from_command_line = True
    return command.create_parser("manage.py", "runtaskworker").parse_args(arguments)


@pytest.mark.parametrize(
    ("flag", "most"), [("--processes", 1_000), ("--threads", 1_000), ("--coroutines", 100_000), ("--max-tasks", 10**15)]
)
def test_more_than_a_machine_bears_is_refused(flag, most, capsys):
    assert most in vars(parse(flag, str(most))).values()

    for text in [str(most + 1), "9" * 5000]:
        with pytest.raises(SystemExit) as caught:
            parse(flag, text)
        assert caught.value.code == 2
        assert f"is too many; at most {most}" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "000", "-1", "1.5", "", "²", "many"])
def test_what_is_no_count_is_refused(text, capsys):
    with pytest.raises(SystemExit) as caught:
        parse("--threads", text)
    assert caught.value.code == 2
