"""The scripts of the pages in Node.js, in the place of a browser something that only remembers what was done."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import open_seq2seq

STATIC = Path(open_seq2seq.__file__).parent / "server" / "static"
BROWSER = """
class Element extends EventTarget {
  isConnected = true;
  append() {}
  replaceChildren() {}
  setAttribute(name, value) { this[name] = value; }
}
const elements = [], sent = [];
let allow;
const track = { stop: () => sent.push("off") };
const allowed = new Promise(resolve => { allow = () => resolve({ getTracks: () => [track] }); });
globalThis.document = { createElement: () => elements[elements.push(new Element()) - 1] };
globalThis.location = { href: "http://localhost/" };
globalThis.sessionStorage = { getItem: () => "" };
Object.defineProperty(globalThis, "navigator", { value: { mediaDevices: { getUserMedia: () => allowed } } });
globalThis.AudioContext = class {
  audioWorklet = { addModule: async () => {} };
  createMediaStreamSource() { return { connect() {} }; }
  async close() {}
};
globalThis.AudioWorkletNode = class {
  port = { postMessage: () => setTimeout(() => this.port.onmessage({ data: new Int16Array(0) })) };
};
globalThis.WebSocket = class extends EventTarget {
  static OPEN = 1;
  readyState = 1;
  constructor() { super(); setTimeout(() => this.dispatchEvent(new Event("open"))); }
  send(message) {
    sent.push(message);
    if (message === "end") this.dispatchEvent(new MessageEvent("message", { data: '{"text": "", "final": true}' }));
  }
};
"""
LEAVES = """
const { render } = await import(`${process.argv[2]}/recognize.js`);
const leave = render(new Element(), { id: "asr" });
elements.find(one => one.id === "record").dispatchEvent(new Event("click"));
leave();
elements.forEach(one => { one.isConnected = false; });
allow();
setTimeout(() => { console.log(sent.slice(1).join(" ")); process.exit(); }, 500);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_a_recording_ends_if_its_page_is_left_before_the_microphone_is_allowed(tmp_path):
    shutil.copytree(STATIC, tmp_path / "static")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "leaves.mjs").write_text(BROWSER + LEAVES)
    done = subprocess.run(["node", "leaves.mjs", "./static"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.stdout.split() == ["end", "off"], done.stdout + done.stderr
