"""Forking after a real driver was initialized - by torch, by a bare cuInit, by cuda.core: the
error, the warning and when each comes."""

from __future__ import annotations

import os

import pytest
from forked_use import CUDA_CORE, check_forked_children, check_start_method

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.parametrize("by", ["torch", "cuInit", CUDA_CORE]),
]


@pytest.fixture
def environment():
    """This process's, without a device for children."""
    return {name: value for name, value in os.environ.items() if name != "FLAGTREE_PPU_DEVICE"}


@pytest.fixture
def ordinal():
    """The last device, to be told from the default where there are several."""
    return torch.cuda.device_count() - 1


@pytest.mark.parametrize("mode", [None, "fork", "off"])
def test_forked_children(run_python, environment, ordinal, by, mode):
    check_forked_children(run_python, environment, by, ordinal, mode)


@pytest.mark.parametrize(
    ("case", "mode"),
    [
        # The main module of the fork server initializes.
        (("forkserver", "top", "ForkedAfterInit"), None),
        (("forkserver", "top", "ForkedAfterInit"), "fork"),
        # The program does, its fork server does not.
        (("forkserver", "main", "Uninitialized"), "fork"),
        (("spawn", "main", "Uninitialized"), "fork"),
    ],
    ids=["initializing server", "initializing server, fork", "clean server", "spawn"],
)
def test_start_methods(run_python, environment, ordinal, tmp_path, by, case, mode):
    check_start_method(run_python, environment, by, ordinal, mode, case, tmp_path)
