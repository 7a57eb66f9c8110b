"""The APIs of LibreTranslate and of Piper, whose requests are objects of JSON or forms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response

from open_seq2seq.server.guard import key_in
from open_seq2seq.server.limits import Limits, Refused, check_texts, checked_number
from open_seq2seq.server.openai_api import spoken
from open_seq2seq.server.own_api import hypotheses
from open_seq2seq.server.served import Models, Served
from open_seq2seq.server.uploads import sound_file


async def fields_of(request: Request) -> dict[str, Any]:
    """Returns the fields of a request, an object in JSON or a form; fields of a form that come twice are lists.

    Raises:
      Refused: the body is neither.
    """
    kind = request.headers.get("content-type", "")
    if kind.startswith("application/x-www-form-urlencoded"):  # which Starlette reads as Latin-1 where it is not quoted
        try:
            fields = parse_qs((await request.body()).decode(), True, errors="strict", max_num_fields=1000)
        except ValueError as error:
            raise Refused(400, "The body of the request is no form in UTF-8: check the encoding.") from error
        return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}
    if "form" in kind:
        form = await request.form()
        return {name: form.getlist(name) if len(form.getlist(name)) > 1 else form[name] for name in form}
    try:
        fields = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise Refused(400, "The body of the request is no JSON: check quotation marks and encoding (UTF-8).") from error
    if not isinstance(fields, dict):
        raise Refused(400, 'The body of the request must be an object, such as {"q": "text"}.')
    return fields


def libre_translate(models: Models, limits: Limits, allows: Callable[[str], bool]) -> APIRouter:
    """Returns the routes ``/translate`` and ``/languages``; errors are ``{"error": sentence}``.

    Args:
      models: the models.
      limits: the limits.
      allows: function that returns whether a key is right.
    """
    routes = APIRouter(tags=["LibreTranslate"])

    @routes.post("/translate")
    async def translate(request: Request) -> dict[str, Any]:
        fields = await fields_of(request)
        if not allows(str(fields.get("api_key") or key_in(request.scope))):
            raise Refused(403, "The key is missing or wrong: send it as api_key.")
        given: Any = fields.get("q")
        texts: list[Any] = given if isinstance(given, list) else [given]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise Refused(400, "The field 'q' must be a text or a list of texts.", "q")
        if fields.get("format", "text") != "text":
            raise Refused(400, "Only the format 'text' is translated.", "format")
        served = models.translating(str(fields.get("source", "auto")), str(fields.get("target", "")))
        check_texts(texts, limits, "q")
        count = checked_number(fields.get("alternatives", 0), 0, 1000, "alternatives")
        translations = await hypotheses(served, texts, 1 + count)
        best = [one[0].text for one in translations]
        answer: dict[str, Any] = {"translatedText": best if isinstance(given, list) else best[0]}
        if count:
            others = [[other.text for other in one[1:1 + count]] for one in translations]
            answer["alternatives"] = others if isinstance(given, list) else others[0]
        if fields.get("source") == "auto":
            detected: Any = {"confidence": 0, "language": served.source}  # nothing is detected: the model reads one
            answer["detectedLanguage"] = [detected] * len(texts) if isinstance(given, list) else detected
        return answer

    @routes.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        served = models.of_task("translate")
        codes = dict.fromkeys(code for one in served for code in (one.source, one.target) if code != "auto")
        return [{"code": code, "name": code, "targets": [one.target for one in served if one.source in (code, "auto")]}
                for code in codes]

    return routes


def _number(given: Any) -> float | None:
    """Returns the number in a field of JSON or of a form; None if it is none."""
    try:
        return None if isinstance(given, (bool, list)) else float(given)
    except (TypeError, ValueError, OverflowError):
        return None


def _speaker(fields: Mapping[str, Any], served: Served) -> Any:
    """Returns the name of the speaker that the field ``speaker`` names, or ``speaker_id`` by number; None without."""
    number = _number(fields.get("speaker_id"))
    if fields.get("speaker") is not None or number is None or not served.speakers:
        return fields.get("speaker")
    if number not in range(len(served.speakers)):
        raise Refused(400, f"The field 'speaker_id' must be a number from 0 to {len(served.speakers) - 1}.",
                      "speaker_id")
    return served.speakers[int(number)]


def piper(models: Models, limits: Limits) -> APIRouter:
    """Returns the routes ``/synthesize``, ``/voices`` and ``/info``; errors are ``{"error": sentence}``."""
    routes = APIRouter(tags=["Piper"])

    @routes.post("/synthesize")
    async def synthesize(request: Request) -> Response:
        fields = await fields_of(request)
        voice, text = fields.get("voice"), fields.get("text")
        served = models.named(None if voice is None else str(voice), "synthesize")
        if not isinstance(text, str):
            raise Refused(400, "The field 'text' must be a text.", "text")
        scale = _number(fields.get("length_scale", 1.0))
        if scale is None or not 0.25 <= scale <= 4:
            raise Refused(400, "The field 'length_scale' must be a number from 0.25 to 4.", "length_scale")
        check_texts([text], limits, "text")
        result = await spoken(served, text, 1 / scale, _speaker(fields, served), "speaker")
        content, media = await asyncio.to_thread(sound_file, result.samples, result.rate, "wav")
        return Response(content, media_type=media)

    @routes.get("/voices")
    async def voices() -> dict[str, Any]:
        return {one.name: {"audio": {"sample_rate": one.rate}, "num_speakers": max(1, len(one.speakers)),
                           "speaker_id_map": {name: number for number, name in enumerate(one.speakers)}, **one.about}
                for one in models.of_task("synthesize")}

    @routes.get("/info")
    async def info() -> dict[str, Any]:
        return {"voices": await voices()}

    return routes
