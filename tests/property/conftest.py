"""What follows the graph is no test module, and its assertions are to be explained all the same."""

import pytest

pytest.register_assert_rewrite("tests.property.followed")
