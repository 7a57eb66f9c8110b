"""The plain form for every task: ``/v1/infer``; and the WebSocket of streaming recognition, ``/v1/stream``."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import Any

from fastapi import APIRouter, Request, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile

from open_seq2seq.models.speech2text.subtitles import plain, subtitles_of
from open_seq2seq.server import streaming
from open_seq2seq.server.limits import Limits, Refused, check_texts, checked_number
from open_seq2seq.server.served import Models, Served
from open_seq2seq.server.uploads import picture_of, recording_of, sound_file
from open_seq2seq.utils.errors import UserError


class Asked(BaseModel):
    """The body of ``/v1/infer`` for models that read texts; others read a form with ``file`` and ``model``."""

    model: str
    inputs: list[str] = Field(min_length=1)
    n_best: int = Field(1, ge=1, le=1000)
    alignment: bool = False


async def answers(served: Served, inputs: list[Any], n_best: int = 1, alignment: bool = False) -> list[dict[str, Any]]:
    """Returns the result of each input as values of JSON."""
    if served.task == "translate":
        return [translation(one, n_best) for one in await hypotheses(served, inputs, n_best, alignment)]
    generates = served.task == "generate"
    results = await served.infer(inputs, {"infer_task": "generate"} if generates else None, 0 if generates else None)
    model: Any = served.trained.model
    if served.task == "transcribe":
        return [plain(None, one.text, one.words, subtitles_of(one.words or ())) | n_best_of(one, n_best)
                for one in results]
    if served.task == "synthesize":
        return [{"audio": base64.b64encode(sound_file(one.samples, one.rate, "wav")[0]).decode(),
                 "sampling_rate": one.rate,
                 "timings": [timing._asdict() for timing in one.timings]} for one in results]
    if served.task == "classify":
        return [{"classes": classes_of(model, one)} for one in results]
    return [{"text": model.answer(one)} for one in results]


async def hypotheses(served: Served, inputs: list[Any], n_best: int, alignment: bool = False) -> list[Any]:
    """Returns the ``Translations`` of sentences, with at least ``n_best`` of them as far as the beam allows."""
    wanted = served.values_of_all if alignment else served.values_of_n_best
    return await served.infer(inputs, (None if n_best == 1 and not alignment else wanted) or None)


def translation(result: Any, n_best: int) -> dict[str, Any]:
    """Returns a result of translation as values of JSON."""
    alignment = result.alignment
    shown = alignment and {"source": alignment.source, "target": alignment.target,
                           "attention": alignment.attention.round(4).tolist()}
    return {"hypotheses": [{"text": one.text, "score": round(float(one.score), 4)} for one in result[:n_best]],
            "alignment": shown}


def n_best_of(result: Any, n_best: int) -> dict[str, Any]:
    """Returns the best transcripts of beam search as values of JSON; {} without them."""
    if n_best == 1 or result.n_best is None:
        return {}
    return {"hypotheses": [{"text": one.text, "score": round(float(one.score), 4)} for one in result.n_best[:n_best]]}


def classes_of(model: Any, result: Any) -> list[dict[str, Any]]:
    """Returns the most probable classes of a result, best first; [] for an empty text."""
    if hasattr(result, "classes"):
        names = model.data_layer.class_names
        return [{"label": names[number], "score": float(score)} for number, score in zip(*result, strict=True)]
    label, score = result
    return [{"label": label, "score": float(score)}] if label else []


async def file_of(form: Any, name: str = "file") -> bytes:
    """Returns the content of a file of a form.

    Raises:
      Refused: there is none.
    """
    file = form.get(name)
    if not isinstance(file, UploadFile):
        raise Refused(400, f"The form has no file {name!r}: send one as multipart/form-data.", name)
    return await file.read()


def given_input(served: Served, content: bytes, limits: Limits) -> Any:
    """Returns the content of a file as an input of the model.

    Raises:
      Refused: the content cannot be used.
    """
    if served.input == "recording":
        return recording_of(content, limits)
    if served.input == "image":
        return picture_of(content)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise Refused(400, f"The file is not UTF-8: byte {error.start + 1:,} is wrong.", "file") from error
    check_texts([text], limits, "file")
    return text


def router(models: Models, limits: Limits, allows: Any, uploads: asyncio.Semaphore) -> APIRouter:
    """Returns the routes.

    Args:
      models: the models.
      limits: the limits.
      allows: function that returns whether a key is right.
      uploads: limits the recordings and pictures in memory.
    """
    routes = APIRouter(tags=["every task"])

    @routes.post("/v1/infer", openapi_extra={"requestBody": {"content": {
        "application/json": {"schema": Asked.model_json_schema()},
        "multipart/form-data": {"schema": {"type": "object", "properties": {
            "model": {"type": "string"}, "file": {"type": "string", "format": "binary"},
            "n_best": {"type": "integer"}}}}}}})
    async def infer(request: Request) -> dict[str, Any]:
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            form = await request.form()
            served = models.named(str(form.get("model", "")))
            async with uploads:
                given = await asyncio.to_thread(given_input, served, await file_of(form), limits)
                count = checked_number(form.get("n_best", 1), 1, 1000, "n_best")
                return {"model": served.name, "results": await answers(served, [given], count)}
        asked = Asked.model_validate_json(await request.body())
        served = models.named(asked.model)
        if served.input != "text":
            raise Refused(400, f"The model {served.name} reads a {served.input}: send it as multipart/form-data with "
                          "'model' and 'file'.", "inputs")
        check_texts(asked.inputs, limits, "inputs")
        return {"model": served.name, "results": await answers(served, asked.inputs, asked.n_best, asked.alignment)}

    @routes.websocket("/v1/stream")
    async def stream(socket: WebSocket) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            await socket.accept()
            try:
                asked = await streaming.first_message(socket, limits.seconds)
                if not allows(str(asked.get("api_key", ""))):
                    raise UserError("The key is missing or wrong: send it as api_key.")
                name = asked.get("model")
                served = models.named(None if name is None else str(name), "transcribe")
                async with asyncio.timeout(limits.audio_seconds + limits.seconds):
                    await streaming.recognize(socket, served.streams, asked.get("rate"), limits.seconds,
                                              limits.audio_seconds)
                await socket.close()
            except TimeoutError:
                await streaming.refuse(socket, UserError("The utterance took too long: start another one."))
            except (Refused, UserError) as error:
                await streaming.refuse(socket, error)

    return routes
