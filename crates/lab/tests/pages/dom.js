// Runs the script of a page on a document of our own: as much of a browser as that script asks for.
// What it asks for beyond that is an error here, not silence.
//
//   node dom.js PAGE.html [HASH]
//
// Prints, as JSON, how many figures and marks there are, how many of them show a tip under the pointer, the ids of what
// the link with this hash unfolds and shows; of a page of results its panels: their lanes, how much was drawn, what their
// heads say, and the address after the pointer has been over one.
"use strict";
const page = require("fs").readFileSync(process.argv[2], "utf8");
const source = /<script>([\s\S]*?)<\/script>/.exec(page)[1];

const scrolled = [];
class Style {}
class Element {
  constructor(tag, attributes, parent) {
    Object.assign(this, { tag, attributes, parent, children: [], listeners: {}, style: new Style(), own: "" });
    this.dataset = {};
    for (const [name, value] of Object.entries(attributes))
      if (name.startsWith("data-")) this.dataset[name.slice(5)] = value;
    this.classes = new Set((attributes.class || "").split(" ").filter(Boolean));
    this.classList = {
      contains: (name) => this.classes.has(name),
      toggle: (name, on) => (on ? this.classes.add(name) : this.classes.delete(name)),
    };
    this.offsetWidth = 80;
    this.offsetHeight = 20;
    if (tag === "svg") {
      const [, , width, height] = attributes.viewbox.split(" ").map(Number);
      this.viewBox = { baseVal: { width, height } };
    }
  }
  get textContent() { return this.own + this.children.map((child) => child.textContent).join(""); }
  set textContent(text) { this.own = text; this.children = []; }
  get parentNode() { return this.parent; }
  get tagName() { return this.tag.toUpperCase(); }
  scrollIntoView() { scrolled.push(this.attributes.id); }
  // What a page of results asks for beyond that of studies.
  get className() { return [...this.classes].join(" "); }
  set className(names) { this.classes = new Set(names.split(" ").filter(Boolean)); this.classList.contains = (name) => this.classes.has(name); }
  get id() { return this.attributes.id || ""; }
  set id(id) { this.attributes.id = id; }
  get rows() { return this.all().filter((one) => one.tag === "tr"); }
  get cells() { return this.children.filter((one) => one.tag === "td" || one.tag === "th"); }
  get tBodies() { return this.children.filter((one) => one.tag === "tbody"); }
  get tHead() { return this.children.find((one) => one.tag === "thead"); }
  get firstChild() { return this.children[0] || null; }
  get clientWidth() { return 400; }
  get scrollWidth() { return 400; }
  get scrollLeft() { return 0; }
  insertBefore(child, before) {
    child.parent = this;
    this.children.splice(before ? this.children.indexOf(before) : this.children.length, 0, child);
    return child;
  }
  removeAttribute(name) { delete this.attributes[name.toLowerCase()]; }
  getContext() {
    const drawn = (this.drawn = { strokes: 0, wrong: 0 });
    const note = (...at) => { drawn.strokes++; if (at.some((v) => !Number.isFinite(v))) drawn.wrong++; };
    const quiet = () => {};
    return { setTransform: quiet, beginPath: quiet, closePath: quiet, fill: quiet, stroke: quiet, setLineDash: quiet,
      fillRect: note, moveTo: note, lineTo: note };
  }
  getAttribute(name) { return this.attributes[name.toLowerCase()] ?? null; }
  setAttribute(name, value) { this.attributes[name.toLowerCase()] = String(value); }
  addEventListener(name, listener) { (this.listeners[name] ||= []).push(listener); }
  fire(name, event) { (this.listeners[name] || []).forEach((listener) => listener(event)); }
  appendChild(child) {
    if (child.parent && child.parent !== this) child.parent.children = child.parent.children.filter((one) => one !== child);
    if (child.parent === this) this.children = this.children.filter((one) => one !== child);
    child.parent = this;
    this.children.push(child);
    return child;
  }
  getBoundingClientRect() { return { left: 0, top: 0, width: this.viewBox ? this.viewBox.baseVal.width : 400, height: 100 }; }
  all() { return this.children.flatMap((child) => [child, ...child.all()]); }
  matches(simple) {
    const parts = simple.match(/^[a-z]+|[.#][\w-]+|\[[\w-]+\]/g);
    if (!parts || parts.join("") !== simple) throw new Error(`dom.js cannot read the selector ${simple}`);
    return parts.every((part) =>
      part[0] === "." ? this.classes.has(part.slice(1))
      : part[0] === "#" ? this.attributes.id === part.slice(1)
      : part[0] === "[" ? part.slice(1, -1) in this.attributes
      : this.tag === part);
  }
  querySelectorAll(selector) {
    const steps = selector.split(" "), last = steps.pop();
    return this.all().filter((element) => {
      if (!element.matches(last)) return false;
      let above = element.parent;
      for (const step of [...steps].reverse()) {
        while (above && !above.matches(step)) above = above.parent;
        if (!above) return false;
        above = above.parent;
      }
      return true;
    });
  }
  querySelector(selector) { return this.querySelectorAll(selector)[0] || null; }
}

const empty = new Set(["meta", "link", "br", "col", "input"]);
const root = new Element("root", {}, null);
const said = (text) => text.replace(/&(lt|gt|quot|#39|amp);/g, (_, name) => ({ lt: "<", gt: ">", quot: '"', "#39": "'", amp: "&" })[name]);
let open = root;
for (const [, close, tag, rest, self, words] of page.replace(/<(script|style)>[\s\S]*?<\/\1>/g, "")
  .matchAll(/<(\/?)([a-z][a-z0-9]*)((?:[^>"]|"[^"]*")*?)(\/?)>|([^<]+)/gi)) {
  if (words !== undefined) {
    const node = open.appendChild(new Element("text", {}, null));
    node.own = said(words);
    continue;
  }
  const name = tag.toLowerCase();
  if (close) {
    while (open.tag !== name && open !== root) open = open.parent;
    if (open === root) throw new Error(`</${name}> closes nothing`);
    open = open.parent;
    continue;
  }
  const attributes = {};
  for (const [, key, value] of rest.matchAll(/([\w-]+)(?:="([^"]*)")?/g)) attributes[key.toLowerCase()] = said(value ?? "");
  const element = open.appendChild(new Element(name, attributes, null));
  if (!self && !empty.has(name)) open = element;
}

const document = {
  documentElement: root.querySelector("html"),
  getElementById: (id) => root.all().find((one) => one.attributes.id === id) || null,
  querySelector: (selector) => root.querySelector(selector),
  querySelectorAll: (selector) => root.querySelectorAll(selector),
  createElement: (tag) => new Element(tag, {}, null),
  createTextNode: (text) => { const node = new Element("text", {}, null); node.own = text; return node; },
};
// One at a time, as a browser would: what is asked for while one runs comes after it.
const later = [];
const location = { hash: process.argv[3] || "", pathname: "page.html", search: "", href: "page.html" };
const history = { replaceState: (_, __, url) => { location.hash = url.includes("#") ? url.slice(url.indexOf("#")) : ""; } };
const frames = () => { for (let n = 0; later.length && n < 99; n++) later.shift()(); };
new Function("document", "matchMedia", "navigator", "getComputedStyle", "innerWidth", "innerHeight", "location", "history", "window",
  "addEventListener", "requestAnimationFrame", source)(
  document,
  () => ({ matches: false, addEventListener: () => {} }),
  { clipboard: { writeText: () => Promise.resolve() } },
  () => ({ stroke: "black", getPropertyValue: () => " #123456" }),
  1000,
  800,
  location,
  history,
  { devicePixelRatio: 2 },
  () => {},
  (act) => later.push(act),
);
frames();

const mostErased = root.querySelector("#panel-map .value")?.textContent ?? "";
// Before the pointer chooses another range.
const beside = root.querySelectorAll("#beside a").map((one) => one.getAttribute("href"));
const tip = document.getElementById("tip");
function shown(target, event) {
  tip.textContent = "";
  tip.style.visibility = "hidden";
  target.fire("pointermove", event);
  const said = tip.style.visibility === "visible" ? tip.textContent : "";
  target.fire("pointerleave", event);
  return said !== "" && tip.style.visibility === "hidden" && !/NaN|undefined/.test(said);
}
const marks = root.querySelectorAll(".chart svg [data-tip]");
const lanes = root.querySelectorAll(".panel .lane"), fields = root.querySelectorAll(".panel .plot .field");
const panels = root.querySelectorAll(".panel").filter((one) => !one.hidden);
const drawn = (one) => one.all().filter((at) => at.drawn);
const sum = (all) => all.reduce((total, one) => total + one, 0);
const heads = lanes.map((lane) => lane.querySelector(".value")?.textContent ?? "");
const shows = fields.filter((field) => field.listeners.pointermove);
const event = (x) => ({ clientX: x, clientY: 50, button: 0, pointerId: 1 });
const tips = shows.filter((field) => shown(field, event(100))).length;
for (const [name, x] of [["pointerdown", 100], ["pointermove", 200], ["pointerup", 200]]) shows[0]?.fire(name, event(x));
frames();
console.log(JSON.stringify({
  scrolled,
  unfolded: root.querySelectorAll("details").filter((one) => one.open).map((one) => one.attributes.id || ""),
  figures: root.querySelectorAll(".chart svg").length,
  panels: panels.map((one) => one.id.replace("panel-", "")),
  lanes: lanes.length,
  empty: panels.flatMap((one) => drawn(one).filter((at) => at.drawn.strokes === 0)).length,
  strokes: sum(panels.flatMap(drawn).map((at) => at.drawn.strokes)),
  wrong: sum(panels.flatMap(drawn).map((at) => at.drawn.wrong)),
  unsaid: heads.filter((words) => /NaN|undefined|Infinity/.test(words)),
  fields: shows.length,
  tips,
  answers: root.querySelectorAll("#brief li").length,
  led: root.querySelectorAll("#brief .tool").length,
  sorted: root.querySelectorAll("#summary th .tool").length,
  picked: root.all().find((one) => one.attributes.id === "panel-picked")?.textContent ?? "",
  listed: root.querySelectorAll("#panel-picked tr").length,
  beside,
  most_erased: mostErased,
  address: location.hash,
  marks: marks.length,
  marks_with_tip: marks.filter((mark) => shown(mark, { clientX: 10, clientY: 10 })).length,
}));
