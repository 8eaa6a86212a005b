"""The console as a web application: the page, the live channels, the details, and the one thing that it changes."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from fencepost import __version__
from fencepost.client.cluster import Cluster
from fencepost.client.settings import ClientSettings
from fencepost.console import answers, shapes
from fencepost.console.access import Changes, Gate, Rules, Sessions, refuse
from fencepost.console.answers import Parameters, Wrong
from fencepost.console.board import HEALTH, Board, Watcher, now_ms
from fencepost.console.clusters import ANSWER_S_MAX, CHANGE_S_MAX, Pool
from fencepost.console.metrics import exposition, of_broker
from fencepost.console.sampling import Sampler
from fencepost.errors import (
    AbortRefused,
    BootstrapFailed,
    ClientError,
    ConnectionLost,
    GaveUp,
    NotAuthorized,
    TopicNotFound,
    TransactionNotFound,
    UnknownPipeline,
)
from fencepost.metrics.text import CONTENT_TYPE
from fencepost.observe.aborting import Plan, abort, plan_hold, plan_id, plan_partition
from fencepost.observe.why import why
from fencepost.wire.terms import TopicPartition

STATIC = Path(str(files("fencepost.console") / "static"))
BEAT_S = 2.0  #: at least so often the page hears from us
STREAMS_MAX = 64
BODY_BYTES_MAX = 64 << 10
NO_BODY = "the body is not a small JSON object"
#: A wrong token costs this long, so that guessing is slow.
WRONG_TOKEN_S = 0.5
CHANNELS = frozenset({"transactions", "timeline", "topics", "groups", "pipelines", HEALTH})

Question = Callable[[Cluster, Parameters], shapes.Json]


class Console:
    """Everything behind the addresses, for one cluster."""

    def __init__(self, settings: ClientSettings, rules: Rules, metrics_url: str | None = None) -> None:
        self.settings = settings
        self.rules = rules
        self.metrics_url = metrics_url  #: of the broker beside it
        self.sessions = Sessions(rules)
        self.board = Board()
        self.sampler = Sampler(settings, self.board)
        self.pool = Pool(settings)
        self._streams = 0

    def app(self) -> ASGIApp:
        questions: Mapping[str, Question] = {
            "partition": answers.partition,
            "strip": answers.strip,
            "overview": answers.overview,
            "batch": answers.batch,
            "records": answers.records,
            "why": answers.stuck,
            "topic": answers.topic,
            "transaction": partial(answers.transaction, sampler=self.sampler),
            "whole": partial(answers.whole, sampler=self.sampler),
            "group": partial(answers.group, sampler=self.sampler),
            "pipeline": partial(answers.pipeline, sampler=self.sampler),
        }
        routes = [
            Route("/", self._page("index.html")),
            Route("/login", self._page("login.html"), methods=["GET"]),
            Route("/login", self.log_in, methods=["POST"]),
            Route("/logout", self.log_out, methods=["POST"]),
            Route("/metrics", self.metrics),
            Route("/api/session", self.session),
            Route("/api/events", self.events),
            Route("/api/download", self.download),
            Route("/api/abort/plan", self.plan_abort),
            Route("/api/abort", self.abort, methods=["POST"]),
            *(Route(f"/api/{name}", self._answering(question)) for name, question in questions.items()),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        return Gate(Starlette(routes=routes, lifespan=self._lifespan), self.rules, self.sessions)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.sampler.start()
        try:
            yield
        finally:
            await asyncio.to_thread(self.sampler.stop)
            self.pool.close()

    def _page(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def page(_: Request) -> Response:
            return FileResponse(STATIC / name, headers={"cache-control": "no-cache"})

        return page

    # -- who ---------------------------------------------------------------------------------------------------------

    async def log_in(self, request: Request) -> Response:
        try:
            given = await _body(request)
        except ValueError:
            return refuse(400, NO_BODY)
        session = self.sessions.log_in(str(given.get("token", "")))
        if session is None:
            await asyncio.sleep(WRONG_TOKEN_S)
            return refuse(401, "that is not the console's token")
        answer = JSONResponse({})
        is_secure = request.url.scheme == "https"
        answer.set_cookie(self.sessions.cookie, session, httponly=True, samesite="strict", secure=is_secure, path="/")
        return answer

    async def log_out(self, request: Request) -> Response:
        self.sessions.log_out(self.sessions.session_of(request.headers))
        answer = JSONResponse({})
        answer.delete_cookie(self.sessions.cookie, path="/")
        return answer

    async def session(self, _: Request) -> Response:
        return JSONResponse(
            {
                "change_secret": self.sessions.change_secret,
                "may_change": self.rules.changes is Changes.ALLOWED,
                "cluster": ", ".join(map(str, self.settings.bootstrap)),
                "has_login": self.rules.token is not None,
                "version": __version__,
                "now_ms": now_ms(),
            }
        )

    async def metrics(self, _: Request) -> Response:
        theirs = await asyncio.to_thread(of_broker, self.metrics_url)
        return Response(exposition(self.board) + theirs, media_type=CONTENT_TYPE)

    # -- live --------------------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        channels = sorted(set(request.query_params.get("channels", "").split(",")) & CHANNELS | {HEALTH})
        if self._streams >= STREAMS_MAX:
            return refuse(503, f"{STREAMS_MAX} pages are open already")
        self._streams += 1
        return _Stream(self._stream(channels), self._stream_ended)

    def _stream_ended(self) -> None:
        self._streams -= 1

    async def _stream(self, channels: list[str]) -> AsyncIterator[str]:
        watcher = Watcher(asyncio.get_running_loop())
        versions = dict.fromkeys(channels, 0)
        self.board.watch(watcher)
        try:
            yield "retry: 1000\n\n"
            while not self.board.is_closed:
                for channel in channels:
                    update = self.board.since(channel, versions[channel])
                    if update is not None:
                        versions[channel] = update.version
                        yield f"event: update\ndata: {_dumps(update.as_dict())}\n\n"
                yield f"event: beat\ndata: {now_ms()}\n\n"
                await watcher.wait(BEAT_S)
        finally:
            self.board.unwatch(watcher)

    # -- details -----------------------------------------------------------------------------------------------------

    def _answering(self, question: Question) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            given = dict(request.query_params)
            return await self._answer(lambda cluster: question(cluster, given))

        return answer

    async def _answer(self, question: Callable[[Cluster], Any], timeout_s: float = ANSWER_S_MAX) -> Response:
        self.board.was_asked()
        try:
            return Response(_dumps(await self.pool.ask(question, timeout_s)), media_type="application/json")
        except Exception as error:
            return _explained(error)

    async def download(self, request: Request) -> Response:
        given = dict(request.query_params)
        try:
            where, page = await self.pool.ask(lambda cluster: answers.download(cluster, given))
        except Exception as error:
            return _explained(error)
        text = "".join(f"{_dumps(each)}\n" for each in answers.lines(where, page))
        name = "".join(each if each.isalnum() or each in "._-" else "_" for each in str(where))
        headers = {"content-disposition": f'attachment; filename="{name}.jsonl"'}
        return Response(text, media_type="application/x-ndjson", headers=headers)

    # -- the change --------------------------------------------------------------------------------------------------

    async def plan_abort(self, request: Request) -> Response:
        given = dict(request.query_params)
        return await self._answer(lambda cluster: shapes.plan(_plan(cluster, given)))

    async def abort(self, request: Request) -> Response:
        """Only what the page showed before: another producer or epoch is refused."""
        try:
            body = await _body(request)
        except ValueError:
            return refuse(400, NO_BODY)
        given = {key: str(value) for key, value in body.items() if value is not None}

        def question(cluster: Cluster) -> shapes.Json:
            plan = _plan(cluster, given)
            shown = answers.number(given, "producer"), answers.number(given, "epoch")
            if (plan.producer_id, plan.epoch) != shown:
                raise AbortRefused("another transaction is open there now. Nothing was changed")
            return shapes.abort_outcome(abort(cluster, plan, even_if_live=given.get("even_if_live") == "True"))

        return await self._answer(question, CHANGE_S_MAX)


class _Stream(StreamingResponse):
    """Counts from the request on, not from its first piece: many may ask at once. Its end is told once, always."""

    def __init__(self, pieces: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(pieces, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def _plan(cluster: Cluster, given: Parameters) -> Plan:
    if given.get("id"):
        return plan_id(cluster, answers.needed(given, "id"))
    where: TopicPartition = answers.place(given)
    if given.get("offset"):
        return plan_partition(cluster, where, start_offset=answers.number(given, "offset"))
    found = why(cluster, where.topic, where.partition).holds
    if not found:
        raise TransactionNotFound(f"nothing holds {where}")
    return plan_hold(cluster, found[0])


async def _body(request: Request) -> dict[str, Any]:
    """Raises ValueError unless it is a small JSON object."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise ValueError
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_BYTES_MAX:
            raise ValueError
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError from None
    if not isinstance(found, dict):
        raise ValueError
    return found


def _explained(error: Exception) -> Response:
    """What went wrong, for the page. Errors that we do not know are bugs, and raised."""
    match error:
        case Wrong():
            return refuse(400, str(error))
        case TopicNotFound() | TransactionNotFound() | UnknownPipeline():
            return refuse(404, str(error))
        case NotAuthorized():
            return refuse(403, str(error))
        case AbortRefused():
            return refuse(409, str(error))
        case ConnectionLost() | GaveUp() | BootstrapFailed():
            return refuse(503, f"the cluster does not answer: {error}")
        case TimeoutError():
            return refuse(504, "the cluster takes too long to answer")
        case ClientError():
            return refuse(502, str(error))
    raise error


def _dumps(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))
