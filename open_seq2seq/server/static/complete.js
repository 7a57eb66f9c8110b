// A language model goes on from a prompt.
import { action, h, json, seconds, status, submitByKey } from "./lib.js";

export const title = "Complete";

export function render(body, model) {
  const text = submitByKey(h("textarea", { id: "text" }));
  const length = h("input", { type: "number", id: "length", min: 1, max: 500, value: 30 });
  const given = h("span", { className: "faint" });
  const more = h("span");
  const output = h("div", { className: "panel big", id: "completion", "aria-live": "polite" }, given, more);
  const said = status();
  const button = h("button", {}, "Complete");
  const submit = action(button, said, async () => {
    const since = performance.now();
    const completion = await json("v1/completions", { model: model.id, prompt: text.value, max_tokens: Number(length.value) });
    given.textContent = text.value;
    more.textContent = completion.choices[0].text;
    return `${completion.usage.completion_tokens} tokens in ${seconds(since)}`;
  });
  body.replaceChildren(h("form", { onsubmit: submit }, h("label", { htmlFor: "text" }, "Beginning"), text,
    h("div", { className: "row" }, button, h("label", { htmlFor: "length" }, "Most tokens"), length)), output, said);
}
