"""The suite is no test module, and its assertions are to be explained like those of one."""

import pytest

pytest.register_assert_rewrite("tests.contract.suite")
