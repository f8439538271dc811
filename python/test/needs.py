"""What some device tests need of the host: marks that skip them elsewhere.

The conditions are text, as they are evaluated where the tests run: in a module that has `torch`.
"""

import pytest

needs_sm90 = pytest.mark.skipif(
    "torch.cuda.is_available() and torch.cuda.get_device_capability()[0] < 9",
    reason="needs compute capability 9.0",
)
needs_two_devices = pytest.mark.skipif("torch.cuda.device_count() < 2", reason="needs two devices")
