"""Piper's API of speech synthesis."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from open_seq2seq.server.limits import Limits, Refused, check_texts
from open_seq2seq.server.openai_api import spoken
from open_seq2seq.server.served import Models, Served
from open_seq2seq.server.translation_apis import fields_of
from open_seq2seq.server.uploads import sound_file


def _number(given: Any) -> float | None:
    """Returns the number in a field of JSON or of a form; None if it is none."""
    try:
        return None if isinstance(given, (bool, list)) else float(given)
    except (TypeError, ValueError):
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


def router(models: Models, limits: Limits) -> APIRouter:
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

    def described() -> dict[str, Any]:
        return {one.name: {"audio": {"sample_rate": one.rate}, "num_speakers": max(1, len(one.speakers)),
                           "speaker_id_map": {name: number for number, name in enumerate(one.speakers)}, **one.about}
                for one in models.of_task("synthesize")}

    @routes.get("/voices")
    async def voices() -> dict[str, Any]:
        return described()

    @routes.get("/info")
    async def info() -> dict[str, Any]:
        return {"voices": described()}

    return routes
