"""How a check says what it found: a line for each thing checked, `ok …` or `FAILED …: why`."""

import sys
from contextlib import contextmanager


class Report:
    def __init__(self):
        self.failed = False

    @contextmanager
    def check(self, name):
        """Whatever goes wrong inside is reported under this name, and the next check goes on."""
        try:
            yield
        except Exception as error:
            self.failed = True
            reason = " ".join(str(error).split()) or type(error).__name__
            print(f"FAILED {name}: {reason}", flush=True)
        else:
            print(f"ok {name}", flush=True)

    def close(self):
        sys.exit(int(self.failed))


def agree(what, ours, theirs, tolerance):
    """Both have one shape, and differ by no more than a part `tolerance` of the largest value."""
    assert ours.shape == theirs.shape, f"{what} has shape {list(ours.shape)}, not {list(theirs.shape)}"
    largest, error = theirs.abs().max().item(), (ours - theirs).abs().max().item()
    # Asked this way round, a NaN fails.
    assert error <= tolerance * largest, f"{what} differs by {error:.2e} where the largest is {largest:.2e}"
