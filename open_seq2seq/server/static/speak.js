// Synthesis: a text becomes sound, with its spectrogram.
import { action, h, request, seconds, status, submitByKey } from "./lib.js";

export const title = "Speak";
const SIZE = 512; // samples of a window of the spectrogram, a power of two

/** Magnitudes of the lower half of the spectrum of `SIZE` samples. */
function spectrum(samples) {
  const real = Float32Array.from(samples, (value, place) => value * (0.5 - 0.5 * Math.cos(2 * Math.PI * place / SIZE)));
  const imaginary = new Float32Array(SIZE);
  for (let place = 0, other = 0; place < SIZE; place++) {
    if (place < other) [real[place], real[other]] = [real[other], real[place]];
    let bit = SIZE >> 1;
    while (other & bit) { other ^= bit; bit >>= 1; }
    other |= bit;
  }
  for (let length = 2; length <= SIZE; length *= 2) {
    for (let start = 0; start < SIZE; start += length) {
      for (let place = 0; place < length / 2; place++) {
        const angle = -2 * Math.PI * place / length;
        const [a, b] = [start + place, start + place + length / 2];
        const re = real[b] * Math.cos(angle) - imaginary[b] * Math.sin(angle);
        const im = real[b] * Math.sin(angle) + imaginary[b] * Math.cos(angle);
        [real[b], imaginary[b]] = [real[a] - re, imaginary[a] - im];
        [real[a], imaginary[a]] = [real[a] + re, imaginary[a] + im];
      }
    }
  }
  return real.slice(0, SIZE / 2).map((value, place) => Math.hypot(value, imaginary[place]));
}

/** Draws time to the right, frequency up, and 80 dB below the loudest as black. */
function draw(canvas, samples) {
  const width = Math.max(1, Math.min(900, Math.floor(samples.length / 64)));
  const height = SIZE / 2;
  [canvas.width, canvas.height] = [width, height];
  const columns = Array.from({ length: width }, (_, column) => {
    const start = Math.floor(column * samples.length / width) - SIZE / 2;
    const piece = Float32Array.from({ length: SIZE }, (_, place) => samples[start + place] ?? 0);
    return spectrum(piece);
  });
  const loudest = Math.max(1e-9, ...columns.map(column => Math.max(...column)));
  const picture = canvas.getContext("2d").createImageData(width, height);
  columns.forEach((column, x) => column.forEach((value, y) => {
    const level = Math.max(0, 1 + 20 * Math.log10(Math.max(value / loudest, 1e-9)) / 80);
    const at = 4 * ((height - 1 - y) * width + x);
    picture.data.set([255 * level ** 1.5, 220 * level ** 2.5, 90 + 120 * level * (1 - level) - 90 * (level === 0), 255], at);
  }));
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

export function render(body, model) {
  const text = submitByKey(h("textarea", { id: "text" }));
  const speaker = model.speakers && h("select", { id: "speaker" }, ...model.speakers.map(name => h("option", {}, name)));
  const speed = h("input", { type: "range", id: "speed", min: 0.5, max: 2, step: 0.1, value: 1 });
  const said = status();
  const canvas = h("canvas", { id: "spectrogram", role: "img", hidden: true });
  canvas.setAttribute("aria-label", "Spectrogram of the speech");
  const player = h("audio", { id: "player", controls: true, hidden: true });
  const button = h("button", {}, "Speak");
  const submit = action(button, said, async () => {
    const since = performance.now();
    const bytes = await (await request("v1/audio/speech", { model: model.id, input: text.value,
      response_format: "wav", ...(speaker && { voice: speaker.value }),
      ...(speed.value !== "1" && { speed: Number(speed.value) }) })).arrayBuffer();
    if (!player.isConnected) return; // the page was left meanwhile
    const took = seconds(since);
    URL.revokeObjectURL(player.src);
    player.src = URL.createObjectURL(new Blob([bytes], { type: "audio/wav" }));
    [player.hidden, canvas.hidden] = [false, false];
    // Decoded at the rate that the head of the WAV file names, so that the spectrogram has no empty part.
    const rate = new DataView(bytes).getUint32(24, true);
    const sound = await new OfflineAudioContext(1, 1, rate).decodeAudioData(bytes);
    draw(canvas, sound.getChannelData(0));
    await player.play().catch(() => {});
    return `${sound.duration.toFixed(2)} s of speech in ${took}`;
  });
  body.replaceChildren(h("form", { onsubmit: submit }, h("label", { htmlFor: "text" }, "Text"), text,
    h("div", { className: "row" }, button, h("label", { htmlFor: "speed" }, "Speed"), speed,
      ...(speaker ? [h("label", { htmlFor: "speaker" }, "Speaker"), speaker] : []))), said, player, canvas);
  return () => { player.pause(); URL.revokeObjectURL(player.src); };
}
