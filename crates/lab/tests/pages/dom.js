// Runs the script of a page on a document of our own: as much of a browser as that script asks for.
// What it asks for beyond that is an error here, not silence.
//
//   node dom.js PAGE.html [HASH]
//
// Prints, as JSON, how many charts and marks there are, how many of them show a tip under the pointer, and the ids of
// what the link with this hash unfolds and shows.
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
  getAttribute(name) { return this.attributes[name.toLowerCase()] ?? null; }
  setAttribute(name, value) { this.attributes[name.toLowerCase()] = String(value); }
  addEventListener(name, listener) { (this.listeners[name] ||= []).push(listener); }
  fire(name, event) { (this.listeners[name] || []).forEach((listener) => listener(event)); }
  appendChild(child) { child.parent = this; this.children.push(child); return child; }
  getBoundingClientRect() { return { left: 0, top: 0, width: this.viewBox.baseVal.width }; }
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
let open = root;
for (const [, close, tag, rest, self] of page.replace(/<(script|style)>[\s\S]*?<\/\1>/g, "")
  .matchAll(/<(\/?)([a-z][a-z0-9]*)((?:[^>"]|"[^"]*")*?)(\/?)>/gi)) {
  const name = tag.toLowerCase();
  if (close) {
    while (open.tag !== name && open !== root) open = open.parent;
    if (open === root) throw new Error(`</${name}> closes nothing`);
    open = open.parent;
    continue;
  }
  const attributes = {};
  for (const [, key, value] of rest.matchAll(/([\w-]+)(?:="([^"]*)")?/g)) attributes[key.toLowerCase()] = value ?? "";
  const element = open.appendChild(new Element(name, attributes, open));
  if (!self && !empty.has(name)) open = element;
}

const document = {
  documentElement: root.querySelector("html"),
  getElementById: (id) => root.querySelector(`#${id}`),
  querySelector: (selector) => root.querySelector(selector),
  querySelectorAll: (selector) => root.querySelectorAll(selector),
  createElement: (tag) => new Element(tag, {}, null),
  createTextNode: (text) => { const node = new Element("text", {}, null); node.own = text; return node; },
};
new Function("document", "matchMedia", "navigator", "getComputedStyle", "innerWidth", "innerHeight", "location",
  "addEventListener", source)(
  document,
  () => ({ matches: false }),
  { clipboard: { writeText: () => Promise.resolve() } },
  () => ({ stroke: "black" }),
  1000,
  800,
  { hash: process.argv[3] || "" },
  () => {},
);

const tip = document.getElementById("tip");
function shown(target, event) {
  tip.textContent = "";
  tip.style.visibility = "hidden";
  target.fire("pointermove", event);
  const said = tip.style.visibility === "visible" ? tip.textContent : "";
  target.fire("pointerleave", event);
  return said !== "" && tip.style.visibility === "hidden" && !/NaN|undefined/.test(said);
}
const over = root.querySelectorAll(".chart svg[data-frame]"), marks = root.querySelectorAll(".chart svg [data-tip]");
// Somewhere on the axis a line passes under the pointer.
const found = (svg) => Array.from({ length: 28 }, (_, i) => 20 * i).some((x) => shown(svg, { clientX: x, clientY: 50 }));
console.log(JSON.stringify({
  scrolled,
  unfolded: root.querySelectorAll("details").filter((one) => one.open).map((one) => one.attributes.id || ""),
  figures: root.querySelectorAll(".chart svg").length,
  charts: over.length,
  charts_with_tip: over.filter(found).length,
  marks: marks.length,
  marks_with_tip: marks.filter((mark) => shown(mark, { clientX: 10, clientY: 10 })).length,
}));
