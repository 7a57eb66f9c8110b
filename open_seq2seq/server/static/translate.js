// Translation, with alternatives, and with the source words that a word of the translation attends to.
import { action, h, json, seconds, status, submitByKey } from "./lib.js";

export const title = "Translate";
const ALTERNATIVES = 4;

/** The words of both sides; a word that is pointed at marks the words of the other side by their attention. */
function aligned({ source, target, attention }) {
  const shown = word => h("span", { className: "token" }, word);
  const sources = source.map(shown);
  const targets = target.map((word, row) => {
    const element = shown(word);
    element.tabIndex = 0;
    const mark = on => attention[row].forEach((weight, column) => {
      sources[column].style.background = on ? `color-mix(in srgb, var(--mark) ${Math.round(weight * 100)}%, transparent)` : "";
      sources[column].title = on ? `${Math.round(weight * 100)} %` : "";
    });
    for (const name of ["mouseenter", "focus"]) element.addEventListener(name, () => mark(true));
    for (const name of ["mouseleave", "blur"]) element.addEventListener(name, () => mark(false));
    return element;
  });
  const spaced = words => words.flatMap(word => [word, " "]);
  return [h("p", { className: "panel", id: "source-words" }, ...spaced(sources)),
    h("p", { className: "panel", id: "target-words" }, ...spaced(targets)),
    h("p", { className: "faint" }, "Point at a word of the translation, or move to it with Tab, to see what it attends to.")];
}

export function render(body, model) {
  const text = submitByKey(h("textarea", { id: "text", lang: model.source ?? "" }));
  const best = h("div", { className: "panel big", id: "translation", lang: model.target ?? "", "aria-live": "polite" });
  const others = h("ol", { id: "alternatives", start: 2 });
  const words = h("div", { id: "alignment" });
  const said = status();
  const button = h("button", {}, "Translate");
  const submit = action(button, said, async () => {
    const since = performance.now();
    const [translations] = (await json("v1/infer", { model: model.id, inputs: [text.value], n_best: ALTERNATIVES,
      alignment: true })).results;
    best.textContent = translations.hypotheses[0].text;
    others.replaceChildren(...translations.hypotheses.slice(1).map(one => h("li", {}, one.text)));
    words.replaceChildren(...(translations.alignment ? aligned(translations.alignment) : []));
    return seconds(since);
  });
  body.replaceChildren(h("form", { onsubmit: submit },
    h("div", { className: "pair" },
      h("div", {}, h("label", { htmlFor: "text" }, "Text"), text),
      h("div", {}, h("label", {}, "Translation"), best, others)),
    h("div", { className: "row" }, button, h("span", { className: "faint" }, "Ctrl+Enter")), said, words));
}
