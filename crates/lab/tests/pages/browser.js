// Looks at pages in headless Chromium as people do: wide and narrow, light and dark, with a script and without.
//
//   node browser.js [--shots DIR] PAGE|URL..
//   node browser.js --alarm                    are pages that are wrong found to be?
//   node browser.js --beside MINUTES PID URL   a live page for so long: CPU of its server (PID), memory of the page, what
//                                              it shows of a power cut, and what it loses when it is opened again
//
// Of every page: no error is said, nothing is asked of a network, no text is smaller than 11 px, nothing is wider
// than the window, no label lies on another. Of a page of results (results.json beside it): every number of the
// document is in the page without a script; its answers lead to panels within one screen; keys and a drag choose a
// range; the address shows the same elsewhere. Of a page of a timeline: the slowest request leads to its row, a click
// there tells what it waited for. Folded, a page of studies is at most 12,000 px high at 1,280.
// Prints a line for each page and look, then what is wrong; the exit code is the number of faults, at most 1.
"use strict";
const fs = require("fs"), os = require("os"), path = require("path"), { spawn } = require("child_process");

const LEAST_PX = 11, MOST_HIGH = 12000, MOST_BYTES = 600 << 10;
const LOOKS = [];
for (const width of [1280, 390]) for (const dark of [false, true]) for (const script of [true, false]) LOOKS.push({ width, dark, script });

class Browser {
  constructor(program) {
    this.home = fs.mkdtempSync(path.join(os.tmpdir(), "varve-browser-"));
    const options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run",
      "--hide-scrollbars", `--user-data-dir=${this.home}`, "about:blank"];
    this.child = spawn(program, options, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.waiting = new Map(); this.listeners = []; this.next = 1;
    this.child.on("error", (error) => { console.error(`${program}: ${error.message}`); process.exit(2); });
    let rest = Buffer.alloc(0);
    this.child.stdio[4].on("data", (data) => {
      rest = Buffer.concat([rest, data]);
      for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1)) this.heard(JSON.parse(rest.subarray(0, end).toString()));
    });
  }
  heard(message) {
    const waits = message.id && this.waiting.get(message.id);
    if (!waits) return this.listeners.forEach((listener) => listener(message));
    this.waiting.delete(message.id);
    if (message.error) waits.reject(new Error(`${waits.method}: ${message.error.message}`)); else waits.resolve(message.result);
  }
  send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    this.child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject, method }));
  }
  async end() {
    const gone = new Promise((resolve) => this.child.on("exit", resolve));
    await this.send("Browser.close").catch(() => {});
    await Promise.race([gone, pause(5000)]);
    if (this.child.exitCode === null) this.child.kill("SIGKILL");
    for (let left = 20; left > 0; left--) {
      try { fs.rmSync(this.home, { recursive: true, force: true }); break; } catch { await pause(100); }
    }
  }
}
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A tab, and what went wrong in it.
class Tab {
  static async open(browser, { width, dark, script }) {
    const tab = new Tab();
    const { browserContextId } = await browser.send("Target.createBrowserContext");
    const { targetId } = await browser.send("Target.createTarget", { url: "about:blank", browserContextId });
    const { sessionId } = await browser.send("Target.attachToTarget", { targetId, flatten: true });
    Object.assign(tab, { browser, sessionId, browserContextId, faults: [], loaded: null });
    tab.listener = (message) => { if (message.sessionId === sessionId) tab.heard(message); };
    browser.listeners.push(tab.listener);
    for (const domain of ["Page", "Runtime", "Log", "Network", "Performance"]) await tab.send(`${domain}.enable`);
    await tab.send("Emulation.setDeviceMetricsOverride", { width, height: width < 600 ? 844 : 800, deviceScaleFactor: 1, mobile: width < 600 });
    await tab.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
    if (!script) await tab.send("Emulation.setScriptExecutionDisabled", { value: true });
    return tab;
  }
  send(method, params) { return this.browser.send(method, params, this.sessionId); }
  heard({ method, params }) {
    if (method === "Page.loadEventFired" && this.loaded) this.loaded();
    if (method === "Runtime.exceptionThrown") this.faults.push(`error: ${params.exceptionDetails.exception?.description || params.exceptionDetails.text}`);
    if (method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(params.type)) this.faults.push(`console: ${params.args.map((a) => a.value).join(" ")}`);
    if (method === "Log.entryAdded" && ["error", "warning"].includes(params.entry.level)) this.faults.push(`log: ${params.entry.text}`);
    if (method === "Network.requestWillBeSent" && params.type !== "Document" && !this.mayAsk(params)) this.faults.push(`network: asks for ${params.request.url}`);
  }
  // What is inline; and of a live page the events of the program that it came from.
  mayAsk({ type, request }) {
    return request.url.startsWith("data:") || (type === "EventSource" && request.url === new URL("events", this.url).href);
  }
  async go(url) {
    const loaded = new Promise((resolve) => { this.loaded = resolve; });
    this.url = url;
    const { errorText } = await this.send("Page.navigate", { url });
    if (errorText) throw new Error(`${url}: ${errorText}`);
    await loaded;
    await pause(250);
  }
  // Works without the page's own script, too: it is evaluated from outside.
  async ask(expression) {
    const said = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (said.exceptionDetails) throw new Error(said.exceptionDetails.exception?.description || said.exceptionDetails.text);
    return said.result.value;
  }
  async cpu() {
    const { metrics } = await this.send("Performance.getMetrics");
    return metrics.find((m) => m.name === "ThreadTime").value * 1000;
  }
  // A picture for each screen or two, so that one can read them.
  async shot(file) {
    const { cssContentSize: size } = await this.send("Page.getLayoutMetrics"), high = 1600;
    for (let n = 0; n * high < size.height && n < 12; n++) {
      const clip = { x: 0, y: n * high, width: size.width, height: Math.min(high, size.height - n * high), scale: 1 };
      const { data } = await this.send("Page.captureScreenshot", { clip, captureBeyondViewport: true });
      fs.writeFileSync(file.replace(".png", `-${n}.png`), Buffer.from(data, "base64"));
    }
  }
  async mouse(type, x, y, buttons = 0) {
    await this.send("Input.dispatchMouseEvent", { type, x, y, button: type === "mouseMoved" ? "none" : "left", buttons, clickCount: 1 });
  }
  async press(key, modifiers = 0) {
    const windowsVirtualKeyCode = { Home: 36, End: 35 }[key];
    for (const type of ["keyDown", "keyUp"]) await this.send("Input.dispatchKeyEvent", { type, key, code: key, modifiers, windowsVirtualKeyCode });
  }
  async close() {
    this.browser.listeners.splice(this.browser.listeners.indexOf(this.listener), 1);
    await this.browser.send("Target.disposeBrowserContext", { browserContextId: this.browserContextId });
  }
}

// Runs in the page: small texts, wide things, labels that touch.
function layout(least) {
  const faults = [], seen = new Set();
  const say = (what) => { if (!seen.has(what) && faults.length < 12) { seen.add(what); faults.push(what); } };
  if (document.documentElement.scrollWidth > innerWidth) {
    say(`${document.documentElement.scrollWidth} px wide in a window of ${innerWidth}`);
    for (const at of document.querySelectorAll("body *")) {
      const box = at.getBoundingClientRect();
      if (box.right > innerWidth + 1 && box.width > 0 && !at.closest(".scroll,pre,.runs")) say(`  ${at.tagName}.${at.className}: to ${Math.round(box.right)} px`);
    }
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), groups = new Map();
  for (let node; (node = walker.nextNode());) {
    const at = node.parentElement, words = node.textContent.trim();
    if (!words || !at.checkVisibility({ visibilityProperty: true }) || at.closest("noscript,script,style,option")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    // A drawing is scaled: what counts is what is seen.
    const svg = at.closest("svg"), scale = svg && svg.viewBox.baseVal ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    const size = parseFloat(getComputedStyle(at).fontSize) * scale;
    if (size < least - 0.05) say(`${size.toFixed(1)} px: ${words.slice(0, 40)}`);
    const figure = at.closest("figure,.hbars,.brief li,.number,.bar-top,.keys");
    if (figure && !groups.has(figure)) groups.set(figure, []);
    if (figure) groups.get(figure).push([box, words, at]);
  }
  // The corners of a label: a text in a drawing may stand aslant.
  const corners = ([box, , at]) => {
    const of = ({ left, right, top, bottom }) => [[left, top], [right, top], [right, bottom], [left, bottom]];
    const text = at.closest("text"), matrix = text && text.getScreenCTM();
    if (!matrix) return of(box);
    const { x, y, width, height } = text.getBBox();
    return of({ left: x, right: x + width, top: y, bottom: y + height }).map(([px, py]) =>
      [matrix.a * px + matrix.c * py + matrix.e, matrix.b * px + matrix.d * py + matrix.f]);
  };
  // Two of them touch if no line parts them, with a little room on their sides and more between lines.
  const touch = (a, b) => [a, b].every((label) => [0, 1].every((side) => {
    const [x, y] = [label[side + 1][0] - label[side][0], label[side + 1][1] - label[side][1]], long = Math.hypot(x, y) || 1;
    const along = (all) => { const at = all.map((p) => (p[0] * x + p[1] * y) / long); return [Math.min(...at), Math.max(...at)]; };
    const [one, other] = [along(a), along(b)];
    return Math.min(one[1], other[1]) - Math.max(one[0], other[0]) > (side ? 2.5 : 1);
  }));
  for (const labels of groups.values()) {
    // Texts that are cut off by their box have no place beyond it.
    for (const one of labels) {
      const cut = one[2].closest("[class]"), box = cut && getComputedStyle(cut).overflowX === "hidden" ? cut.getBoundingClientRect() : null;
      if (box) one[0] = { left: Math.max(one[0].left, box.left), right: Math.min(one[0].right, box.right), top: one[0].top, bottom: one[0].bottom };
    }
    const quads = labels.map(corners);
    for (let i = 0; i < labels.length; i++) for (let k = i + 1; k < labels.length; k++) {
      if (touch(quads[i], quads[k])) say(`labels touch: "${labels[i][1].slice(0, 30)}" and "${labels[k][1].slice(0, 30)}"`);
    }
  }
  return { faults, height: document.documentElement.scrollHeight };
}

// All texts of a page, each for itself: two cells side by side are two numbers.
const WORDS = `(() => { const all = [], w = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = w.nextNode());) all.push(n.textContent); return all.join("\\n"); })()`;

// Every number of the document that is not in the page.
function missing(words, results) {
  const there = new Set((words.match(/-?\d[\d.]*(?:e[+-]?\d+)?/g) || []).map(Number)), lost = [];
  (function walk(at, where) {
    if (typeof at === "number") { if (!there.has(at) && lost.length < 5) lost.push(`${where} = ${at}`); }
    else if (at && typeof at === "object") for (const [key, inner] of Object.entries(at)) walk(inner, `${where}.${key}`);
  })(results.results, "results");
  return lost;
}

// What is drawn when it comes near the window is seen, too.
async function throughout(tab, script) {
  const high = await tab.ask("document.documentElement.scrollHeight");
  for (let y = 0; y < high + 800; y += 700) {
    await tab.ask(`scrollTo(0, ${y})`);
    if (script) await pause(60);
  }
  await tab.ask("scrollTo(0, 0)");
}

// What is tried: the first of these that there is.
const LANE = "#panel-waf .field, #panel-read .field, #panel-timeline .field";

// The slowest request, by its row and by a click on what is drawn of it.
async function picked(tab) {
  const faults = [], told = () => tab.ask(`(() => { const p = document.getElementById("panel-picked"); return p.hidden ? "" : document.getElementById("picked-words").textContent; })()`);
  const slow = await tab.ask(`document.querySelector("#slowest tbody tr").dataset.request`);
  await tab.ask(`document.querySelector("#slowest tbody .tool").click()`);
  await pause(200);
  if (!(await told()).startsWith(`request ${slow}:`)) faults.push(`the slowest request is ${slow}; what is told: ${await told()}`);
  const where = () => tab.ask(`(() => { const b = document.querySelector("#panel-timeline .field").getBoundingClientRect(); return [b.left, b.top, b.width, b.height, innerHeight]; })()`);
  const shown = await where();
  if (!(shown[1] >= 0 && shown[1] < shown[4] * 0.6)) faults.push(`the row of the slowest request leads to ${Math.round(shown[1])} px`);
  const marked = await tab.ask(`document.querySelectorAll("#slowest tr.picked").length`);
  if (marked !== 1) faults.push(`${marked} rows are marked`);
  const slot = await tab.ask(`/in slot (\\d+)/.exec(document.getElementById("picked-words").textContent)[1]`);
  await tab.ask(`location.hash = location.hash.replace(/&?pick=[^&]*/, "")`);
  await pause(200);
  if (await told()) faults.push(`nothing is picked, and told is ${await told()}`);
  await tab.ask(`document.querySelector("#panel-timeline .field").scrollIntoView({ block: "center" })`);
  const box = await where(), rows = await tab.ask(`Array.from(document.querySelectorAll("#panel-timeline .left span")).map((l) => [l.textContent, l.getBoundingClientRect().top])`);
  const row = rows.find((one) => one[0] === slot);
  if (!row) return [...faults, `no row ${slot}`];
  // Where its middle is drawn: the address has the range, counted from the first slice.
  const share = await tab.ask(`(() => {
    const lines = (id) => document.getElementById("csv-" + id)?.textContent.split("\\n").slice(1).filter(Boolean).map((line) => line.split(",")) ?? [];
    const of = (id, from) => lines(id).map((f) => [+f[from], +f[from + 1]]), all = [...of("requests", 6), ...of("operations", 1), ...of("victims", 2)];
    const low = Math.min(...all.map((one) => one[0])), high = Math.max(...all.map((one) => one[1]));
    const range = /zoom=1/.test(location.hash) ? /range=([^&]*)/.exec(location.hash)[1].split("-").map(Number) : [0, high - low];
    const f = lines("requests").find((one) => one[0] === ${JSON.stringify(slow)});
    return ((+f[6] + +f[7]) / 2 - low - range[0]) / (range[1] - range[0]);
  })()`);
  const x = box[0] + box[2] * share, y = row[1] + 8;
  await tab.mouse("mouseMoved", x, y); await tab.mouse("mousePressed", x, y, 1); await tab.mouse("mouseReleased", x, y);
  await pause(200);
  if (!(await told()).startsWith(`request ${slow}:`)) faults.push(`a click on request ${slow}: ${await told()}`);
  if (!(await tab.ask(`document.getElementById("tip").textContent`)).includes(`request ${slow}`)) faults.push("no words under the pointer");
  const listed = await tab.ask(`document.querySelectorAll("#panel-picked tbody tr").length`), bars = await tab.ask(`document.querySelectorAll("#panel-picked .hbar .track span").length`);
  if (!(listed > 0 && bars > 0)) faults.push(`${listed} operations and ${bars} causes of the slowest request`);
  await tab.ask(`location.hash = ""`);
  await pause(200);
  return faults;
}

// Answers, keys, a drag, and the address.
async function used(browser, tab, url, look) {
  const faults = [];
  const inView = (id) => tab.ask(`(() => { const b = document.getElementById(${JSON.stringify(id)}).getBoundingClientRect();
    return b.top > -5 && b.top < innerHeight * 0.5 && b.right <= innerWidth + 1; })()`);
  const answers = await tab.ask(`document.querySelectorAll("#brief li").length`);
  const led = await tab.ask(`document.querySelectorAll("#brief .tool").length`);
  const inFirst = await tab.ask(`document.getElementById("brief") ? document.getElementById("brief").getBoundingClientRect().bottom : 0`);
  if (answers !== led) faults.push(`${answers} answers, ${led} lead to a panel`);
  if (look.width > 600 && inFirst > 800) faults.push(`the answers end at ${Math.round(inFirst)} px: beyond the first screen`);
  for (let n = 0; n < led; n++) {
    await tab.ask(`scrollTo(0, 0)`);
    await tab.ask(`document.querySelectorAll("#brief .tool")[${n}].click()`);
    await pause(120);
    const id = await tab.ask(`"panel-" + (/panel=(\\w+)/.exec(location.hash) || [])[1]`);
    if (!(await inView(id))) faults.push(`answer ${n}: ${id} is not in view after one click`);
  }
  if (await tab.ask(`!!document.getElementById("panel-timeline")`)) faults.push(...await picked(tab));
  // The blocks before the end of the run, by key.
  if (await tab.ask(`!!document.querySelector("#panel-map input")`)) {
    const most = () => tab.ask(`document.querySelector("#panel-map .value").textContent`), end = await most();
    await tab.ask(`document.querySelector("#panel-map input").scrollIntoView({ block: "center" })`);
    await tab.ask(`document.querySelector("#panel-map input").focus()`);
    await tab.press("Home");
    await pause(200);
    if (!(await tab.ask(`/frame=0/.test(location.hash)`)) || (await most()) === end) faults.push(`the blocks at the start: ${await most()}, at the end: ${end}`);
    await tab.press("End");
    await pause(200);
    if ((await most()) !== end || (await tab.ask(`/frame=/.test(location.hash)`))) faults.push("the slider does not lead back to the end");
  }
  const lane = await tab.ask(`(() => { const f = document.querySelector(${JSON.stringify(LANE)}); if (!f) return null;
    f.scrollIntoView({ block: "center" }); const b = f.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()`);
  if (!lane) return faults;
  const [left, top, width, height] = lane, y = top + height / 2;
  if (look.width > 600) {
    await tab.mouse("mouseMoved", left + width * 0.2, y);
    await tab.mouse("mousePressed", left + width * 0.2, y, 1);
    for (const at of [0.3, 0.4, 0.5]) await tab.mouse("mouseMoved", left + width * at, y, 1);
    await tab.mouse("mouseReleased", left + width * 0.5, y);
    await pause(150);
    if (!(await tab.ask(`/range=/.test(location.hash)`))) faults.push("a drag chose no range");
    if (!(await tab.ask(`getComputedStyle(document.getElementById("tip")).visibility === "visible"`))) faults.push("no numbers under the pointer");
  }
  await tab.ask(`document.querySelector(${JSON.stringify(LANE)}).focus()`);
  for (const key of ["Escape", "ArrowRight", "ArrowRight"]) await tab.press(key);
  await pause(120);
  if (!(await tab.ask(`/at=/.test(location.hash)`))) faults.push("arrow keys moved no crosshair");
  await tab.press("ArrowRight", 8); await tab.press("ArrowRight", 8);
  await pause(120);
  if (!(await tab.ask(`/range=/.test(location.hash)`))) faults.push("shift and arrows chose no range");
  await tab.press("Enter");
  await pause(150);
  const shows = `[document.querySelector(".bar-top .said").textContent, document.querySelectorAll(".lane").length,
    Array.from(document.querySelectorAll(".lane .value")).map((v) => v.textContent).join("|")].join("#")`;
  await throughout(tab, true);
  const hash = await tab.ask("location.hash"), here = await tab.ask(shows);
  const other = await Tab.open(browser, look);
  await other.go(url + hash);
  await throughout(other, true);
  const there = await other.ask(shows);
  if (here !== there) faults.push(`the address ${hash} shows another view elsewhere:\n      ${here.slice(0, 200)}\n      ${there.slice(0, 200)}`);
  faults.push(...other.faults);
  await other.close();
  return faults;
}

// A live page: what it keeps, over a reload too, the crosshair, the address.
async function lived(tab, url) {
  const faults = [], kept = () => tab.ask(`+document.getElementById("panels").dataset.kept`);
  await pause(3000);
  const before = await kept(), panels = await tab.ask(`document.querySelectorAll("[data-live]").length`);
  if (!(before > 1 && panels > 3)) faults.push(`${panels} live panels, ${before} events`);
  await tab.ask(`document.querySelectorAll(".bar-top .tool")[0].click()`);
  if (!(await tab.ask(`/span=60/.test(location.hash)`))) faults.push("a span is not in the address");
  await tab.ask(`document.querySelector("[data-live] .field").focus()`);
  await tab.press("ArrowLeft");
  await pause(150);
  if (!(await tab.ask(`!document.querySelector("[data-live] .crosshair").hidden`))) faults.push("arrow keys moved no crosshair");
  await tab.go(url);
  await pause(1500);
  const after = await kept();
  if (!(after >= before)) faults.push(`${before} events before it was opened again, ${after} after`);
  return faults;
}

async function look(browser, page, at, shots) {
  const url = /^https?:/.test(page) ? page : `file://${path.resolve(page)}`;
  const tab = await Tab.open(browser, at);
  await tab.go(url);
  const cpu = await tab.cpu(), faults = [];
  await throughout(tab, at.script);
  const found = await tab.ask(`(${layout})(${LEAST_PX})`);
  faults.push(...found.faults);
  const isView = await tab.ask(`!!document.getElementById("panels")`);
  const beside = path.join(path.dirname(page), "results.json");
  if (isView && !at.script && fs.existsSync(beside)) {
    const results = JSON.parse(fs.readFileSync(beside, "utf8"));
    if (String(results.schema).startsWith("varve.run/")) {
      faults.push(...missing(await tab.ask(WORDS), results).map((what) => `not in the page: ${what}`));
    }
  }
  // Folded, all studies are a few screens; then each is looked at. A study that has a page of its own is as long as it is.
  const folded = await tab.ask(`document.querySelectorAll("details").length`);
  const alone = await tab.ask(`!!document.querySelector("main") && !document.querySelector("details.page")`);
  if (!isView && !alone && at.width === 1280 && found.height > MOST_HIGH) faults.push(`${found.height} px high, folded: at most ${MOST_HIGH}`);
  if (!isView && folded) {
    await tab.ask(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`);
    await throughout(tab, at.script);
    const open = await tab.ask(`(${layout})(${LEAST_PX})`);
    faults.push(...open.faults.filter((what) => !found.faults.includes(what)).map((what) => `unfolded: ${what}`));
    if (!shots) await tab.ask(`document.querySelectorAll("details").forEach((d) => { d.open = false; })`);
  }
  if (shots) {
    const name = `${path.basename(path.dirname(page))}-${path.basename(page, ".html")}-${at.width}-${at.dark ? "dark" : "light"}${at.script ? "" : "-noscript"}.png`;
    await tab.shot(path.join(shots, name));
  }
  const isLive = at.script && await tab.ask(`!!document.getElementById("power")`);
  if (isLive) faults.push(...await lived(tab, url));
  else if (isView && at.script) faults.push(...await used(browser, tab, url, at));
  faults.push(...tab.faults);
  await tab.close();
  return { faults, height: found.height, cpu };
}

// Pages that are wrong, and what must be said of each.
const WRONG = [
  ["<p style='font-size:10px'>small</p>", "10.0 px: small"],
  ["<svg viewBox='0 0 600 100' width='300'><text x='9' y='50' font-size='14'>scaled</text></svg>", "7.0 px: scaled"],
  ["<div style='width:1400px;height:9px;background:red'></div>", "px wide in a window of"],
  ["<figure><span style='position:absolute;left:9px;top:40px'>one label</span><span style='position:absolute;left:30px;top:44px'>another</span></figure>", "labels touch"],
  ["<figure><svg viewBox='0 0 600 200' width='600'><text font-size='14' transform='translate(200 90) rotate(-24)'>aslant upon</text><text font-size='14' transform='translate(204 94) rotate(-24)'>one another</text></svg></figure>", "labels touch"],
  ["<details><summary>more</summary><p style='font-size:10px'>small</p></details>", "unfolded: 10.0 px: small"],
  ["<script>nothing.at.all</script>", "error: ReferenceError"],
  ["<script>console.error('said')</script>", "console: said"],
  ["<img src='http://127.0.0.1:9/x.png' alt='x'>", "network: asks for http://127.0.0.1:9/x.png"],
  [`<div style='height:${MOST_HIGH + 1}px'></div>`, "px high, folded"],
];
// Pages that are right, whatever boxes around their texts may say.
const RIGHT = ["<p>nothing wrong</p>",
  "<figure><svg viewBox='0 0 600 200' width='600'><text font-size='14' transform='translate(200 90) rotate(-24)'>aslant beside</text><text font-size='14' transform='translate(240 90) rotate(-24)'>one another</text></svg></figure>"];
async function alarm(browser) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "varve-browser-alarm-"));
  let wrong = 0;
  for (const [body, expected] of [...WRONG, ...RIGHT.map((body) => [body, null])]) {
    const page = path.join(folder, "page.html");
    fs.writeFileSync(page, `<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>x</title><body style="font:14px sans-serif">${body}`);
    const { faults } = await look(browser, page, LOOKS[0], null);
    const heard = expected ? faults.some((what) => what.includes(expected)) : faults.length === 0;
    if (!heard) { wrong++; console.log(`not heard: ${expected || "silence"} of ${body}: ${faults.join("; ")}`); }
  }
  const lost = missing("1 2.5", { results: [{ a: 1, b: [2.5, 3] }] });
  if (lost.length !== 1 || !lost[0].includes("3")) { wrong++; console.log(`not heard: a number that is not there: ${lost}`); }
  fs.rmSync(folder, { recursive: true, force: true });
  console.log(`the alarm: ${WRONG.length + 1} faults planted, ${wrong} not heard`);
  return wrong;
}

// Seconds of CPU that a process has taken.
function taken(pid) {
  const fields = fs.readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
  return (+fields[11] + +fields[12]) / 100;
}
const MOST_SHARE = 2, MOST_MB = 50;

// A live page beside a drive at work. The rest of the time it is only looked at.
async function beside(browser, minutes, pid, url) {
  const tab = await Tab.open(browser, LOOKS[0]), faults = [], states = new Set();
  await tab.go(url);
  const kept = () => tab.ask(`+document.getElementById("panels").dataset.kept`);
  const since = Date.now(), before = taken(pid), over = since + minutes * 60000;
  let most = 0, again = false;
  while (Date.now() < over) {
    await pause(1000);
    states.add(await tab.ask(`document.getElementById("power").textContent`));
    const { metrics } = await tab.send("Performance.getMetrics");
    most = Math.max(most, metrics.find((m) => m.name === "JSHeapUsedSize").value / 1e6);
    if (!again && Date.now() > since + minutes * 30000) {
      again = true;
      const had = await kept();
      await tab.go(url);
      await pause(1500);
      const has = await kept();
      if (!(has >= had)) faults.push(`${had} events before it was opened again, ${has} after`);
    }
  }
  const share = (taken(pid) - before) / ((Date.now() - since) / 1000) * 100;
  if (share >= MOST_SHARE) faults.push(`${share.toFixed(2)} % of a core: less than ${MOST_SHARE} is promised`);
  if (most >= MOST_MB) faults.push(`${most.toFixed(1)} MB: less than ${MOST_MB} is promised`);
  if (states.size < 2) faults.push(`a power cut was not seen: ${[...states]}`);
  faults.push(...tab.faults);
  console.log(`${url}: ${minutes} minutes: the server takes ${share.toFixed(2)} % of a core, the page at most ${most.toFixed(1)} MB of its heap; ` +
    `${await kept()} events, of the power: ${[...states].join(", ")}; ${faults.length} faults`);
  faults.forEach((what) => console.log(`    ${what}`));
  await tab.close();
  return faults.length;
}

(async () => {
  const pages = process.argv.slice(2);
  if (pages[0] === "--beside") {
    const browser = new Browser(process.env.CHROMIUM || "chromium");
    const wrong = await beside(browser, +pages[1], pages[2], pages[3]);
    await browser.end();
    process.exit(wrong ? 1 : 0);
  }
  if (pages[0] === "--alarm") {
    const browser = new Browser(process.env.CHROMIUM || "chromium"), wrong = await alarm(browser);
    await browser.end();
    process.exit(wrong ? 1 : 0);
  }
  let shots = null;
  if (pages[0] === "--shots") { shots = pages[1]; pages.splice(0, 2); fs.mkdirSync(shots, { recursive: true }); }
  if (!pages.length) { console.error("browser.js: expected pages"); process.exit(2); }
  const browser = new Browser(process.env.CHROMIUM || "chromium");
  let wrong = 0;
  for (const page of pages) {
    const bytes = /^https?:/.test(page) ? 0 : fs.statSync(page).size;
    for (const at of LOOKS) {
      const name = `${at.width} px, ${at.dark ? "dark" : "light"}${at.script ? "" : ", no script"}`;
      const found = await look(browser, page, at, shots);
      console.log(`${page}: ${name}: ${Math.round(found.height)} px high, ${Math.round(found.cpu)} ms of CPU to open, ${found.faults.length} faults`);
      found.faults.forEach((what) => console.log(`    ${what}`));
      wrong += found.faults.length;
    }
    if (/report\.html$/.test(page) && bytes > MOST_BYTES) { wrong++; console.log(`${page}: ${bytes} bytes: at most ${MOST_BYTES}`); }
  }
  await browser.end();
  console.log(`${pages.length} pages, ${LOOKS.length} looks at each, ${wrong} faults`);
  process.exit(wrong ? 1 : 0);
})().catch((error) => { console.error(error); process.exit(2); });
