"""The clients of the write gate's model: what they send, and what they take their answers for."""

from __future__ import annotations

import asyncio

from prove.model_parts import CLIENT, Op, ViolationError
from prove.model_wire import TEXTS, Point, Request
from prove.model_world import NUMBERS, Exchange, World, one
from vecsieve.adapters.contract import RequestHead
from vecsieve.proxy.search.errors import LostReplyError, RefusedReplyError, UpstreamExchangeError
from vecsieve.proxy.writes.rows import Kind
from vecsieve.proxy.writes.settling import Change

OPS = ("upsert", "delete", "filter", "all", "change")


class Clients(World):
    """Two of them, each with one request at a time."""

    def _start(self, client: int) -> None:
        chance = self.chance
        (kind,) = chance.choices(list(OPS), [self.rates[op] for op in OPS])
        if kind == "upsert":
            # Mostly of ids that are free: copies are left out only under these.
            free = [identifier for identifier in self.ids if identifier not in self.database.points]
            ids = free if free and chance.random() < 0.7 else self.ids
            count = min(len(ids), 1 if chance.random() < 0.6 else 2)
            points = [self._point(identifier) for identifier in chance.sample(ids, count)]
            op = Op(kind, self.moment, points={point.id: point for point in points})
            work = self._upsert(client, op, self.wire.upsert(points, waits=chance.random() < self.rates["waits"]))
        elif kind == "delete":
            op = Op(kind, self.moment, ids=[chance.choice(self.ids)])
            work = self._follow(client, op, self._waited(self.wire.delete(op.ids or ())))
        elif kind == "filter":
            op = Op(kind, self.moment, number=chance.choice(NUMBERS))
            work = self._follow(client, op, self._waited(self.wire.delete_where(op.number or 0)))
        elif kind == "all":
            op = Op(kind, self.moment)
            work = self._follow(client, op, self.wire.recreate())
        elif self.wire.is_partial:
            point, member = (
                self._point(chance.choice(self.ids)),
                chance.choice(("axis", "axis", "axis", "number", "text")),
            )
            value = {"axis": chance.randrange(4), "text": chance.choice(TEXTS), "number": point.number}[member]
            op = Op(kind, self.moment, ids=[point.id], member=(member, value))
            work = self._follow(client, op, self._waited(self.wire.change(point.id, member, value)))
        else:
            return
        self.model.ops.append(op)
        CLIENT.set(client)
        self.clients[client] = asyncio.create_task(work)

    def _waited(self, request: Request) -> Request:
        """A deletion or a partial update."""
        return request if self.chance.random() < self.rates["waits after"] else self.wire.unwaited(request)

    def _point(self, identifier: int) -> Point:
        indexes = [TEXTS.index(point.text) for point in self.database.points.values()]
        text = self.chance.choice(indexes) if indexes and self.chance.random() < 0.6 else self.chance.randrange(2)
        if self.mode == "united" and self.chance.random() < 0.8:
            # Less than what is stored: the merged number is another than its own.
            number = int(all(point.text != TEXTS[text] for point in self.database.points.values()))
            return Point(identifier, TEXTS[text], number, text)
        return Point(identifier, TEXTS[text], self.chance.choice(NUMBERS), text)

    def _head(self, request: Request) -> RequestHead:
        return RequestHead(
            method=request.method, path=request.path, content_type="application/json", host=self.wire.host
        )

    def _over(self, client: int, op: Op, outcome: str, *, is_done: bool = False) -> None:
        op.end, op.is_done = self.moment, is_done
        self.messages.append(f"client {client}: {outcome} of {_words(op)}: {self._visible()}")

    async def _upsert(self, client: int, op: Op, request: Request) -> None:
        self.messages.append(f"client {client} begins {_words(op)}{'' if request.is_waited else ', not waited'}")
        write = self.gate.adapter.classify(self._head(request))
        assert write is not None
        exchange = Exchange(world=self, request=request, operation=write, op=op)
        gate, policy = self.gate, self.policy
        try:
            change = await gate.changed(exchange, policy, query=request.target[len(request.path) :])
            op.sent = len(self.database.texts) - 1
            body = b""
            if change is None:
                body = await self.requested(request, op)
            elif change.answer is not None and not change.left_out:
                self.model.ops.remove(op)
                self._over(client, op, "refusal")
                return
            else:
                async with gate.settling.ending(change):
                    change, body = await self._sent(change, exchange)
        except (LostReplyError, UpstreamExchangeError):
            self._over(client, op, "failure")
            return
        except asyncio.CancelledError:
            self._over(client, op, "end")
            raise
        op.points = self.wire.acknowledged(op.points, body) if body else op.points
        self._over(client, op, "answer" if change is not None else "answer without a verdict", is_done=bool(op.points))
        left_out = [self.wire.id_of(row.id) for row in change.left_out if row.kind == Kind.LEFT_OUT] if change else []
        for point in [op.points[identifier] for identifier in left_out if identifier in op.points]:
            if point.text not in self.database.stated(op.sent):
                raise ViolationError(f"{one(point)} was acknowledged, and no point says so: {self._visible()}")

    async def _sent(self, change: Change, exchange: Exchange) -> tuple[Change, bytes]:
        """As a transport sends the rest of a write. Also the client's answer; nothing where the gate makes it."""
        settling, receipt, answer = self.gate.settling, None, b""
        if change.answer is None:
            body = exchange.plain if change.body is None else change.body
            answer = await self.requested(exchange.request._replace(body=body), exchange.op)
            receipt = settling.answer(change, answer)
            answer = answer if receipt is None else receipt.body
            exchange.seen = None
        is_success = change.answer is not None or receipt is not None
        settled = await settling.settle(change, exchange, self.policy, is_success=is_success, receipt=receipt)
        return settled, answer

    async def _follow(self, client: int, op: Op, request: Request) -> None:
        """A deletion or a partial update, as far as the gate follows it."""
        self.messages.append(f"client {client} begins {_words(op)}{'' if request.is_waited else ', not waited'}")
        deletions = self.gate.deletions
        assert deletions is not None
        deletion, query = deletions.classify(self._head(request)), request.target[len(request.path) :]
        status, answer = 502, None
        try:
            exchange = None if deletion is None else Exchange(world=self, request=request, operation=deletion, op=op)
            if exchange is None or deletion is None or not await deletions.follows(exchange, deletion, query):
                status, answer = await self._answered(request, op)
            else:
                async with deletions.followed(exchange, request.body, query=query, now=self.clock()) as pending:
                    status, answer = await self._answered(request, op)
                    is_checked = self.backend.refuses_in_success
                    pending.is_done = deletions.is_done(status, is_grpc=False, body=answer if is_checked else None)
        finally:
            is_refused = answer is not None and self.wire.is_refusal(answer)
            self._over(client, op, f"status {status}", is_done=status != 502 and not is_refused)

    async def _answered(self, request: Request, op: Op) -> tuple[int, bytes | None]:
        try:
            return 200, await self.requested(request, op)
        except RefusedReplyError as refused:
            return refused.status, None
        except LostReplyError:
            return 502, None


def _words(op: Op) -> str:
    if op.kind == "upsert":
        return f"upsert {', '.join(map(one, op.points.values()))}"
    if op.kind == "change":
        return f"change of {op.ids} to {op.member}"
    return {"delete": f"deletion of {op.ids}", "filter": f"deletion where n = {op.number}", "all": "deletion of all"}[
        op.kind
    ]
