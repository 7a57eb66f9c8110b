"""The models of a server by name, what a request asks of them, and the batches that requests share."""

from __future__ import annotations

import asyncio
import contextlib
import locale
import os
import queue
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.data.text2speech.front_end import spoken_at
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.server.limits import Limits, Refused, check_characters
from open_seq2seq.server.streaming import Streams, in_thread
from open_seq2seq.utils.errors import ConfigError, UserError
from open_seq2seq.utils.shipped import TOY

SECONDS = 0.02
"""How long the first of the waiting requests waits for others."""
Compute = Callable[[list[Any]], list[Any]]


@dataclass
class _Request:
    key: str
    compute: Compute
    inputs: list[Any]
    future: Future[list[Any]] = field(default_factory=Future)


class Batcher:
    """Computes the inputs of requests in the order in which they arrive; inputs of several requests share batches.

    Requests wait for others at most ``SECONDS`` after the first one. If requests fail together, each is computed alone,
    so that a mistake does not concern the others.

    Args:
      most: most inputs that are computed together.
      waiting: most inputs that wait.
    """

    def __init__(self, most: int, waiting: int) -> None:
        self._most, self._waiting = most, waiting
        self._queue: queue.Queue[_Request | None] = queue.Queue()
        self._count = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """Number of inputs that wait or are being computed."""
        return self._count

    def submit(self, inputs: Sequence[Any], compute: Compute, key: str) -> Future[list[Any]]:
        """Adds a request; returns its future results, one for each input.

        Args:
          inputs: the inputs.
          compute: function from a list of inputs to their results, which do not depend on one another.
          key: requests with the same key have the same function.

        Raises:
          Refused: too many inputs wait already.
        """
        request = _Request(key, compute, list(inputs))
        with self._lock:
            if self._count and self._count + len(request.inputs) > self._waiting:
                raise Refused(503, f"{self._count:,} inputs wait for this model already: try again later.",
                              retry_after=1)
            self._count += len(request.inputs)
        request.future.add_done_callback(lambda _: self._leave(len(request.inputs)))
        self._queue.put(request)
        return request.future

    def _leave(self, count: int) -> None:
        with self._lock:
            self._count -= count

    def close(self) -> None:
        """Ends after what waits now has been computed."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            gathered, ended = self._gathered(first)
            for key in dict.fromkeys(request.key for request in gathered):
                _compute([request for request in gathered if request.key == key])
            del first, gathered  # so that the inputs do not stay in memory
            if ended:
                return

    def _gathered(self, first: _Request) -> tuple[list[_Request], bool]:
        """Returns the requests to compute now, and whether there will be no more."""
        requests, count, end = [first], len(first.inputs), time.monotonic() + SECONDS
        while count < self._most:
            try:
                request = self._queue.get(timeout=max(end - time.monotonic(), 0.0))
            except queue.Empty:
                break
            if request is None:
                return requests, True
            requests.append(request)
            count += len(request.inputs)
        return requests, False


def _compute(requests: list[_Request]) -> None:
    """Computes requests with the same function; those that have waited too long are left out."""
    requests = [request for request in requests if request.future.set_running_or_notify_cancel()]
    if not requests:
        return
    try:
        results = requests[0].compute([one for request in requests for one in request.inputs])
    except Exception as error:
        if len(requests) == 1:
            requests[0].future.set_exception(error)
            return
        for request in requests:
            _answer_alone(request)
        return
    for request in requests:
        request.future.set_result(results[:len(request.inputs)])
        results = results[len(request.inputs):]


def _answer_alone(request: _Request) -> None:
    try:
        request.future.set_result(request.compute(request.inputs))
    except Exception as error:
        request.future.set_exception(error)


_LANGUAGES = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")
_LANGUAGE = re.compile(r"([a-z]{2,3})([-_][A-Z]{2})?(-.*)?")
# Python knows the languages that have locales.
_CODES = {alias.partition("_")[0] for alias in locale.locale_alias if re.match(r"[a-z]{2,3}_", alias)}
_MOST_GATHERED = 64  # inputs, if the batch size of the config counts something else
_SAMPLING: dict[str, dict[str, Any]] = {
    "greedy": {"sampling_temperature": None, "sampling_top_k": None, "sampling_top_p": None},
    "sampled": {"sampling_temperature": 1.0, "sampling_top_p": None},
    "nucleus": {"sampling_temperature": 1.0, "sampling_top_p": 1.0}}
COMPLETIONS: dict[str, dict[str, Any]] = {
    kind: {"infer_task": "generate", "encoder_params": params} for kind, params in _SAMPLING.items()}
"""Values of the config for each kind of completion, which is compiled once; ``generating`` sets all other values."""


class Served:
    """A model of the server.

    Args:
      name: its name. A name such as ``en-de`` says from which language into which a model translates.
      trained: the loaded model.
      about: what the page says of it, by name.
      limits: the limits of the server.

    Attributes:
      task: ``Model.verb`` of the model: translate, transcribe, classify, generate or synthesize.
      source: code of the language of the inputs; ``auto`` if the name says none.
      target: code of the language of the results; the name itself if it says none.
      language: code of the language that a recogniser or a voice is for, by ``language_in`` its name; "" if unknown.
      created: when it was loaded, in seconds since 1970.
      values_of_n_best: values of the config for requests that want several translations.
      values_of_all: the same for requests that also want alignments.

    Raises:
      UserError: the model reads spectrograms.
    """

    def __init__(self, name: str, trained: TrainedModel, about: Mapping[str, str], limits: Limits) -> None:
        layer = trained.model.data_layer
        languages = _LANGUAGES.fullmatch(name)
        self.name, self.trained, self.about, self._limits = name, trained, dict(about), limits
        self.task = str(trained.model.verb)
        self.source, self.target = languages.groups() if languages else ("auto", name)
        self.language = language_in(name)
        if self.task == "synthesize" and self.input != "text":
            raise UserError(f"The model {name} makes the sound of spectrograms, which no API has: it cannot be served.")
        self.created = int(time.time())
        self.batcher = Batcher(layer.batch_budget if layer.counts_examples else _MOST_GATHERED, limits.waiting)
        self.streams = Streams(trained.model)
        self.values_of_n_best: dict[str, Any] = {}
        self.values_of_all: dict[str, Any] = {}

    @property
    def input(self) -> str:
        """What the model reads: text, recording or image."""
        layer = self.trained.model.data_layer
        if layer.reads_lines or self.task == "generate":
            return "text"
        return "image" if hasattr(layer, "interactive_pixels") else "recording"

    @property
    def rate(self) -> int:
        """Sampling rate of the sound that the model speaks, in Hz."""
        return int(self.trained.model.data_layer.settings.sample_freq)  # type: ignore[attr-defined]

    @property
    def speakers(self) -> list[str]:
        """Names of the speakers of the model, if it has several."""
        speakers: Any = getattr(self.trained.model.data_layer, "speakers", None)
        return list(speakers.names) if speakers is not None and speakers.are_several else []

    @property
    def most_hypotheses(self) -> int:
        """Largest number of translations of a sentence."""
        decoder: Any = getattr(self.trained.model, "decoder", None)
        return int(decoder.params.get("beam_size") or decoder.params.get("beam_width") or 1) if decoder else 1

    def described(self) -> dict[str, Any]:
        """Returns the entry of the model in the list of models."""
        return {"id": self.name, "object": "model", "created": self.created, "owned_by": "open-seq2seq",
                "task": self.task, "input": self.input, "source": self.source, "target": self.target,
                "about": self.about, **({"speakers": self.speakers} if self.speakers else {})}

    async def infer(self, inputs: Sequence[Any], values: Mapping[str, Any] | None = None, first: int | None = None,
                    generation: Mapping[str, Any] | None = None) -> list[Any]:
        """Returns the full result of each input, in order.

        Args:
          inputs: what ``TrainedModel.infer`` accepts.
          values: values of the config for this request.
          first: number of the first input, on which random samples depend; the request then shares no batch.
          generation: what ``TrainedModel.infer`` accepts, for values that need no variant of the model.

        Raises:
          Refused: too many inputs wait, too much is to be spoken, or the time is over.
          UserError: an input cannot be used.
        """
        if self.input != "text" and any(isinstance(one, str) for one in inputs):  # which would be read as a path
            raise Refused(400, f"The model {self.name} reads a {self.input}, not a text.")
        if self.task == "synthesize":
            check_characters([spoken_at(one).text for one in inputs], self._limits.spoken_characters)
        key = f"{values} {generation}" if first is None else f"{values} {id(inputs)}"

        def compute(gathered: list[Any]) -> list[Any]:
            variant = self.trained if values is None else self.trained.variant(values)
            return variant.infer(gathered, first or 0, generation)

        return await self.computed(inputs, compute, key)

    async def heard(self, samples: np.ndarray, rate: int, size: int) -> AsyncIterator[str]:
        """Yields the stable part of the transcript of a recording as it grows, and finally the whole transcript.

        Args:
          samples: ``[samples]`` from -1 to 1.
          rate: sampling rate in Hz.
          size: number of samples that are heard at a time.

        Raises:
          ConfigError: the model cannot be streamed.
        """
        with contextlib.ExitStack() as stack:
            asr = await in_thread(stack.enter_context, self.streams.stream(rate))
            for start in range(0, len(samples), size):
                yield (await in_thread(self.streams.hear, asr, samples[start:start + size])).stable
            yield await in_thread(self.streams.finish, asr)

    def warm(self) -> None:
        """Answers a first input, because the first one takes seconds, and builds what other requests need.

        Afterwards, nothing is read from the log directory, which may disappear or be replaced.
        """
        if self.task == "translate":
            self._build_variants()
        elif self.task == "generate":
            for values in ({"infer_task": "generate"}, *COMPLETIONS.values()):
                self.trained.variant(values)
        inputs = {"text": "a", "image": np.zeros([64, 64, 3], np.uint8),
                  "recording": (np.random.default_rng(0).uniform(-0.1, 0.1, 16_000).astype(np.float32), 16_000)}
        with contextlib.suppress(UserError):
            for count in (1, 2):  # one input alone is computed by another compiled function
                self.trained.infer([inputs[self.input]] * count)

    def _build_variants(self) -> None:
        self.values_of_n_best = {"decoder_params": {"n_best": self.most_hypotheses}} if self.most_hypotheses > 1 else {}
        self.values_of_all = self.values_of_n_best
        self.trained.variant(self.values_of_n_best)
        with contextlib.suppress(ConfigError):  # of a model without attention that could be shown
            self.trained.variant({**self.values_of_n_best, "save_alignments": True})
            self.values_of_all = {**self.values_of_n_best, "save_alignments": True}

    async def computed(self, inputs: Sequence[Any], compute: Callable[[list[Any]], list[Any]], key: str) -> list[Any]:
        """Returns the results of a function of inputs, computed in turn with other requests; see ``Batcher``."""
        future = self.batcher.submit(inputs, compute, key)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._limits.seconds)
        except TimeoutError as error:
            raise Refused(408, f"The answer took longer than {self._limits.seconds:g} seconds: send less at a time, or "
                          "try again later.") from error


class Models:
    """The models of a server.

    Args:
      served: the models, the first of each task being its default.
    """

    def __init__(self, served: Sequence[Served]) -> None:
        self.by_name = {one.name: one for one in served}

    def of_task(self, *tasks: str) -> list[Served]:
        """Returns the models of these tasks."""
        return [one for one in self.by_name.values() if one.task in tasks]

    def named(self, name: str | None, *tasks: str) -> Served:
        """Returns a model by name, or the first one of the tasks if the name is None.

        Raises:
          Refused: there is none.
        """
        known = self.of_task(*tasks) if tasks else [*self.by_name.values()]
        if name is None and known:
            return known[0]
        model = self.by_name.get(name or "")
        if model in known and model is not None:
            return model
        names = ", ".join(one.name for one in known) or "none"
        what = ("No model here does this" if name is None else f"The model {name!r:.60} does not do this" if model else
                f"There is no model {name!r:.60}")
        raise Refused(404, f"{what}: this server has {names}.", "model")

    def translating(self, source: str, target: str) -> Served:
        """Returns the model that translates from a language, or ``auto``, into a language.

        Raises:
          Refused: there is none.
        """
        known = self.of_task("translate")
        for one in known:
            if one.target == target and (source in ("auto", one.source) or one.source == "auto"):
                return one
        pairs = ", ".join(f"{one.source} to {one.target}" for one in known) or "nothing"
        raise Refused(400, f"This server does not translate from {source!r:.20} to {target!r:.20}: it translates "
                      f"{pairs}.")

    def speaking(self, language: str, task: str) -> Served:
        """Returns the recogniser or voice of a language, or else one whose language is not known.

        Args:
          language: code of the language, perhaps with a region, such as ``en-US``.
          task: ``transcribe`` or ``synthesize``.

        Raises:
          Refused: all are for other languages, or there is none.
        """
        code = re.split("[-_]", language.lower())[0]
        known = self.of_task(task)
        matching = [one for wanted in (code, "") for one in known if one.language == wanted]
        if matching:
            return matching[0]
        names = ", ".join(one.name for one in known) or "none"
        raise Refused(404, f"No model here is for the language {language!r:.20}: this server has {names}.", "language")

    def close(self) -> None:
        """Ends after the requests that wait now have been answered."""
        for one in self.by_name.values():
            one.batcher.close()


def language_in(name: str) -> str:
    """Returns the code of the language with which the name of a model begins; "" without one.

    A hyphen or the end of the name follows the language, which may have a region.

    >>> [language_in(name) for name in ("en", "de-voice", "pt_BR-news", "my_run", "asr", "lm-2", "voice")]
    ['en', 'de', 'pt', '', '', '', '']
    """
    match = _LANGUAGE.fullmatch(name)
    return match[1] if match and match[1] in _CODES else ""


def name_of(logdir: str | os.PathLike[str]) -> str:
    """Returns the name of a model that is given none: that of its folder, packed model or toy model.

    Characters that names must not have become dashes.
    """
    path = Path(os.fspath(logdir).removeprefix(TOY)).resolve()
    return re.sub(r"[^\w.-]+", "-", path.name if path.is_dir() else path.stem, flags=re.ASCII)


def parse_names(words: Sequence[str]) -> dict[str, str]:
    """Returns the logdirs of ``name=logdir`` by name; a logdir alone has the name that ``name_of`` gives it.

    A word that is the path of a folder or a file is a logdir, also if it contains ``=``, as those of sweeps do.

    Raises:
      UserError: two models have the same name, or a name has other characters than letters, digits and ``.-_``.
    """
    logdirs: dict[str, str] = {}
    for word in words:
        name, equals, logdir = word.partition("=")
        if not equals or os.path.exists(word):
            name, logdir = name_of(word), word
        if not re.fullmatch(r"[\w.-]*\w[\w.-]*", name, re.ASCII):
            lost = f"There is no folder or file {word!r}, and " if "/" in name else ""
            raise UserError(f"{lost}{name!r} cannot be the name of a model: use letters, digits, '.', '-' and '_', as "
                            "in en-de=LOGDIR.")
        if name in logdirs:
            raise UserError(f"Two models have the name {name!r}: give them names, as in en-de=LOGDIR1 asr=LOGDIR2.")
        logdirs[name] = logdir
    return logdirs
