// Recognition: the transcript grows while the microphone records, or a file is transcribed.
import { action, h, openStream, request, seconds, status } from "./lib.js";

export const title = "Transcribe";

/** Records and streams until `stop` is called; resolves with the whole transcript. */
async function record(model, hear, onStop) {
  if (!navigator.mediaDevices) throw new Error("The browser gives no microphone to this address: use https, or localhost.");
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: true }).catch(() => {
    throw new Error("The microphone cannot be used: allow it in the browser.");
  });
  const context = new AudioContext();
  const finish = () => {
    microphone.getTracks().forEach(track => track.stop());
    return context.close().catch(() => {});
  };
  try {
    await context.audioWorklet.addModule(new URL("recorder.js", import.meta.url));
    const recorder = new AudioWorkletNode(context, "recorder");
    context.createMediaStreamSource(microphone).connect(recorder);
    return await new Promise((resolve, reject) => {
      let ended = false;
      const waiting = []; // what is recorded before the connection stands
      const socket = openStream(model.id, context.sampleRate, answer => {
        if (answer.error) reject(new Error(answer.error));
        else if (answer.final) resolve(answer.text);
        else hear(answer);
      });
      const send = () => {
        while (socket.readyState === WebSocket.OPEN && waiting.length) socket.send(waiting.shift());
      };
      socket.addEventListener("open", send);
      recorder.port.onmessage = ({ data }) => {
        if (data.length) waiting.push(data.buffer);
        if (ended) waiting.push("end");
        send();
      };
      onStop(() => { ended = true; recorder.port.postMessage("rest"); });
      socket.addEventListener("close", () => reject(new Error("The server closed the connection.")));
    });
  } finally {
    await finish();
  }
}

async function transcribe(model, file) {
  const form = new FormData();
  form.append("file", file);
  form.append("model", model.id);
  form.append("response_format", "text");
  return (await request("v1/audio/transcriptions", form)).text();
}

export function render(body, model) {
  const sure = h("span");
  const open = h("span", { className: "faint" });
  const transcript = h("div", { className: "panel big", id: "transcript", "aria-live": "polite" }, sure, open);
  const said = status();
  const button = h("button", { type: "button", id: "record" }, "Record");
  const file = h("input", { type: "file", id: "file", accept: "audio/*" });
  let stop = null;
  const show = ({ text, stable }) => {
    const known = text.startsWith(stable) ? stable : "";
    sure.textContent = known;
    open.textContent = text.slice(known.length);
  };
  const start = async () => {
    button.disabled = true;
    said.className = "faint";
    said.textContent = "…";
    try {
      const text = await record(model, show, stopping => {
        stop = stopping;
        button.textContent = "Stop";
        button.disabled = false;
        said.textContent = "Recording: press the button again to stop.";
        if (!button.isConnected) stop(); // the page was left while the browser asked for the microphone
      });
      show({ text, stable: text });
      said.textContent = "";
    } catch (error) {
      said.className = "error";
      said.textContent = error.message;
    } finally {
      stop = null;
      button.disabled = false;
      button.textContent = "Record";
    }
  };
  button.addEventListener("click", () => {
    if (!stop) start();
    else {
      button.disabled = true;
      stop();
    }
  });
  file.addEventListener("change", action(file, said, async () => {
    const since = performance.now();
    const text = await transcribe(model, file.files[0]);
    show({ text, stable: text });
    return seconds(since);
  }));
  body.replaceChildren(h("div", { className: "row" }, button, h("div", {},
    h("label", { htmlFor: "file" }, "or a recording"), file)), transcript, said);
  return () => stop?.();
}
