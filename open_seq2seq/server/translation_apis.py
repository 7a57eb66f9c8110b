"""The API of LibreTranslate."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request

from open_seq2seq.server.guard import key_in
from open_seq2seq.server.limits import Limits, Refused, check_texts
from open_seq2seq.server.own_api import hypotheses
from open_seq2seq.server.served import Models


async def fields_of(request: Request) -> dict[str, Any]:
    """Returns the fields of a request, an object in JSON or a form; fields of a form that come twice are lists.

    Raises:
      Refused: the body is neither.
    """
    kind = request.headers.get("content-type", "")
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


def router(models: Models, limits: Limits) -> APIRouter:
    """Returns the routes ``/translate`` and ``/languages``; errors are ``{"error": sentence}``."""
    routes = APIRouter(tags=["LibreTranslate"])

    @routes.post("/translate")
    async def translate(request: Request) -> dict[str, Any]:
        fields = await fields_of(request)
        allows = request.scope["state"]["allows"]
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
        count = _count(fields.get("alternatives", 0))
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


def _count(given: Any) -> int:
    if isinstance(given, bool) or not str(given).isdecimal() or int(given) > 1000:
        raise Refused(400, "The field 'alternatives' must be a number from 0 to 1000.", "alternatives")
    return int(given)
