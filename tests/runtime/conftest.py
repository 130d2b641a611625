from __future__ import annotations

import pytest

from npcompile.backends.cpu.loader import Loader
from npcompile.backends.errors import NoCompiler
from tests.runtime.units import make_loader


@pytest.fixture(scope="session")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Loader:
    """A loader that has compiled its runtime into a cache of the test run."""
    try:
        return make_loader(tmp_path_factory.mktemp("cache"))
    except NoCompiler as error:
        pytest.skip(str(error))
