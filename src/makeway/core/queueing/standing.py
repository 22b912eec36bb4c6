"""The states of a waiting workload in its list, and the transitions between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Standing(Enum):
    """The state of a member of a waiting list."""

    DUE = "in the queue, and evaluated when it is the head"
    REFUSED = "in the queue, and not evaluated before a wake"
    HELD_BACK = "refused because of what is kept free for another"
    BLOCKED = "waits until pods of others are ready, with all behind it"
    PARKED_SINGLY = "out of the queue for a reason of its own"
    PARKED_WITH_CLASS = "out of the queue with all that get the same verdict"


class Trigger(Enum):
    """What happens to a member that stays in or out of the queue; parking and unparking are methods of its list."""

    REFUSE = "it is not evaluated again before something happens"
    HOLD_BACK = "it lost to what is kept free for another (S-5.1)"
    BLOCK = "it would be admitted, were not pods of others still to be ready (S-5.7.12)"
    FREE = "what it lost to has changed since"
    RETRY = "something that concerns only this workload has changed"
    WAKE = "something changed that may let a workload of its tree in (S-4.6)"


AWAITS_WAKE = (Standing.REFUSED, Standing.HELD_BACK, Standing.BLOCKED)  # and are in the queue

TRANSITIONS: Mapping[Trigger, Mapping[Standing, Standing]] = {  # a standing that is not named stays as it is
    Trigger.REFUSE: {Standing.DUE: Standing.REFUSED},
    Trigger.HOLD_BACK: {Standing.DUE: Standing.HELD_BACK, Standing.REFUSED: Standing.HELD_BACK},
    Trigger.BLOCK: {Standing.DUE: Standing.BLOCKED},
    Trigger.FREE: {Standing.HELD_BACK: Standing.DUE},
    Trigger.RETRY: {Standing.REFUSED: Standing.DUE, Standing.HELD_BACK: Standing.DUE},
    Trigger.WAKE: dict.fromkeys(AWAITS_WAKE, Standing.DUE),
}
