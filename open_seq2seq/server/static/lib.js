// What the pages share: elements, requests, and the form of every page.

/** Makes an element. Strings become text, never markup. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const key = () => sessionStorage.getItem("key") || "";

/** Asks for the key of the server, and keeps it until the tab is closed. */
export function askForKey() {
  const given = window.prompt("This server needs a key:");
  if (given) sessionStorage.setItem("key", given);
  return Boolean(given);
}

/** Sends a request; returns the response, or throws an Error whose message is the server's sentence. */
export async function request(path, body) {
  const headers = key() ? { Authorization: `Bearer ${key()}` } : {};
  const options = { headers };
  if (body !== undefined) {
    options.method = "POST";
    options.body = body instanceof FormData ? body : JSON.stringify(body);
    if (!(body instanceof FormData)) headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer: is it still running?");
  }
  if ((response.status === 401 || response.status === 403) && askForKey()) return request(path, body);
  if (!response.ok) throw new Error(await sentence(response));
  return response;
}

async function sentence(response) {
  const body = await response.json().catch(() => null);
  const error = body?.error ?? body?.detail;
  return String(error?.message ?? error ?? `The server answered ${response.status}.`);
}

export const json = async (path, body) => (await request(path, body)).json();

/** Opens the stream of recognition; `hear` is called with each answer. */
export function openStream(model, rate, hear) {
  const address = new URL("v1/stream", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  address.hash = "";
  const socket = new WebSocket(address);
  socket.addEventListener("open", () => socket.send(JSON.stringify({ model, rate, api_key: key() })));
  socket.addEventListener("message", event => hear(JSON.parse(event.data)));
  return socket;
}

/** Runs an action of a button: once at a time, with its error shown in `status`. */
export function action(button, status, act) {
  return async event => {
    event?.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    status.className = "faint";
    status.textContent = "…";
    try {
      status.textContent = (await act()) ?? "";
    } catch (error) {
      status.className = "error";
      status.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  };
}

export const status = () => h("p", { role: "status", className: "faint" });

/** Makes Ctrl+Enter in a field submit its form. */
export function submitByKey(field) {
  field.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) field.form.requestSubmit();
  });
  return field;
}

export const seconds = since => `${((performance.now() - since) / 1000).toFixed(2)} s`;
