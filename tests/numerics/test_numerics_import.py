"""The package alone: what importing it loads, how long it takes, when numba comes in."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError
from hwmodel.numerics import backend


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_numpy_and_nothing_heavy() -> None:
    loaded = run("import sys, hwmodel.numerics; print(' '.join(sys.modules))").split()
    for heavy in ("numba", "llvmlite", "simpy", "ml_dtypes", "pydantic", "matplotlib", "polars", "scipy", "yaml"):
        assert heavy not in loaded
    own = {name for name in loaded if name.startswith("hwmodel.") and not name.startswith("hwmodel.numerics")}
    assert own <= {"hwmodel.errors", "hwmodel.quantities"}


def test_import_takes_less_than_300_ms() -> None:
    """Processor time, the best of three, as the machine may be busy."""
    program = "import time; t = time.process_time(); import hwmodel.numerics; print(time.process_time() - t)"
    assert min(float(run(program)) for _ in range(3)) < 0.3


def test_small_work_never_imports_numba() -> None:
    program = (
        "import sys, numpy as np\nfrom hwmodel import numerics as nm\n"
        "x = np.ones((64, 128), np.float32)\nt = nm.quantize(x, 'hif4')\n"
        "nm.matmul(t, nm.quantize(x.T, 'hif4', axis=0))\nnm.dequantize(t)\nnm.encode(x, 'fp8_e4m3')\n"
        "assert 'numba' not in sys.modules"
    )
    run(program)


def test_large_work_imports_it_once_the_time_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = backend._Chosen()
    monkeypatch.setattr(backend, "_chosen", fresh)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    assert backend.kernels("products", backend.PATIENCE_SECONDS * 0.6) is None
    assert backend.kernels("products", backend.PATIENCE_SECONDS * 0.6) is not None


def test_numba_missing_is_an_error_only_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_chosen", backend._Chosen())
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in list(sys.modules):
        if name.startswith("hwmodel.numerics.kernels"):
            monkeypatch.delitem(sys.modules, name)
    a = np.ones((4, 4), np.float32)
    nm.set_backend("numba")
    with pytest.raises(ImportError):
        nm.matmul(a, a)
    nm.set_backend("auto")
    assert backend.kernels("products", 100.0) is None
    assert nm.matmul(a, a)[0, 0] == 4


def test_choices_are_checked_and_returned() -> None:
    assert nm.set_backend("numpy") == "auto"
    assert nm.set_backend("auto") == "numpy"
    assert nm.set_threads(1) is None
    assert nm.set_threads(None) == 1
    assert backend.thread_count() >= 1
    with pytest.raises(NumericsError, match="did you mean 'numba'"):
        nm.set_backend("numbra")  # type: ignore[arg-type]
    with pytest.raises(NumericsError, match="at least 1"):
        nm.set_threads(0)


def test_every_public_name_exists_and_is_documented() -> None:
    for name in nm.__all__:
        thing = getattr(nm, name)
        if callable(thing):
            assert thing.__doc__, name
