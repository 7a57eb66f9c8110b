"""OpenAI's API: transcriptions, speech, completions, and the list of models."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from pydantic import BaseModel, Field, model_validator

from open_seq2seq.models.speech2text.subtitles import formatted, subtitles_of
from open_seq2seq.server.limits import Limits, Refused, check_texts
from open_seq2seq.server.own_api import file_of
from open_seq2seq.server.served import COMPLETIONS, Models, Served
from open_seq2seq.server.uploads import recording_of, sound_file
from open_seq2seq.utils.errors import ConfigError, UserError

_MOST_TOKENS = 1024
_PIECE_SECONDS = 0.5
_MOST_SAMPLES = 1 << 12  # of a request; more inputs than its limit allows


class SpeechAsked(BaseModel):
    """The body of ``/v1/audio/speech``; ``voice`` names a speaker, and counts only for models of several."""

    model: str
    input: str
    voice: Any = None
    response_format: Literal["mp3", "opus", "flac", "wav", "pcm"] = "mp3"
    speed: float = Field(1.0, ge=0.25, le=4.0)


class CompletionAsked(BaseModel):
    """The body of ``/v1/completions``."""

    model: str
    prompt: str | list[str]
    max_tokens: int = Field(16, ge=1, le=_MOST_TOKENS)
    temperature: float = Field(1.0, ge=0.0, le=2.0)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    n: int = Field(1, ge=1, le=16)
    seed: int = Field(0, ge=0, lt=2**31)
    stop: str | list[str] = []
    stream: bool = False
    echo: bool = False
    logprobs: None = None

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Any) -> Any:  # in OpenAI's API, fields that may be left out may also be null
        return {key: one for key, one in fields.items() if one is not None} if isinstance(fields, dict) else fields


def _event(values: Any) -> str:
    return f"data: {json.dumps(values, ensure_ascii=False)}\n\n"


class _Events(StreamingResponse):
    """A streamed answer, after which ``resources`` are released, even if the client leaves before the first event."""

    def __init__(self, events: AsyncIterator[str]) -> None:
        super().__init__(_until_an_error(events), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self.resources = contextlib.AsyncExitStack()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async with self.resources:
            await super().__call__(scope, receive, send)


async def spoken(served: Served, text: str, speed: float, speaker: Any = None, field: str = "voice") -> Any:
    """Returns the ``Speech`` of a text at a speed, by a speaker, who counts only if the model has several.

    Raises:
      Refused: the model has one speed, or no such speaker, whom this field of the request names.
    """
    if speed != 1.0 and not hasattr(served.trained.model.decoder, "at_speed"):  # type: ignore[attr-defined]
        raise Refused(400, f"The model {served.name} speaks at one speed: leave out the speed.", "speed")
    # Texts of several speeds and speakers share a batch, because these are part of them.
    text = text if speed == 1.0 else f"[speed {speed:g}] {text}"
    if speaker is not None and served.speakers:
        layer: Any = served.trained.model.data_layer
        try:
            text = layer.by_speaker(text, str(speaker))
        except UserError as error:
            raise Refused(400, str(error), field) from error
    return (await served.infer([text]))[0]


def _verbose(result: Any, seconds: float, language: str) -> dict[str, Any]:
    """Returns a transcript with the times of words and segments, in OpenAI's form."""
    lines = subtitles_of(result.words or ())
    segments = [{"id": number, "seek": 0, "start": round(line.start, 3), "end": round(line.end, 3), "text": line.text,
                 "tokens": [], "temperature": 0.0, "avg_logprob": 0.0, "compression_ratio": 1.0, "no_speech_prob": 0.0}
                for number, line in enumerate(lines)]
    words = [{"word": word.text, "start": round(word.start, 3), "end": round(word.end, 3)}
             for word in result.words or ()]
    return {"task": "transcribe", "language": language, "duration": round(seconds, 3), "text": result.text,
            "words": words, "segments": segments}


async def _deltas(served: Served, recording: tuple[np.ndarray, int]) -> AsyncIterator[str]:
    """Yields the events of a transcript that grows, or of a model that cannot be streamed the whole transcript."""
    samples, rate = recording
    sent, text = "", ""
    try:
        async for text in served.heard(samples, rate, int(_PIECE_SECONDS * rate)):
            if text.startswith(sent) and text != sent:
                yield _event({"type": "transcript.text.delta", "delta": text[len(sent):]})
                sent = text
    except ConfigError:
        text = (await served.infer([recording]))[0].text
        yield _event({"type": "transcript.text.delta", "delta": text})
    yield _event({"type": "transcript.text.done", "text": text})


async def _until_an_error(events: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yields events; an error after the beginning of an answer becomes an event, too."""
    try:
        async for event in events:
            yield event
    except (UserError, Refused) as error:
        yield _event({"error": {"message": str(error), "type": "server_error", "param": None, "code": None}})


def _generation(asked: CompletionAsked) -> tuple[str, dict[str, Any]]:
    """Returns the kind of a completion, and the values with which it is generated."""
    values: dict[str, Any] = {"num_tokens_gen": asked.max_tokens}
    if asked.temperature == 0:
        return "greedy", values
    values["sampling_temperature"] = asked.temperature
    return ("sampled", values) if asked.top_p == 1 else ("nucleus", {**values, "sampling_top_p": asked.top_p})


def _choice(served: Served, ids: np.ndarray, asked: CompletionAsked, index: int) -> tuple[Any, int, int]:
    """Returns a choice, and its numbers of tokens of the prompt and of the completion."""
    layer: Any = served.trained.model.data_layer
    count = len(ids) - asked.max_tokens
    head, whole = layer.ids_to_text(ids[:count]), layer.ids_to_text(ids)
    text = whole[len(head):] if whole.startswith(head) else layer.ids_to_text(ids[count:])
    stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop
    ends = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    text = text[:min(ends)] if ends else text
    shown = (head if asked.echo else "") + text
    return ({"text": shown, "index": index, "logprobs": None, "finish_reason": "stop" if ends else "length"}, count,
            asked.max_tokens)


async def _completed(served: Served, asked: CompletionAsked) -> dict[str, Any]:
    prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
    kind, values = _generation(asked)
    inputs = [prompt for prompt in prompts for _ in range(asked.n)]
    # Samples depend on the numbers of their inputs: those of another seed are other samples.
    first = asked.seed * _MOST_SAMPLES if asked.temperature > 0 else None
    results = await served.infer(inputs, COMPLETIONS[kind], first, values)
    choices, usage = [], {"prompt_tokens": 0, "completion_tokens": 0}
    for index, ids in enumerate(results):
        choice, before, new = _choice(served, ids, asked, index)
        choices.append(choice)
        usage["prompt_tokens"] += before if index % asked.n == 0 else 0
        usage["completion_tokens"] += new
    return {"id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion", "created": int(time.time()),
            "model": served.name, "choices": choices, "usage": {**usage, "total_tokens": sum(usage.values())}}


async def _completion_events(completion: dict[str, Any]) -> AsyncIterator[str]:
    for choice in completion["choices"]:
        yield _event({**completion, "choices": [choice], "usage": None})
    yield "data: [DONE]\n\n"


async def _transcribed(models: Models, limits: Limits, request: Request) -> Response | dict[str, Any]:
    form = await request.form()
    served = models.named(str(form.get("model", "")), "transcribe")
    kind = str(form.get("response_format", "json"))
    if kind not in ("json", "text", "srt", "vtt", "verbose_json"):
        raise Refused(400, f"The format {kind!r:.20} is unknown: use json, text, srt, vtt or verbose_json.",
                      "response_format")
    recording = await asyncio.to_thread(recording_of, await file_of(form), limits)
    if str(form.get("stream", "")).lower() == "true":
        return _Events(_deltas(served, recording))
    (result,) = await served.infer([recording])
    if kind in ("srt", "vtt"):
        return PlainTextResponse(formatted(result, kind), media_type="text/vtt" if kind == "vtt" else "text/plain")
    if kind == "text":
        return PlainTextResponse(result.text + "\n")
    if kind == "json":
        return {"text": result.text}
    answer = _verbose(result, len(recording[0]) / recording[1], str(form.get("language", "")))
    wanted = (form.getlist("timestamp_granularities[]") or form.getlist("timestamp_granularities")
              or ["segment", "word"])
    return {name: value for name, value in answer.items() if name not in ("words", "segments") or name[:-1] in wanted}


def router(models: Models, limits: Limits, uploads: asyncio.Semaphore) -> APIRouter:
    """Returns the routes; errors are ``{"error": {"message", "type", "param", "code"}}``.

    Args:
      models: the models.
      limits: the limits.
      uploads: limits the recordings in memory.
    """
    routes = APIRouter(tags=["OpenAI"])

    @routes.get("/v1/models")
    async def listed() -> dict[str, Any]:
        return {"object": "list", "data": [one.described() for one in models.by_name.values()]}

    @routes.get("/v1/models/{name}")
    async def described(name: str) -> dict[str, Any]:
        return models.named(name).described()

    @routes.post("/v1/audio/speech")
    async def speech(asked: SpeechAsked) -> Response:
        served = models.named(asked.model, "synthesize")
        check_texts([asked.input], limits)
        result = await spoken(served, asked.input, asked.speed, asked.voice)
        content, media = await asyncio.to_thread(sound_file, result.samples, result.rate, asked.response_format)
        return Response(content, media_type=media)

    @routes.post("/v1/audio/transcriptions", response_model=None)
    async def transcriptions(request: Request) -> Response | dict[str, Any]:
        async with contextlib.AsyncExitStack() as resources:
            await resources.enter_async_context(uploads)
            answer = await _transcribed(models, limits, request)
            if isinstance(answer, _Events):  # which has the recording until it ends
                answer.resources = resources.pop_all()
            return answer

    @routes.post("/v1/completions", response_model=None)
    async def completions(asked: CompletionAsked) -> Response | dict[str, Any]:
        served = models.named(asked.model, "generate")
        check_texts(([asked.prompt] if isinstance(asked.prompt, str) else asked.prompt) * asked.n, limits, "prompt")
        completion = await _completed(served, asked)
        return _Events(_completion_events(completion)) if asked.stream else completion

    return routes
