"""Arrays of whole numbers, and amounts that never leave 64 bits.

Amounts are milli-cpu and whole units, held within ±``MOST_AMOUNT`` (decision 0050). 2,048 pods that each request that
much still sum up within 64 bits, and differences of sums are exact even where a sum wraps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MOST_AMOUNT = 2**52
NOWHERE = -1  # the node of a pod whose node is unknown


def amount(value: int) -> int:
    return max(-MOST_AMOUNT, min(MOST_AMOUNT, value))
