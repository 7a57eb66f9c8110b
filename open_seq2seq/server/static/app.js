// The frame of the pages: one for each task that a model of this server can do.
import { h, json } from "./lib.js";
import * as classify from "./classify.js";
import * as complete from "./complete.js";
import * as recognize from "./recognize.js";
import * as speak from "./speak.js";
import * as translate from "./translate.js";

const PAGES = { translate, transcribe: recognize, synthesize: speak, classify, generate: complete };
const main = document.getElementById("main");
const nav = document.getElementById("nav");
let models = [];
let leave = () => {};

function about(model) {
  const rows = Object.entries(model.about ?? {}).filter(([, value]) => value !== null && value !== "");
  return h("dl", {}, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]));
}

function show() {
  leave();
  leave = () => {};
  const tasks = Object.keys(PAGES).filter(task => models.some(model => model.task === task));
  const task = tasks.find(one => location.hash === `#${one}`) ?? tasks[0];
  nav.replaceChildren(...tasks.map(one => h("a", { href: `#${one}`, ...(one === task && { "aria-current": "page" }) },
    PAGES[one].title)));
  if (!task) {
    main.replaceChildren(h("p", {}, "No model of this server has a page; see the API below."));
    return;
  }
  const mine = models.filter(model => model.task === task);
  const card = h("section", { className: "about", "aria-label": "The model" });
  const body = h("div");
  const choice = h("select", { id: "model" }, ...mine.map(model => h("option", {}, model.id)));
  const choose = () => {
    leave();
    const model = mine[Math.max(0, choice.selectedIndex)];
    leave = PAGES[task].render(body, model) ?? (() => {});
    card.replaceChildren(h("strong", {}, `The model ${model.id}`), about(model));
  };
  choice.addEventListener("change", choose);
  const chooser = mine.length > 1 ? [h("div", { className: "row" }, h("label", { htmlFor: "model" }, "Model"), choice)] : [];
  document.title = `${PAGES[task].title} – OpenSeq2Seq`;
  main.replaceChildren(h("h2", {}, PAGES[task].title), ...chooser, body, card);
  choose();
}

try {
  models = (await json("v1/models")).data;
  window.addEventListener("hashchange", () => { if (location.hash !== "#main") { show(); main.focus(); } });
  show();
} catch (error) {
  main.replaceChildren(h("p", { className: "error", role: "alert" }, error.message));
}
