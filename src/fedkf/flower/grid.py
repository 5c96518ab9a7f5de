"""The grid as a coordinator uses it: every message is signed, every answer opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import ConfigRecord, Message, RecordDict

from fedkf.flower import orders
from fedkf.flower.answers import Forgery, Opener
from fedkf.flower.carrier import FlowerEngine, Grid
from fedkf.flower.keys import CoordinatorKeys, fingerprint

SiteKeys = Callable[[], Mapping[int, ec.EllipticCurvePublicKey]]


class SignedGrid:
    """A grid of Flower's between a coordinator and its sites, of which it is not trusted.

    `sites` gives the key of every registered site by its node. An answer that is not from the site
    that was asked, or not to what it was asked, is an answer with that error.
    """

    def __init__(
        self, grid: Grid, keys: CoordinatorKeys, sites: SiteKeys, numbers: orders.Numbers
    ) -> None:
        self.grid, self.keys, self.sites, self.numbers = grid, keys, sites, numbers
        self._asked: dict[str, tuple[str, ec.EllipticCurvePublicKey, int]] = {}

    def get_node_ids(self) -> list[int]:
        known = self.sites()
        return [node for node in self.grid.get_node_ids() if node in known]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Sign and send; a message to a site that was removed meanwhile is not accepted."""
        known = self.sites()
        every = list(messages)
        ready = [message for message in every if message.metadata.dst_node_id in known]
        asked = []
        for message, number in zip(ready, self.numbers.take(len(ready)), strict=True):
            node = message.metadata.dst_node_id
            to = orders.Recipient(node, fingerprint(known[node]))
            order = orders.sign(message, self.keys.signing, to, number)
            asked.append((order, known[node], largest(message)))
        ids = list(self.grid.push_messages(ready)) if ready else []
        self._asked.update((id, order) for id, order in zip(ids, asked, strict=False) if id)
        accepted = dict(zip(map(id, ready), ids, strict=False))
        return [accepted.get(id(message)) or "" for message in every]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._opened(reply) for reply in self.grid.pull_messages(message_ids)]

    def _opened(self, reply: Message) -> Message:
        asked = self._asked.pop(reply.metadata.reply_to_message_id, None)
        if reply.has_error() or asked is None:
            return reply  # of Flower's own, which says only that there is no answer
        order, site, most = asked
        try:
            reply.content = Opener(self.keys.sealing).open(reply, order, site, most)
        except Forgery as error:
            reply.content = RecordDict({"reply": ConfigRecord({"error": str(error)})})
        return reply


def largest(message: Message) -> int:
    """Bytes that the payload of an answer to a message may have."""
    arrays = [
        array for record in message.content.array_records.values() for array in record.values()
    ]
    return max(FlowerEngine.largest, 8 * sum(len(array.data) for array in arrays))
