"""Whether freed memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Every tenth piece stays, so that the allocator cannot return the others by itself: it only cuts off the end.
FREED_IN_PIECES = """
from audit_pipeline.memory import give_back

def held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024

pieces = [bytearray(b"x" * 12_000) for _ in range(12_000)]
full = held()
pieces = pieces[::10]
kept = held()
give_back()
print(full - kept, full - held())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems return freed memory by themselves")
def test_what_was_freed_in_pieces_goes_back_to_the_system() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", FREED_IN_PIECES], capture_output=True, text=True, check=True, timeout=60
    )
    before, after = map(float, finished.stdout.split())
    # 10,800 pieces of 12,000 bytes are 124 MiB; a page that a kept piece touches stays.
    assert before < 10
    assert after > 70
