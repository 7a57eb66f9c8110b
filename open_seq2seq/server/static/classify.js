// Classification of a text, or of a file: a picture, a recording of a command, or a text.
import { action, h, json, request, seconds, status, submitByKey } from "./lib.js";

export const title = "Classify";
const MOST = 5;

const bar = ({ label, score }) => h("div", { className: "bar" }, h("span", {}, label),
  h("progress", { max: 1, value: score, "aria-label": label }), h("span", {}, `${(100 * score).toFixed(1)} %`));

export function render(body, model) {
  const readsFiles = model.input !== "text";
  const said = status();
  const bars = h("div", { id: "classes", "aria-live": "polite" });
  const picture = h("img", { alt: "The chosen picture", hidden: true });
  const text = submitByKey(h("textarea", { id: "text" }));
  const file = h("input", { type: "file", id: "file" });
  const button = h("button", {}, "Classify");
  const show = answer => bars.replaceChildren(...answer.results[0].classes.slice(0, MOST).map(bar));
  const submit = action(button, said, async () => {
    const since = performance.now();
    if (readsFiles) {
      const form = new FormData();
      form.append("file", file.files[0]);
      form.append("model", model.id);
      show(await (await request("v1/infer", form)).json());
    } else {
      show(await json("v1/infer", { model: model.id, inputs: [text.value] }));
    }
    return seconds(since);
  });
  const take = async given => {
    if (!given) return;
    if (readsFiles) {
      URL.revokeObjectURL(picture.src);
      picture.hidden = !given.type.startsWith("image/");
      if (!picture.hidden) picture.src = URL.createObjectURL(given);
    } else {
      text.value = await given.text();
    }
    submit();
  };
  file.addEventListener("change", () => take(file.files[0]));
  const place = h("div", { className: "drop",
    ondragover: event => { event.preventDefault(); place.classList.add("over"); },
    ondragleave: () => place.classList.remove("over"),
    ondrop: event => {
      event.preventDefault();
      place.classList.remove("over");
      if (readsFiles && event.dataTransfer.files.length) file.files = event.dataTransfer.files;
      take(event.dataTransfer.files[0]);
    } },
  ...(readsFiles ? [] : [h("label", { htmlFor: "text" }, "Text"), text]),
  h("label", { htmlFor: "file" }, "Drop a file here, or choose one"), file, picture);
  body.replaceChildren(h("form", { onsubmit: submit }, place, h("div", { className: "row" }, button)), said, bars);
  return () => URL.revokeObjectURL(picture.src);
}
