"""How the nodes of a pool come up for comparison: drawn by chance alone, or dealt from a deck.

Both yield a node at O(1) and never copy the pool for a decision. Whether a node may take the Sandbox is not asked here.

Source of the remembered node: M. Mitzenmacher, B. Prabhakar, D. Shah, "Load Balancing with Memory" (2002). There it is
the least loaded one after the choice, here the best of those not chosen: a node that was chosen waits for its next
card, so that none is flooded while its report is old.
"""

from collections.abc import Iterator
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandberth.core.fleet import Node

MAX_CARDS_PER_NODE = 16
FEWEST_TO_REMEMBER = 3  # with fewer, a decision would have a single new card, and choose whatever that is


class Sampler(StrEnum):
    """How the K nodes of a decision are picked."""

    UNIFORM = "uniform"
    DECK = "deck"


class Pool:
    """Nodes in no particular order, to be sampled without replacement; removal and insertion are O(1)."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._cards: list[Node] = []  # what is left of the deck, in no order; nodes that left the pool included
        self._remembered: Node | None = None

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: "Node") -> None:
        """Put a node in; it must be in no pool."""
        node.pool, node.position = self, len(self._nodes)
        self._nodes.append(node)

    def remove(self, node: "Node") -> None:
        """Take a node out, the last one filling its place."""
        last = self._nodes.pop()
        if last is not node:
            self._nodes[node.position] = last
            last.position = node.position
        node.pool = None

    def remember(self, runner_up: "Node", sample_size: int) -> None:
        """Have the next deal of as many nodes begin with this one, which was compared and not chosen."""
        if sample_size >= FEWEST_TO_REMEMBER:
            self._remembered = runner_up

    def sample(self, sampler: Sampler, rng: Random) -> Iterator["Node"]:
        """Yield every node once, in the order in which they are to be compared. The pool must not change meanwhile."""
        return self.deal(rng) if sampler is Sampler.DECK else self.draw(rng)

    def draw(self, rng: Random) -> Iterator["Node"]:
        """Yield every node once in uniformly random order, at O(1) a node that is looked at.

        A partial Fisher-Yates shuffle on the list itself: any order is as good as another to the next draw.
        The pool must not change while a draw is under way.
        """
        nodes = self._nodes
        for here in range(len(nodes)):
            there = here + int(rng.random() * (len(nodes) - here))
            chosen = nodes[there]
            nodes[there], nodes[here] = nodes[here], chosen
            nodes[there].position, chosen.position = there, here
            yield chosen

    def deal(self, rng: Random) -> Iterator["Node"]:
        """Yield the remembered node, and every other once from a deck that lasts over many deals.

        So all nodes come up equally often, and of two good ones in a deal the other is not lost.

        A node has cards in proportion to its CPU. A card that was yielded is spent, also where its node turned out
        not to be eligible; a second card of a node already yielded stays in the deck for the next deal. A spent deck is
        replaced, at most once in a deal. A node that joins the pool has cards from the next deck on; the cards of one
        that left are skipped. O(1) a card, and O(nodes) for a new deck.
        """
        yielded: set[Node] = set()
        remembered, self._remembered = self._remembered, None
        if remembered is not None and remembered.pool is self:
            yielded.add(remembered)
            yield remembered
        undealt = len(self._cards)  # the cards from here on are of nodes already yielded
        while len(yielded) < len(self._nodes):
            if undealt == 0:
                self._cards = self._new_deck(rng)
                undealt = len(self._cards)
            # The deck is shuffled as it is dealt: a random card out of those that are left.
            here = int(rng.random() * undealt)
            undealt -= 1
            cards = self._cards
            node, cards[here] = cards[here], cards[undealt]
            if node in yielded:
                cards[undealt] = node
                continue
            cards[undealt] = cards[-1]
            cards.pop()
            if node.pool is self:
                yielded.add(node)
                yield node

    def _new_deck(self, rng: Random) -> list["Node"]:
        """Return the cards of a whole deck: 1 for the smallest node, up to 16 for the largest, in proportion to CPU.

        A share of a card becomes a card with that probability. Where the largest node is more than 16 times the
        smallest, the smallest get more than their share rather than the others less.
        """
        sizes = [node.facts.allocatable.cpu_millicores for node in self._nodes]
        unit = max(min(sizes), max(sizes) / MAX_CARDS_PER_NODE)
        cards: list[Node] = []
        for node, size in zip(self._nodes, sizes, strict=True):
            whole, part = divmod(size, unit)
            count = int(whole) + (part > 0 and rng.random() * unit < part)
            cards.extend([node] * max(1, count))
        return cards
