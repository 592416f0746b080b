"""The shop of testproject/, run as its user would: by its own manage.py."""

from __future__ import annotations


def test_the_shop_passes_its_own_tests(manage):
    done = manage("test", "--verbosity", "2")
    assert done.returncode == 0, done.stderr
    assert "test_an_order_that_fails_enqueues_nothing" in done.stderr


def test_the_shop_is_set_up_without_a_warning(manage):
    done = manage("check", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr
    assert manage("makemigrations", "--check").stdout == "No changes detected\n"
