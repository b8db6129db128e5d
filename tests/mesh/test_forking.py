"""The fork server; the services' own tests cover the children's work and end."""

import pytest

from mesh.forking import fork, one_way_pipe, two_way_pipe


def test_a_child_that_fails_to_start_leaves_no_pipe_open() -> None:
    pipes = [one_way_pipe(), two_way_pipe()]

    with pytest.raises(AttributeError, match="local"):
        fork(lambda *_: None, pipes=pipes)

    assert [end.closed for pipe in pipes for end in pipe] == [True] * 4
